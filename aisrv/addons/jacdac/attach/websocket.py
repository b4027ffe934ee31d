"""A Jacdac bus over WebSocket, as dashboards in a browser speak it: port 8081, a binary message a frame.

A page in a browser can reach servers on its machine. So a handshake must name a host that the server is known
by, which a page of another name that resolves to this address does not, and an origin that is allowed.
"""

import logging
from collections.abc import Collection
from ipaddress import ip_address
from typing import ClassVar
from urllib.parse import urlsplit

import trio

from aisrv.addons.jacdac.bus.bus import BusPeer, JacdacBus
from aisrv.listeners.peer_stream import PeerStream
from aisrv.listeners.stream_server import StreamServer
from aisrv.listeners.websocket import FORBIDDEN, NOT_FOUND, HttpRequest, Refused, WebSocket, WebSocketError

logger = logging.getLogger(__name__)


class JacdacWebSocketServer(StreamServer):
    """Joins each WebSocket to the bus."""

    PEER: ClassVar[str] = "Jacdac WebSocket peer"
    PROTOCOL_ERROR: ClassVar[type[Exception]] = WebSocketError
    TAKES_HTTP: ClassVar[bool] = True

    def __init__(self, bus: JacdacBus, origins: Collection[str] = ()) -> None:
        """Serve pages of this machine and of `origins`, and programs that are not browsers."""
        super().__init__()
        self._bus = bus
        self._origins = frozenset(origins)

    async def _serve_peer(self, stream: PeerStream, peer: str) -> None:
        request = HttpRequest(stream)
        try:
            if not await request.receive():
                return
            self._check(request)
            socket = await request.upgrade()
        except Refused as refusal:
            logger.warning("%s %s refused: %s", self.PEER, peer, refusal)
            await request.refuse(refusal)
            return
        await self._join(socket, self._bus.join(f"websocket:{peer}"))

    def _check(self, request: HttpRequest) -> None:
        """Refuse other names than the server's, other origins than those allowed, and other paths."""
        named = request.headers.get(b"host", b"").decode("latin-1")
        if not _is_own_name(_hostname(f"//{named}"), self.host or ""):
            raise Refused(FORBIDDEN, f"this server is not {named!r}")
        origin = request.headers.get(b"origin")
        if origin is not None:
            page = origin.decode("latin-1")
            if page not in self._origins and not _is_loopback(_hostname(page)):
                raise Refused(
                    FORBIDDEN, f"pages of {page!r} are not allowed; --jacdac-origin allows those of an origin"
                )
        if request.target.partition("?")[0] != "/":
            raise Refused(NOT_FOUND, f"unknown path {request.target!r}; only / is served")

    async def _join(self, socket: WebSocket, peer: BusPeer) -> None:
        async def send() -> None:
            while True:
                await socket.send(await peer.receive())

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                while messages := await socket.receive():
                    for message in messages:
                        peer.send(message)
                nursery.cancel_scope.cancel()
        finally:
            peer.leave()


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _is_own_name(name: str, host: str) -> bool:
    """Check whether a client may know a server that listens on `host` by this name.

    A number is not a name that somebody else could let resolve to this address.
    """
    if _is_loopback(name) or (name and name == host.lower()):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
