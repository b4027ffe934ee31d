"""The server's side of HTTP and WebSocket: h11 reads the request, wsproto the messages. No policy.

Invalid input of a peer ends its own connection at most: with an answer of status 4xx before the upgrade, with
a close frame after it.
"""

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import h11
import trio
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Message, Ping
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError, generate_accept_token

from aisrv.listeners.peer_stream import PeerStream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REQUEST_SECONDS: Final = 10.0
LARGEST_REQUEST: Final = 8192
"""Bytes of a request's line and headers."""
LARGEST_MESSAGE: Final = 65536
"""Bytes of a message: the connection of a larger one is closed."""
_CHUNK: Final = 1024
"""Bytes that are taken in one turn: a message takes six at least, a frame of a Jacdac bus 22."""

SWITCHING: Final = 101
OKAY: Final = 200
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
NO_METHOD: Final = 405
TOO_LARGE: Final = 413
UPGRADE_REQUIRED: Final = 426

_KEY: Final = re.compile(rb"[A-Za-z0-9+/]{22}==")
"""16 bytes in Base64 (RFC 6455, section 4.1)."""
_ONCE: Final = (b"origin", b"sec-websocket-key", b"sec-websocket-version")
"""Headers that decide something: two of one are refused, as h11 does of Host."""


Headers: TypeAlias = "Sequence[tuple[bytes, bytes]]"


class WebSocketError(Exception):
    """A peer that sends neither a request nor a message, or nothing in time."""


