"""A port that passes a master's messages on to an SPI slave; extensions observe or change them."""

from collections.abc import Sequence

import trio

from phy.spi.bus import SpiPort, SpiTransfer


class SpiRelayPort(SpiPort):
    """Passes messages on to the slave behind `inner`, one at a time, in the order in which they come.

    An extension overrides `_relay_message` and `_relay_release`, which run one at a time.
    """

    def __init__(self, inner: SpiPort) -> None:
        self._inner = inner
        self._turn = trio.Lock()

    async def message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        await self._take_turn()
        try:
            return await self._relay_message(transfers)
        finally:
            self._turn.release()

    async def release(self) -> None:
        await self._take_turn()
        try:
            await self._relay_release()
        finally:
            self._turn.release()

    async def _relay_message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        """Pass a message to the slave and return its answer."""
        return await self._inner.message(transfers)

    async def _relay_release(self) -> None:
        await self._inner.release()

    async def _take_turn(self) -> None:
        try:
            self._turn.acquire_nowait()  # no checkpoint: the port behind has one
        except trio.WouldBlock:
            await self._turn.acquire()
