"""A port that stands before an SPI slave and counts what is clocked.

SPI is full duplex: as many bytes come as go. A command is a transaction, chip select low to high, whose
first byte is not one of those that have no effect. Each block of a model is one, and each poll of the status.
"""

from collections.abc import Sequence

import trio

from aisrv.monitor.values import Traffic
from phy.spi.bus import SpiPort, Transfer
from phy.spi.transaction import NO_EFFECT


class CountedSpiPort(SpiPort):
    """Counts messages as they are answered; slave and masters notice nothing."""

    def __init__(self, inner: SpiPort) -> None:
        self._inner = inner
        self._turn = trio.Lock()  # messages are counted in the order in which they are clocked
        self._begun = False
        self._clocked = 0
        self._commands = 0

    @property
    def traffic(self) -> Traffic:
        """What has crossed so far."""
        return Traffic(self._clocked, self._clocked, self._commands)

    async def message(self, transfers: Sequence[Transfer]) -> list[bytes]:
        """Clock a message; see `SpiPort.message`."""
        await self._take_turn()
        try:
            answers = await self._inner.message(transfers)
            for transfer in transfers:
                self._count(transfer)
        finally:
            self._turn.release()
        return answers

    async def release(self) -> None:
        """Let chip select go high; see `SpiPort.release`."""
        await self._take_turn()
        try:
            await self._inner.release()
            self._begun = False
        finally:
            self._turn.release()

    async def _take_turn(self) -> None:
        try:
            self._turn.acquire_nowait()  # no checkpoint: the port behind has one
        except trio.WouldBlock:
            await self._turn.acquire()

    def _count(self, transfer: Transfer) -> None:
        mosi = transfer.mosi
        self._clocked += len(mosi)
        if mosi and not self._begun:
            self._begun = True
            self._commands += mosi[0] not in NO_EFFECT
        if transfer.deselect:
            self._begun = False
