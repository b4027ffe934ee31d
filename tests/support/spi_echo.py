"""An SPI slave that answers each byte with its complement, exclusive-or its place in the transaction.

What a program reads tells it thereby where chip select was high.
"""

from phy.spi.bus import SpiBus, SpiTransfer


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
