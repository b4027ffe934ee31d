"""The parameters that a model keeps in flash, read through the flash server for the engine that runs it."""

from aisrv.inference.errors import InvokeError
from flash_server.client.flash_channel import FlashChannel
from flash_server.protocol import FlashReadError


class FlashParameters:
    """A `ParameterSource` on an engine's channel to its flash server: a READ_PARAMETERS for each read."""

    def __init__(self, flash: FlashChannel) -> None:
        self._flash = flash

    async def read(self, offset: int, size: int) -> bytes:
        """Read `size` bytes of the parameters; InvokeError with the server's reason."""
        try:
            return await self._flash.read_parameters(offset, size)
        except FlashReadError as error:
            raise InvokeError(f"the parameters in flash cannot be read: {error}") from error
