"""What the TCP servers among the attachments have in common: how they listen, and their sockets' options."""

import socket
from abc import ABC, abstractmethod
from typing import Final, NoReturn

import trio

KEEPALIVE: Final = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds, seconds and probes: a peer that vanished without a word is gone after half a minute."""

BACKLOG: Final = 64


class TcpServer(ABC):
    """Serves any number of peers, each in a task of its own."""

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
        address = listeners[0].socket.getsockname()[:2]
        task_status.started((address[0], address[1]))
        await trio.serve_listeners(self._serve_stream, listeners)

    @abstractmethod
    async def _serve_stream(self, stream: trio.SocketStream) -> None:
        """Serve one peer to its end, whatever it sends."""


def set_options(stream: trio.SocketStream) -> None:
    """Send small messages at once, and notice peers that are gone."""
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not every system has them
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def peer_of(stream: trio.SocketStream) -> str:
    """Return the peer's HOST:PORT; raises OSError where it is gone already."""
    address = stream.socket.getpeername()
    return f"{address[0]}:{address[1]}"
