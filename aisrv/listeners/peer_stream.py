"""A peer's byte stream. HTTP ends it, and so does a peer that never takes its answer."""

import socket
from typing import Final

import trio

from aisrv.listeners.http import describe_unexpected, is_http
from aisrv.listeners.turns import Turns

SEND_SECONDS: Final = 30.0
"""Time that a peer has to take an answer."""

HTTP_BYTES: Final = 4
"""First bytes that tell HTTP from a message: three letters of a method can begin a Jacdac frame."""


class PeerError(Exception):
    """A peer whose connection ends because it breaks a rule of all listeners."""


class PeerStream:
    """Stream of one peer of a `StreamServer`, which closes it."""

    def __init__(
        self,
        stream: trio.SocketStream,
        turns: Turns,
        *,
        takes_http: bool = False,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        """Wrap `stream`, with its listener's `turns`; HTTP is refused unless `takes_http`."""
        self._stream = stream
        self._turns = turns
        self._has_more = False
        self._start = b""
        self._checked = takes_http
        self._send_seconds = send_seconds

    @property
    def socket(self) -> trio.socket.SocketType:
        """Socket below, for a listener that reads and writes it itself once a peer is known."""
        return self._stream.socket

    def limit_unsent(self, size: int) -> None:
        """Have the system keep about `size` bytes that the peer does not take, and no more."""
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    async def receive_some(self, most: int) -> bytes | bytearray:
        """Receive 1 to `most` bytes, or none at the end. Raises PeerError for HTTP, and Trio's errors.

        A peer that has sent as many bytes as were asked for has more, and waits for its turn.
        """
        if self._has_more:
            await self._turns.next()
        data = await self._stream.receive_some(most)
        if self._turns.are_taken and not self._has_more:
            await self._turns.next()
        self._has_more = len(data) == most
        if not self._checked:
            self._start += data[:HTTP_BYTES]
            if is_http(self._start[:HTTP_BYTES]) and len(self._start) >= HTTP_BYTES:
                raise PeerError(describe_unexpected(self._start))
            self._checked = len(self._start) >= HTTP_BYTES
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`. Raises PeerError if the peer does not take them in time, and Trio's errors."""
        with trio.move_on_after(self._send_seconds) as patience:
            await self._stream.send_all(data)
        if patience.cancelled_caught:
            raise PeerError(f"did not take {len(data)} bytes within {self._send_seconds:g} s")
