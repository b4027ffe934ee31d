"""The page's server: files, the WebSocket that shows, and the POST requests that do something.

Only pages of this very server may talk to it: Host, Origin and Sec-Fetch-Site are checked, and whoever reads
or does anything knows the token, which is in the fragment of the address alone.
"""

import hmac
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl

import msgspec
import trio
from wsproto.events import TextMessage
from wsproto.frame_protocol import CloseReason

from aisrv.addons.web.hub import GRID, Hub
from aisrv.addons.web.view import Control, Controls
from aisrv.listeners.peer_stream import PeerStream
from aisrv.listeners.stream_server import StreamServer
from aisrv.listeners.websocket import (
    BAD_REQUEST,
    FORBIDDEN,
    NO_METHOD,
    NOT_FOUND,
    HttpRequest,
    Refused,
    WebSocket,
    WebSocketError,
)

logger = logging.getLogger(__name__)

PAGES: Final = 64
"""Most connections at a time: for a further one the oldest is closed that has shown no token."""
SEND_BUFFER: Final = 65536
"""Bytes that the system keeps for a page that does not read, so that this is noticed early."""
KEEP_ALIVE_SECONDS: Final = 30.0
"""Time after an answer in which a browser may begin its next request on the same connection."""
TOKEN_SECONDS: Final = 5.0
"""Time that a WebSocket has to send its token."""
LARGEST_MESSAGE: Final = 1024
NO_TOKEN: Final = 4401
"""Close code of a WebSocket whose token is wrong."""
_PATHS: Final = 16
"""Most fields of a query."""
TEXT: Final = b"text/plain; charset=utf-8"
FILE: Final = b"application/octet-stream"
KINDS: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
"""Media types of the page's files; others are not served."""
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    b"trusted-types 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""Headers of every answer."""


class PageFile(msgspec.Struct, frozen=True):
    """A file of the page and its media type."""

    data: bytes
    kind: bytes


def page_files() -> dict[str, PageFile]:
    """Read the files of the page, by path; the path of a request is looked up whole and opens nothing."""
    folder = Path(__file__).parent / "page"
    files = {
        f"/{path.name}": PageFile(path.read_bytes(), KINDS[path.suffix])
        for path in sorted(folder.iterdir())
        if path.suffix in KINDS
    }
    files["/"] = files["/index.html"]
    return files


class _Hello(msgspec.Struct, frozen=True):
    """A message of a page: the token at first, and what it looks at; null while it is hidden."""

    see: str | None
    token: str = ""


_read_message = msgspec.json.Decoder(_Hello).decode


