"""The socket of one intercepted file: calls come in, and the client's memory is read and written.

The library takes each message with a single `recv` and expects it whole, so that no message may be torn:
short ones leave in one `send`, and long data are sent apart from the messages around them.
"""

from collections.abc import Sequence
from typing import Final

import trio

from aisrv.attach.preload.wire import Command, Message, WireError

_WHOLE: Final = 4096
"""Bytes that a Unix socket takes in one piece or not at all: less than half of the smallest send buffer."""

_AT_ONCE: Final = _WHOLE // Message.SIZE

_RECEIVE: Final = 256 * 1024


class PreloadStream:
    """One client's connection. Every method may raise BrokenResourceError if the client is gone."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._writes: list[tuple[int, bytes | memoryview]] = []

    async def next_call(self) -> Message | None:
        """Wait for a call of the client; None at the end of the stream. Raises WireError."""
        data = b"".join(await self._receive(Message.SIZE))
        return Message.from_bytes(data) if data else None

    async def run(self) -> None:
        """Let the client make its call as if it had not been intercepted, and end it with its result."""
        await self._stream.send_all(bytes(Message(Command.RUN)))
        result = await self.next_call()
        if result is None or result.command != Command.RESULT:
            raise WireError(f"the result of a call was expected, and {result} came")
        await self.done(result.first, result.second)

    async def read_memory(self, address: int, size: int) -> bytes:
        """Fetch `size` bytes of the client's memory. Raises WireError."""
        return (await self.read_memories(((address, size),)))[0]

    async def read_memories(self, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
        """Fetch pieces of memory, each an address and a size, in one round trip. Raises WireError."""
        await self._ask_for(pieces)
        return [b"".join(await self._receive_memory(size)) for _, size in pieces]

    async def read_large_memory(self, address: int, size: int) -> list[bytes]:
        """Fetch memory in the pieces in which the bytes come: to join many would take long."""
        await self._ask_for(((address, size),))
        return await self._receive_memory(size)

    async def _ask_for(self, pieces: Sequence[tuple[int, int]]) -> None:
        requests = [bytes(Message(Command.READ_MEMORY, *piece)) for piece in pieces if piece[1]]
        for start in range(0, len(requests), _AT_ONCE):
            await self._stream.send_all(b"".join(requests[start : start + _AT_ONCE]))

    def write_memory(self, address: int, data: bytes | memoryview) -> None:
        """Write bytes to the client's memory before the call is done."""
        if data:
            self._writes.append((address, data))

    async def done(self, result: int, errno: int = 0) -> None:
        """End the client's call, after the writes of `write_memory`."""
        writes, self._writes = self._writes, []
        batch = b""
        for address, data in writes:
            batch += bytes(Message(Command.WRITE_MEMORY, address, len(data)))
            if len(batch) + len(data) + 2 * Message.SIZE <= _WHOLE:
                batch += data
            else:
                await self._stream.send_all(batch)
                await self._stream.send_all(data)
                batch = b""
        await self._stream.send_all(batch + bytes(Message(Command.DONE, result, errno)))

    async def _receive_memory(self, size: int) -> list[bytes]:
        data = await self._receive(size) if size else []
        if size and not data:
            raise WireError(f"the stream ended where {size} bytes of memory were expected")
        return data

    async def _receive(self, size: int) -> list[bytes]:
        """Receive exactly `size` bytes; none at the end of the stream. Raises WireError."""
        pieces: list[bytes] = []
        missing = size
        while missing:
            data = await self._stream.receive_some(min(missing, _RECEIVE))
            if not data:
                if pieces:
                    raise WireError(f"the stream ended after {size - missing} of {size} bytes")
                break
            pieces.append(bytes(data))
            missing -= len(data)
        return pieces
