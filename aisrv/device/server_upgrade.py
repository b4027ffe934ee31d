"""SET_SERVER: writing a server image from the SPI port into the boot partition.

Source: "XCORE AI server: numbers and wire behavior", sections SPI and Flash.
"""

from collections.abc import Callable

from aisrv.protocol.commands import Status
from flash_server.client.flash_channel import FlashChannel
from flash_server.protocol import FlashReadError
from phy.spi.destination import Destination


class ServerUpgrade(Destination):
    """Writes an image as its blocks come. It counts from the next reset on, once all of it is verified."""

    def __init__(self, flash: FlashChannel, log: Callable[[str], None]) -> None:
        """Write through a loader's channel of a flash server; `log` takes what goes wrong."""
        self._flash = flash
        self._log = log
        self._written = 0
        self._failed = False

    async def begin(self) -> None:
        """Begin an image."""
        self._written = 0
        self._failed = False

    async def data(self, block: bytes) -> None:
        """Write a block; after a failure the rest of the image drains."""
        if self._failed:
            return
        try:
            await self._flash.write_server(self._written, block)
        except FlashReadError as error:
            self._fail(error)
        self._written += len(block)

    async def end(self, rest: bytes) -> Status:
        """Write the last block, verify the image and make it count."""
        if rest or not self._written:
            await self.data(rest)
        if not self._failed:
            try:
                await self._flash.finish_server()
            except FlashReadError as error:
                self._fail(error)
        return Status.ERROR_BAD_CMD if self._failed else Status.OKAY

    async def abandon(self) -> None:
        """Leave the image unfinished: it does not count, and the next one begins anew."""
        self._failed = True

    def _fail(self, error: FlashReadError) -> None:
        self._failed = True
        self._log(f"SET_SERVER: {error}")
