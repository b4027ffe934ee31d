"""The SPI slave: the task that answers a master while it clocks.

It never waits for the engine or for its buffer: a slave cannot stretch the clock. Source: "XCORE AI server:
numbers and wire behavior", section SPI.
"""

from aisrv.xcore.channels.chanend import ChanEnd
from phy.spi.bus import SpiBus
from phy.spi.shared_memory import SharedMemory
from phy.spi.transaction import SpiTransaction


async def spi_slave(bus: SpiBus, memory: SharedMemory, c: ChanEnd) -> None:
    """Answer messages until cancelled.

    The command of a write, a word, goes down the streaming channel. The block is in the memory and the status
    BUSY before a message is answered. While it is BUSY no other write is taken: the channel has room for one
    word.
    """
    transaction = SpiTransaction(memory)
    bus.next_out = lambda: transaction.next_out()
    while True:
        message = await bus.next_message()
        miso = []
        action = None
        for transfer in message.transfers:
            miso.append(transaction.shift(transfer.mosi))
            if transfer.deselect:
                action = transaction.deselect() or action
                transaction = SpiTransaction(memory)
        bus.answer(message, miso)
        if action is not None:
            await c.outuint(action)
