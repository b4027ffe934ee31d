"""A Jacdac bus over WebSocket, as dashboards in a browser speak it: port 8081, a binary message a frame.

A page in a browser can reach servers on its machine. So a handshake must name a host that the server is
known by, which a page of another name that resolves to this address does not, and an origin that is allowed.
"""

import logging
from collections.abc import Collection
from functools import partial
from ipaddress import ip_address
from typing import Final, NoReturn
from urllib.parse import urlsplit

import trio
from trio_websocket import (
    ConnectionClosed,
    HandshakeError,
    WebSocketConnection,
    WebSocketRequest,
    serve_websocket,
)

from aisrv.attach.stream_server import LOOPBACK
from aisrv.device.failures import first_cause
from phy.jacdac.bus import BusPeer, JacdacBus

logger = logging.getLogger(__name__)

ORIGINS: Final = ("https://microsoft.github.io",)
"""Besides pages of this machine: where Jacdac's dashboard is."""
LARGEST_MESSAGE: Final = 65536
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404


class JacdacWebSocketServer:
    """Joins each WebSocket to the bus."""

    def __init__(self, bus: JacdacBus, origins: Collection[str] = ORIGINS) -> None:
        """Serve pages of this machine and of `origins`, and programs that are not browsers."""
        self._bus = bus
        self._origins = frozenset(origins)

    async def serve(
        self,
        host: str = LOOPBACK,
        port: int = 0,
        *,
        task_status: trio.TaskStatus[tuple[str, int]] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Accept peers until cancelled; ready with the address it listens on (port 0: any that is free).

        Raises OSError where the address cannot be had.
        """
        async with trio.open_nursery() as nursery:
            server = await nursery.start(
                partial(
                    serve_websocket,
                    partial(self._serve_request, host),
                    host,
                    port,
                    None,
                    max_message_size=LARGEST_MESSAGE,
                )
            )
            place = server.listeners[0]
            task_status.started((str(place.address), int(place.port)))
            await trio.sleep_forever()
        raise AssertionError("serving ends by cancellation alone")

    async def _serve_request(self, host: str, request: WebSocketRequest) -> None:
        refusal = self._refusal(host, request)
        try:
            if refusal is not None:
                status, reason = refusal
                logger.warning("Jacdac WebSocket refused: %s", reason)
                await request.reject(status, body=reason.encode())
                return
            connection = await request.accept()
            await self._serve_peer(connection)
        except (HandshakeError, ConnectionClosed, trio.BrokenResourceError) as error:
            logger.info("Jacdac WebSocket went away: %s", type(error).__name__)

    def _refusal(self, host: str, request: WebSocketRequest) -> tuple[int, str] | None:
        """Return status and reason for a handshake that is refused; None for one that is not."""
        headers = {name.lower(): value.decode("latin-1") for name, value in request.headers}
        named = request._event.host  # the package keeps the header Host to itself
        if not _is_own_name(_hostname(f"//{named}"), host):
            return FORBIDDEN, f"this server is not {named!r}"
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._origins and not _is_loopback(_hostname(origin)):
            return FORBIDDEN, f"pages of {origin!r} are not allowed"
        if urlsplit(request.path).path != "/":
            return NOT_FOUND, f"there is no {request.path!r}, only /"
        return None

    async def _serve_peer(self, connection: WebSocketConnection) -> None:
        peer = self._bus.join(f"websocket:{connection.remote}")
        failure: BaseException | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_send, connection, peer)
                while True:
                    message = await connection.get_message()
                    if isinstance(message, bytes):
                        peer.send(message)
        except* ConnectionClosed as errors:
            failure = first_cause(errors)
        finally:
            peer.leave()
        if failure is not None:
            raise failure


async def _send(connection: WebSocketConnection, peer: BusPeer) -> None:
    while True:
        for frame in await peer.receive():
            await connection.send_message(frame)


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
    """Return whether a client may know a server that listens on `host` by this name.

    A number is not a name that somebody else could let resolve to this address.
    """
    if _is_loopback(name) or (name and name == host.lower()):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
