"""A peer's byte stream. HTTP ends it, and so does a peer that never takes its answer."""

from typing import Final

import trio

from aisrv.attach.http import is_http, what_came
from aisrv.attach.turns import Turns

SEND_SECONDS: Final = 30.0
"""Time that a peer has to take what is sent to it."""

HTTP_BYTES: Final = 4
"""First bytes that tell HTTP from a message: three letters of a method can begin a Jacdac frame."""


class PeerError(Exception):
    """A peer whose connection ends for what no listener allows."""


class PeerStream:
    """The stream of one peer of a `StreamServer`. Closing it is the server's."""

    def __init__(self, stream: trio.SocketStream, turns: Turns, *, takes_http: bool = False) -> None:
        """Wrap `stream`; HTTP in its first bytes is refused unless the listener is one that `takes_http`.

        `turns` are those of the listener.
        """
        self._stream = stream
        self._turns = turns
        self._has_more = False
        self._start = b""
        self._checked = takes_http

    @property
    def socket(self) -> trio.socket.SocketType:
        """The socket below, for a listener that reads and writes it by itself once a peer is known."""
        return self._stream.socket

    async def receive_some(self, most: int) -> bytes | bytearray:
        """Receive 1 to `most` bytes, or none at the end of the stream.

        A peer whose last bytes were as many as were asked for has more, and waits for its turn.

        Raises PeerError where the stream begins as HTTP does, and what Trio raises for a broken connection.
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
                raise PeerError(what_came(self._start))
            self._checked = len(self._start) >= HTTP_BYTES
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`.

        Raises PeerError where the peer does not take them within `SEND_SECONDS`, and what Trio raises for a
        broken connection.
        """
        with trio.move_on_after(SEND_SECONDS) as patience:
            await self._stream.send_all(data)
        if patience.cancelled_caught:
            raise PeerError(f"did not take {len(data)} bytes within {SEND_SECONDS:g} s")