class Refused(Exception):
    """A request that is answered by a status other than success; its text is the answer's body."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status: Final = status


class HttpRequest:
    """A request of a peer, and after its answer the next one: method, path and headers."""

    def __init__(self, stream: PeerStream, keep_alive: float = 0.0) -> None:
        """Take a peer's first request, and those that begin within `keep_alive` seconds of an answer."""
        self._stream = stream
        self._keep_alive = keep_alive
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_REQUEST - 1)
        self.method = b""
        self.target = ""
        """Path; bytes past ASCII are refused."""
        self.headers: Mapping[bytes, bytes] = {}
        """Values by lower-case name."""

    async def receive(self) -> bool:
        """Wait for a request; False if the peer leaves before, or none may follow the last one.

        Raises Refused, WebSocketError.
        """
        if self._http.our_state is not h11.IDLE and not await self._begins_again():
            return False
        with trio.move_on_after(REQUEST_SECONDS):
            return await self._receive()
        raise WebSocketError(f"sent no request within {REQUEST_SECONDS:g} s")

    async def _begins_again(self) -> bool:
        """Wait until the peer sends more, if there may be another request."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        if not self._http.trailing_data[0]:
            with trio.move_on_after(self._keep_alive) as patience:
                await self._receive_some()
            return not patience.cancelled_caught
        return True

    async def _receive(self) -> bool:
        self.method = b""  # what is no request has none
        event = await self._next_event()
        if not isinstance(event, h11.Request):
            return False  # the stream ended
        self.method = event.method
        headers: dict[bytes, bytes] = {}
        for name, value in event.headers:
            if name in headers and name in _ONCE:
                raise Refused(BAD_REQUEST, f"two headers {name.decode()!r}")
            headers[name] = value
        self.headers = headers
        self.target = event.target.decode("ascii")  # h11 takes no others
        return True

    async def body(self, most: int) -> bytes:
        """Receive the body, of `most` bytes. Raises Refused, and WebSocketError where it stops coming."""
        data = bytearray()
        while True:
            with trio.move_on_after(REQUEST_SECONDS) as patience:
                event = await self._next_event()
            if patience.cancelled_caught:
                raise WebSocketError(f"sent nothing of a body within {REQUEST_SECONDS:g} s")
            if not isinstance(event, h11.Data):
                return bytes(data)
            data += event.data
            if len(data) > most:
                raise Refused(TOO_LARGE, f"a body of more than {most} bytes")

    async def _next_event(self) -> object:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                await self._receive_some()
        except h11.RemoteProtocolError as error:
            raise Refused(BAD_REQUEST, f"no HTTP request: {error}") from None
        return event

    async def _receive_some(self) -> None:
        """Receive a piece, with which no head is larger than `LARGEST_REQUEST`."""
        held = len(self._http.trailing_data[0])
        piece = await self._stream.receive_some(min(_CHUNK, LARGEST_REQUEST - held))
        self._http.receive_data(bytes(piece))

    async def refuse(self, refusal: Refused, headers: Headers = ()) -> None:
        """Answer with a status and the reason, after which the connection ends."""
        more = [(b"upgrade", b"websocket")] if refusal.status == UPGRADE_REQUIRED else []
        text = f"{refusal}\n".encode()
        await self.answer(text, b"text/plain; charset=utf-8", [*headers, *more], refusal.status)

    async def answer(self, body: bytes, kind: bytes, headers: Headers = (), status: int = OKAY) -> None:
        """Answer with a body of a media type; the connection ends unless it is kept after a success.

        The answer to HEAD has the headers alone, as those of GET (RFC 9110, section 9.3.2).
        """
        own = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        if status != OKAY or not self._keep_alive or self._http.their_state is not h11.DONE:
            own.append((b"connection", b"close"))
        parts = (
            h11.Response(status_code=status, headers=[*own, *headers]),
            h11.Data(data=b"" if self.method == b"HEAD" else body),
            h11.EndOfMessage(),
        )
        await self._stream.send_all(b"".join(self._http.send(part) or b"" for part in parts))

    async def upgrade(
        self,
        kind: "type[Message[Any]]" = BytesMessage,
        largest: int = LARGEST_MESSAGE,
        others: CloseReason | None = None,
    ) -> "WebSocket":
        """Accept the request as a WebSocket whose peer sends messages of a kind, of `largest` bytes at most.

        One of the other kind closes it with the reason `others`; None drops it. Raises Refused if it does not
        ask for one.
        """
        key = self.headers.get(b"sec-websocket-key", b"")
        words = {word.strip().lower() for word in self.headers.get(b"connection", b"").split(b",")}
        if (
            self.method != b"GET"
            or b"upgrade" not in words
            or self.headers.get(b"upgrade", b"").lower() != b"websocket"
            or self.headers.get(b"sec-websocket-version") != b"13"
        ):
            raise Refused(UPGRADE_REQUIRED, "this is a WebSocket, version 13")
        if not _KEY.fullmatch(key):
            raise Refused(BAD_REQUEST, "the header Sec-WebSocket-Key is not one")
        if not isinstance(self._http.next_event(), h11.EndOfMessage):
            raise Refused(BAD_REQUEST, "a request with a body is no WebSocket")
        headers = [
            (b"upgrade", b"websocket"),
            (b"connection", b"Upgrade"),
            (b"sec-websocket-accept", generate_accept_token(key)),
        ]
        answer = h11.InformationalResponse(status_code=SWITCHING, headers=headers)
        await self._stream.send_all(self._http.send(answer) or b"")
        return WebSocket(self._stream, bytes(self._http.trailing_data[0]), kind, largest, others)


class WebSocket:
    """Messages between a peer and the server."""

    def __init__(
        self,
        stream: PeerStream,
        rest: bytes,
        kind: "type[Message[Any]]",
        largest: int,
        others: CloseReason | None,
    ) -> None:
        """Use `HttpRequest.upgrade`; `rest` is the bytes behind the request."""
        self._others = others
        self._kind = kind
        self._largest = largest
        self._stream = stream
        self._messages = Connection(ConnectionType.SERVER)
        self._sending = trio.Lock()
        self._rest = rest
        self._message = bytearray()

    async def receive(self) -> list[bytes]:
        """Wait for messages of the kind, dropping others; return none at the end. Raises WebSocketError."""
        found: list[bytes] = []
        while not found and self._messages.state is ConnectionState.OPEN:
            data, self._rest = self._rest or bytes(await self._stream.receive_some(_CHUNK)), b""
            if not data:
                break
            try:
                self._messages.receive_data(data)
                for event in self._messages.events():
                    if isinstance(event, CloseConnection):
                        await self._send(event.response())
                        return found
                    found += await self._take(event)
            except RemoteProtocolError as error:
                await self.close(CloseReason.PROTOCOL_ERROR, error.event_hint)
                raise WebSocketError(f"sent no WebSocket frame: {error}") from None
        return found

    async def _take(self, event: Event) -> list[bytes]:
        """Act on an event; return the message that it ends, if any."""
        if isinstance(event, Ping):
            await self._send(event.response())
        if not isinstance(event, Message):
            return []
        if self._others is not None and not isinstance(event, self._kind):
            await self.close(self._others)
            raise WebSocketError("sent a message of the wrong kind")
        self._message += event.data if isinstance(event, BytesMessage) else event.data.encode()
        if len(self._message) > self._largest:
            await self.close(CloseReason.MESSAGE_TOO_BIG)
            raise WebSocketError(f"sent a message of more than {self._largest} bytes")
        if not event.message_finished:
            return []
        message = bytes(self._message)
        self._message.clear()
        return [message] if isinstance(event, self._kind) else []

    async def send(self, messages: list[bytes]) -> None:
        """Send binary messages together."""
        if self._messages.state is ConnectionState.OPEN:
            await self._send(*(BytesMessage(data=each) for each in messages))

    async def send_frames(self, frames: bytes) -> None:
        """Send whole frames as they are: a server's have no mask, so that many peers can be sent the same."""
        async with self._sending:
            if self._messages.state is ConnectionState.OPEN:
                await self._stream.send_all(frames)

    async def close(self, reason: int, hint: Event | None = None) -> None:
        """Send a close frame with a reason, or `hint` where that is one."""
        if self._messages.state is ConnectionState.OPEN:
            await self._send(hint if isinstance(hint, CloseConnection) else CloseConnection(code=reason))

    async def _send(self, *events: Event) -> None:
        async with self._sending:
            try:
                data = b"".join(map(self._messages.send, events))
            except LocalProtocolError:
                return  # it was closed while this waited
            await self._stream.send_all(data)
