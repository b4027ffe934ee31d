"""How the attachments' servers listen, serve a peer's connection, and log its end."""

import ipaddress
import logging
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar, Final, NoReturn

import trio

from aisrv.terminal.log_limit import log_peer

KEEPALIVE: Final = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds, seconds and probes: a peer that vanished without a word is gone after half a minute."""

BACKLOG: Final = 64


class TcpServer(ABC):
    """Serves any number of peers, each in a task of its own."""

    PEER: ClassVar[str]
    """What the log calls a peer, such as "USB/IP peer"."""

    PROTOCOL_ERROR: ClassVar[type[Exception]]
    """What `_serve_peer` raises for a peer that breaks the protocol."""

    async def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        task_status: trio.TaskStatus[tuple[str, int]] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Accept peers until cancelled; ready with the address it listens on (port 0: any that is free).

        Raises OSError where the address cannot be had.
        """
        listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
        for listener in listeners:
            self._warn_of_strangers(listener.socket.getsockname()[0])
        address = listeners[0].socket.getsockname()[:2]
        task_status.started((address[0], address[1]))
        await trio.serve_listeners(self._serve_stream, listeners)

    def _warn_of_strangers(self, address: str) -> None:
        if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            logging.getLogger(type(self).__module__).warning(
                "a %s may come from other machines: listening on %s, with neither passwords nor encryption",
                self.PEER,
                address,
            )

    async def _serve_stream(self, stream: trio.SocketStream) -> None:
        logger = logging.getLogger(type(self).__module__)
        try:
            peer = _peer_of(stream)
        except OSError as error:
            logger.info("%s left at once: %s", self.PEER, error)
            await stream.aclose()
            return
        log_peer.set(peer.rpartition(":")[0])
        async with closing_connection(stream, f"{self.PEER} {peer}", self.PROTOCOL_ERROR, logger):
            _set_options(stream)
            await self._serve_peer(stream, peer)

    @abstractmethod
    async def _serve_peer(self, stream: trio.SocketStream, peer: str) -> None:
        """Serve one peer, HOST:PORT, to its end, whatever it sends.

        May raise PROTOCOL_ERROR, and what Trio and the system raise for a broken connection.
        """


@asynccontextmanager
async def closing_connection(
    stream: trio.SocketStream, peer: str, protocol_error: type[Exception], logger: logging.Logger
) -> AsyncIterator[None]:
    """Close a connection at the end of the block; log the peer that broke it or the protocol."""
    try:
        yield
    except protocol_error as error:
        logger.warning("%s: %s; connection closed", peer, error)
    except (trio.BrokenResourceError, OSError) as error:
        logger.info("%s went away: %s", peer, error)
    finally:
        await stream.aclose()


def _set_options(stream: trio.SocketStream) -> None:
    """Send small messages at once, and notice peers that are gone."""
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not every system has them
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _peer_of(stream: trio.SocketStream) -> str:
    """Return the peer's HOST:PORT; raises OSError where it is gone already."""
    address = stream.socket.getpeername()
    return f"{address[0]}:{address[1]}"
