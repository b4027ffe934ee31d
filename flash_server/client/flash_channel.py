"""The client's side of the channel to a flash server.

Source: the design document, section Flash; "XCORE AI server: numbers and wire behavior", section Flash. What
of it is ours: failures, giving up, and the commands past READ_XIP. The tokens: `flash_server.transaction`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

import trio

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.verb import Steps
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.tokens import WORD_BYTES
from flash_server import transaction
from flash_server.boot.boot_image import REPORT_BYTES, BootReport
from flash_server.errors import FlashError
from flash_server.image.headers import Part
from flash_server.protocol import (
    PIECE_BYTES,
    FlashCommand,
    FlashFailure,
    FlashReadError,
    FlashRequest,
)

T = TypeVar("T")

_READ_COMMANDS = {
    Part.PARAMETERS: FlashCommand.READ_PARAMETERS,
    Part.OPERATORS: FlashCommand.READ_OPERATORS,
    Part.XIP: FlashCommand.READ_XIP,
}


_READ_MODEL = FlashRequest(FlashCommand.READ_MODEL)


class Sizes(NamedTuple):
    """Bytes that can be read of each segment; 0 if it is absent."""

    model: int
    parameters: int
    operators: int
    xip: int


class FlashChannel:
    """A client of a flash server, on one channel end, for one task at a time.

    Every method raises FlashReadError if the server answers with a failure. Whatever happens, a failure or a
    cancellation at any moment, the channel and the server are ready for the next command. `offset` and `size`
    are in bytes: of the part that is read, of the data partition for `read_data` and `write_data`.
    """

    def __init__(self, c: ChanEnd) -> None:
        self._c = c
        self._open = False  # a transaction is
        self._given_up = False  # one was given up, for which the server still owes ACK and END

    @property
    def runtime(self) -> Runtime:
        """Runtime that all resources of its node share."""
        return self._c.runtime

    # An engine's commands.

    async def read_model(self, limit: int) -> bytearray:
        """Read the whole model, each byte copied once. FlashReadError with REFUSED past `limit` bytes."""
        async with self.open_model() as model:
            if model.length > limit:
                raise FlashReadError(
                    FlashFailure.REFUSED,
                    f"the model in flash has {model.length} bytes, there is room for {limit}",
                )
            data = bytearray(model.length)
            await model.read_into(memoryview(data))
            return data

    @asynccontextmanager
    async def open_model(self) -> AsyncIterator["ModelReader"]:
        """Begin to read the model: its length first, then its bytes as they are asked for.

        If the block is left before the end the rest is not sent; other commands wait until then.
        """
        reader = ModelReader(self, await self._perform(_READ_MODEL, self._begin_model()))
        try:
            yield reader
            if self._open and not reader.left:
                await self._perform(_READ_MODEL, self._close(_READ_MODEL))
        finally:
            await self._give_up()

    async def read_parameters(self, offset: int, size: int) -> bytes:
        """Read bytes of the parameters."""
        return await self.read(Part.PARAMETERS, offset, size)

    async def read(self, part: Part, offset: int, size: int) -> bytes:
        """Read bytes of a segment that takes offset and size: any but the model."""
        return await self._transact(FlashRequest(_READ_COMMANDS[part], (offset, size)), size)

    async def read_sizes(self) -> Sizes:
        """Ask for the bytes of each segment."""
        words = await self._transact(FlashRequest(FlashCommand.READ_SIZES), len(Part) * WORD_BYTES)
        sizes = (
            int.from_bytes(words[at : at + WORD_BYTES], "big") for at in range(0, len(words), WORD_BYTES)
        )
        return Sizes(*sizes)

    # A loader's commands.

    async def read_boot_report(self) -> BootReport:
        """Ask for the report of the last reset."""
        return BootReport.from_bytes(await self._transact(FlashRequest(FlashCommand.READ_BOOT), REPORT_BYTES))

    async def write_server(self, offset: int, data: bytes) -> None:
        """Send `data`, the next bytes of a server image; offset 0 begins an upgrade."""
        for at in range(0, len(data), PIECE_BYTES):
            piece = data[at : at + PIECE_BYTES]
            await self._transact(FlashRequest(FlashCommand.WRITE_SERVER, (offset + at,), piece), 0)

    async def finish_server(self) -> None:
        """End the upgrade: it is verified, and counts from the next reset on."""
        await self._transact(FlashRequest(FlashCommand.FINISH_SERVER), 0)

    async def read_data(self, offset: int, size: int) -> bytes:
        """Read bytes of the data partition as the chip stores them."""
        return await self._transact(FlashRequest(FlashCommand.READ_DATA, (offset, size)), size)

    async def check_write(self, offset: int, size: int) -> None:
        """Raise FlashReadError if `write_data` would: for code that runs in place, or bytes of no flash.

        A write of many pieces would be refused in the middle.
        """
        await self._transact(FlashRequest(FlashCommand.CHECK_WRITE, (offset, size)), 0)

    async def write_data(
        self, offset: int, data: bytes, progress: Callable[[int], None] | None = None
    ) -> None:
        """Store bytes in the data partition from the start of a sector on, and verify them.

        Engines read nothing until `reload`. `progress` is called with the bytes done after each sector.
        """
        for at in range(0, len(data), PIECE_BYTES):
            piece = data[at : at + PIECE_BYTES]
            await self._transact(FlashRequest(FlashCommand.WRITE_DATA, (offset + at,), piece), 0)
            if progress is not None:
                progress(at + len(piece))

    async def reload(self) -> None:
        """Let the server read the headers of the data partition again."""
        await self._transact(FlashRequest(FlashCommand.RELOAD), 0)

    # Transactions.

    async def _transact(self, request: FlashRequest, size: int) -> bytes:
        return await self._perform(request, self._request_and_answer(request, size))

    async def _perform(self, request: FlashRequest, steps: Steps[T]) -> T:
        try:
            return await self._c.run_verb(str(request), steps)
        except FlashReadError:  # which closes the transaction
            self._open = False
            raise
        except trio.Cancelled:
            await self._give_up()
            raise

    async def _give_up(self) -> None:
        """Release the server if a transaction is open; does not wait, so it works when cancelled."""
        if self._open:
            self._open, self._given_up = False, True
            await transaction.give_up(self._c)

    def _request_and_answer(self, request: FlashRequest, size: int) -> Steps[bytes]:
        yield from self._request(request)
        data = yield from transaction.receive_bytes(self._c, request, size)
        yield from self._close(request)
        return data

    def _begin_model(self) -> Steps[int]:
        yield from self._request(_READ_MODEL)
        return int.from_bytes((yield from transaction.receive_bytes(self._c, _READ_MODEL, WORD_BYTES)))

    def _request(self, request: FlashRequest) -> Steps[None]:
        if self._given_up:
            yield from transaction.await_acknowledgment(self._c)
            self._given_up = False
        if self._open:
            raise FlashError(f"{request} while a model is being read: leave the block of open_model first")
        self._open = True
        yield from transaction.send_request(self._c, request)

    def _close(self, request: FlashRequest) -> Steps[None]:
        yield from transaction.end_request(self._c, request)
        self._open = False


class ModelReader:
    """A model that is being read: its length, and its bytes in order. Made by `FlashChannel.open_model`."""

    def __init__(self, flash: FlashChannel, length: int) -> None:
        self._flash = flash
        self.length = length
        self.left = length
        """Bytes not read yet."""

    async def read(self, size: int) -> bytes:
        """Read the next `size` bytes, or the rest if that is less."""
        size = min(size, self.left)
        flash = self._flash
        data = await flash._perform(_READ_MODEL, transaction.receive_bytes(flash._c, _READ_MODEL, size))
        self.left -= size
        return data

    async def read_into(self, view: memoryview) -> None:
        """Fill a view with the next bytes. Raises ValueError if it is longer than the rest."""
        if len(view) > self.left:
            raise ValueError(f"a view of {len(view)} bytes, {self.left} bytes of the model are left")
        flash = self._flash
        await flash._perform(_READ_MODEL, transaction.receive_into(flash._c, _READ_MODEL, view))
        self.left -= len(view)
