"""A port that wraps an SPI slave and counts the bytes clocked.

SPI is full duplex: as many bytes come as go. A command is a transaction, chip select low to high, whose first
byte is not one of those that have no effect. Each block of a model is one, and each poll of the status.
"""

from collections.abc import Sequence

from aisrv.monitor.values import Traffic
from phy.spi.bus import SpiPort, SpiTransfer
from phy.spi.spi_relay_port import SpiRelayPort
from phy.spi.transaction import NO_EFFECT


class CountedSpiPort(SpiRelayPort):
    """Counts messages as they are answered."""

    def __init__(self, inner: SpiPort) -> None:
        super().__init__(inner)
        self._begun = False
        self._clocked = 0
        self._commands = 0

    @property
    def traffic(self) -> Traffic:
        """Traffic so far."""
        return Traffic(self._clocked, self._clocked, self._commands)

    async def _relay_message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        answers = await super()._relay_message(transfers)
        for transfer in transfers:
            self._count(transfer)
        return answers

    async def _relay_release(self) -> None:
        await super()._relay_release()
        self._begun = False

    def _count(self, transfer: SpiTransfer) -> None:
        mosi = transfer.mosi
        self._clocked += len(mosi)
        if mosi and not self._begun:
            self._begun = True
            self._commands += mosi[0] not in NO_EFFECT
        if transfer.deselect:
            self._begun = False