class PageServer(StreamServer):
    """Serves the page to browsers that have the token. Use `serve`, beside `Hub.run` and `Controls.run`."""

    PEER: ClassVar[str] = "web page"
    PROTOCOL_ERROR: ClassVar[type[Exception]] = WebSocketError
    TAKES_HTTP: ClassVar[bool] = True
    SEND_SECONDS: ClassVar[float] = 10.0
    PROTECTION: ClassVar[str] = "a token that crosses the network as it is"

    def __init__(self, hub: Hub, controls: Controls[Any], token: str) -> None:
        """Show what the hub has and do what the controls can."""
        super().__init__()
        self._hub = hub
        self._controls = controls
        self._token = token.encode()
        self._files = page_files()
        self._strangers: dict[HttpRequest, trio.CancelScope] = {}
        """Connections that have shown no token, the oldest first."""

    @property
    def most_peers(self) -> int:
        """Limit of connected pages."""
        return min(PAGES, super().most_peers)

    def _make_room(self) -> bool:
        """Close the oldest connection that has shown no token; False if all have."""
        for request, scope in self._strangers.items():
            logger.info("the oldest of %d connections without a token is closed", len(self._strangers))
            del self._strangers[request]
            scope.cancel()
            return True
        return False

    async def _serve_peer(self, stream: PeerStream, peer: str) -> None:
        stream.limit_unsent(SEND_BUFFER)
        request = HttpRequest(stream, KEEP_ALIVE_SECONDS)
        with trio.CancelScope() as scope:
            self._strangers[request] = scope
            try:
                await self._serve_requests(request, self._names(stream.socket.getsockname()[1]))
            except Refused as refusal:
                logger.info("%s %s refused: %s", self.PEER, peer, refusal)
                await request.refuse(refusal, HEADERS)
            finally:
                self._strangers.pop(request, None)

    async def _serve_requests(self, request: HttpRequest, names: frozenset[str]) -> None:
        while await request.receive():
            await self._answer(request, names)

    def _names(self, port: int) -> frozenset[str]:
        """Names of this server: those of the machine itself, and the address that it listens at."""
        host = (self.host or "").lower()
        names = ("127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host)
        return frozenset(f"{name}:{port}" for name in names)

    async def _answer(self, request: HttpRequest, names: frozenset[str]) -> None:
        path, _, query = request.target.partition("?")
        _check_origin(request.method, request.headers, names)
        if path == "/socket":
            others = CloseReason.UNSUPPORTED_DATA
            await self._show(await request.upgrade(TextMessage, LARGEST_MESSAGE, others), request)
        elif request.method == b"GET":
            file = self._files.get(path)
            if file is None:
                raise Refused(NOT_FOUND, "there is no such page")
            await request.body(0)
            await request.answer(file.data, file.kind, HEADERS)
        elif request.method == b"POST":
            control = self._control(path, request)
            try:
                values = dict(parse_qsl(query, max_num_fields=_PATHS))
            except ValueError:
                raise Refused(BAD_REQUEST, f"more than {_PATHS} fields") from None
            said = await self._controls.do(control, values, await request.body(control.most))
            if isinstance(said, bytes):
                await request.answer(said, FILE, HEADERS)
            else:
                await request.answer(f"{said}\n".encode(), TEXT, HEADERS)
        else:
            raise Refused(NO_METHOD, "only GET and POST are known")

    def _control(self, path: str, request: HttpRequest) -> Control:
        if not hmac.compare_digest(self._token, request.headers.get(b"x-aisrv-token", b"")):
            raise Refused(FORBIDDEN, "the token is wrong or missing")
        self._strangers.pop(request, None)
        control: Control | None = self._controls.by_name.get(path.removeprefix("/do/"))
        if control is None or not path.startswith("/do/"):
            raise Refused(NOT_FOUND, "there is no such control")
        return control

    async def _show(self, socket: WebSocket, request: HttpRequest) -> None:
        """Feed a page that has sent its token, until it leaves."""
        waiting: list[bytes] = []
        with trio.move_on_after(TOKEN_SECONDS):
            waiting = await socket.receive()
        hello = _message(waiting[0]) if waiting else None
        if hello is None or not hmac.compare_digest(self._token, hello.token.encode()):
            await socket.close(NO_TOKEN)
            return
        self._strangers.pop(request, None)
        wanted, asks = trio.open_memory_channel[_Hello](1)
        async with wanted, trio.open_nursery() as nursery:
            nursery.start_soon(self._feed, socket, asks)
            await wanted.send(hello)
            for message in waiting[1:]:
                await _pass_on(wanted, message)
            while messages := await socket.receive():
                for message in messages:
                    await _pass_on(wanted, message)
            nursery.cancel_scope.cancel()

    async def _feed(self, socket: WebSocket, asks: "trio.MemoryReceiveChannel[_Hello]") -> None:
        """Show what was asked for last; nothing while the page is hidden."""
        ask: _Hello | None = await asks.receive()
        while ask is not None:
            name = ask.see
            if name == "" and self._hub.views:
                name = next(iter(self._hub.views)) if len(self._hub.views) == 1 else GRID
            async with trio.open_nursery() as nursery:
                if name is not None and (name in self._hub.views or name == GRID):
                    nursery.start_soon(self._hub.feed, socket, name)
                ask = await asks.receive()
                nursery.cancel_scope.cancel()


def _check_origin(method: bytes, headers: Mapping[bytes, bytes], names: frozenset[str]) -> None:
    """Refuse requests for another name than these, and of pages of another origin or site."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if host not in names:
        raise Refused(FORBIDDEN, "this server has another name")
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower() != f"http://{host}":
        raise Refused(FORBIDDEN, "pages of other origins are not served")
    site = headers.get(b"sec-fetch-site", b"none")
    if site not in (b"same-origin", b"none") and (method != b"GET" or b"upgrade" in headers):
        raise Refused(FORBIDDEN, "pages of other sites are not served")


async def _pass_on(wanted: "trio.MemorySendChannel[_Hello]", data: bytes) -> None:
    """Pass a message on; what is none is dropped."""
    if (message := _message(data)) is not None:
        await wanted.send(message)


def _message(data: Any) -> _Hello | None:  # noqa: ANN401 - bytes of a page
    try:
        return _read_message(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
