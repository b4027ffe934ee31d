"""SPI slaves on a bus: one answers each byte inverted, one exclusive-or its place in the transaction, too.

What a program reads of the latter tells it where chip select was high.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from phy.spi.bus import SpiBus, SpiTransfer


def inverted(mosi: bytes) -> bytes:
    return bytes(byte ^ 0xFF for byte in mosi)


@asynccontextmanager
async def inverting_bus() -> AsyncIterator[SpiBus]:
    """A bus whose slave answers every bit inverted."""
    bus = SpiBus()

    async def slave() -> None:
        while True:
            message = await bus.next_message()
            bus.answer(message, [inverted(each.mosi) for each in message.transfers])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave)
        yield bus
        nursery.cancel_scope.cancel()


def echo(mosi: bytes, start: int = 0) -> bytes:
    """What the slave answers, `start` bytes after chip select went low."""
    return bytes(byte ^ 0xFF ^ place & 0xFF for place, byte in enumerate(mosi, start))


class EchoSlave:
    """The slave on a bus of its own, and what it saw."""

    def __init__(self) -> None:
        self.bus = SpiBus()
        self.transfers: list[SpiTransfer] = []
        self.transactions: list[bytes] = []
        """What came from chip select low to high."""
        self._current = bytearray()

    @property
    def sent(self) -> bytes:
        """What came since chip select went low."""
        return bytes(self._current)

    async def run(self) -> None:
        while True:
            message = await self.bus.next_message()
            self.bus.answer(message, [self._clock(each) for each in message.transfers])

    def _clock(self, transfer: SpiTransfer) -> bytes:
        miso = echo(transfer.mosi, len(self._current))
        self.transfers.append(transfer)
        self._current += transfer.mosi
        if transfer.deselect:
            self.transactions.append(bytes(self._current))
            self._current.clear()
        return miso
