"""A server of byte streams: it listens at a TCP port or a Unix socket, serves each peer, and logs its end."""

import errno
import ipaddress
import logging
import os
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, NoReturn

import trio

from aisrv.listeners.failures import Failures, first_cause
from aisrv.listeners.peer_stream import SEND_SECONDS, PeerError, PeerStream
from aisrv.listeners.turns import Turns
from aisrv.terminal.log_limit import log_peer

KEEPALIVE: Final = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds, seconds and probes: a peer that vanished without a word is gone after half a minute."""

BACKLOG: Final = 64

LOOPBACK: Final = "127.0.0.1"
"""Address that programs on this machine alone can reach."""

LISTENERS: Final = 8
"""Shares that a process's descriptors are cut into: a listener and its peers have one of them at most."""

FEWEST_PEERS: Final = 16
"""Fewest peers of a listener, however few descriptors there are."""

THIS_MACHINE: Final = "this machine"
"""Name in the log of the peers of Unix sockets, which count as one."""


class StreamServer(ABC):
    """Serves any number of peers, each in a task of its own."""

    PEER: ClassVar[str]
    """Name of a peer in the log, such as "USB/IP peer"."""

    PROTOCOL_ERROR: ClassVar[type[Exception]]
    """Error of `_serve_peer` for a peer that breaks the protocol."""

    TAKES_HTTP: ClassVar[bool] = False
    """Whether peers speak HTTP; else it is refused at their first bytes."""

    SEND_SECONDS: ClassVar[float] = SEND_SECONDS
    """Time that a peer has to take an answer."""

    PROTECTION: ClassVar[str] = "neither passwords nor encryption"
    """Protection from peers of other machines, as the warning about them has it."""

    def __init__(self) -> None:
        self.host: str | None = None
        """Address or name that it listens on, as it was given; None at a Unix socket."""
        self.peers = 0
        self.turns: Final = Turns()

    @property
    def most_peers(self) -> int:
        """Limit of connected peers: further ones are turned away.

        An eighth of the files that the process may have open: no listener keeps the others from theirs.
        """
        return max(most_open_files() // LISTENERS, FEWEST_PEERS)

    async def serve(
        self,
        host: str = LOOPBACK,
        port: int = 0,
        *,
        task_status: trio.TaskStatus[tuple[str, int]] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Accept peers until cancelled; ready with the address (port 0: any that is free). Raises OSError."""
        try:
            listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
        except UnicodeError as error:  # of a name that no codec takes
            raise OSError(errno.EINVAL, f"no host has such a name ({error})") from None
        self.host = host
        for listener in listeners:
            self._warn_of_strangers(listener.socket.getsockname()[0])
        address = listeners[0].socket.getsockname()[:2]
        task_status.started((address[0], address[1]))
        await self._serve_all(listeners)

    def _warn_of_strangers(self, address: str) -> None:
        if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            logging.getLogger(type(self).__module__).warning(
                "a %s may come from other machines: listening on %s, with %s",
                self.PEER,
                address,
                self.PROTECTION,
            )

    async def serve_unix(
        self, path: Path, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Accept peers of this user at a Unix socket until cancelled. Raises OSError.

        The file of a server that is gone is replaced; that of this one is removed at the end.
        """
        with _unix_socket(path) as listener:
            task_status.started()
            await self._serve_all([trio.SocketListener(listener)])

    async def _serve_all(self, listeners: list[trio.SocketListener]) -> NoReturn:
        """Accept peers; an unexpected error ends its own connection and no other."""
        with Failures(logging.getLogger(type(self).__module__)) as failures:
            await trio.serve_listeners(partial(self._serve_stream, failures), listeners)

    async def _serve_stream(self, failures: Failures, stream: trio.SocketStream) -> None:
        logger = logging.getLogger(type(self).__module__)
        try:
            peer = _peer_of(stream)
        except OSError as error:
            logger.info("%s left at once: %s", self.PEER, error)
            await stream.aclose()
            return
        log_peer.set(peer.rpartition(":")[0] or THIS_MACHINE)
        name = f"{self.PEER} {peer}"
        if self.peers >= self.most_peers and not self._make_room():
            logger.warning("%s turned away: there are %d already", name, self.peers)
            await stream.aclose()
            return
        self.peers += 1
        try:
            with failures.contain(f"the connection of {name}"):
                async with closing_connection(stream, name, self.PROTOCOL_ERROR, logger):
                    _set_options(stream)
                    taken = PeerStream(
                        stream, self.turns, takes_http=self.TAKES_HTTP, send_seconds=self.SEND_SECONDS
                    )
                    await self._serve_peer(taken, peer)
        finally:
            self.peers -= 1

    def _make_room(self) -> bool:
        """End the connection of a peer that may have to make room for the next; False if there is none."""
        return False

    @abstractmethod
    async def _serve_peer(self, stream: PeerStream, peer: str) -> None:
        """Serve one peer, named for the log, to its end, whatever it sends.

        May raise PROTOCOL_ERROR, PeerError, and the errors of a broken connection. After about
        `MESSAGES_A_TURN` messages in a row it waits for `turns`; `PeerStream` does so between reads.
        """


@asynccontextmanager
async def closing_connection(
    stream: trio.SocketStream, peer: str, protocol_error: type[Exception], logger: logging.Logger
) -> AsyncIterator[None]:
    """Close a connection at the end of the block; log the peer that broke it or the protocol."""
    try:
        yield
    except* (protocol_error, PeerError) as errors:
        logger.warning("%s: %s; connection closed", peer, first_cause(errors))
    except* (trio.BrokenResourceError, OSError) as errors:
        logger.info("%s went away: %s", peer, first_cause(errors))
    finally:
        await stream.aclose()


def most_open_files() -> int:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 1 << 16
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _set_options(stream: trio.SocketStream) -> None:
    """Send small messages at once, and notice peers that are gone: a Unix socket does."""
    if stream.socket.family == socket.AF_UNIX:
        return
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not every system has them
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _peer_of(stream: trio.SocketStream) -> str:
    """Return the peer's HOST:PORT, or its process. Raises OSError if it is gone already."""
    if stream.socket.family == socket.AF_UNIX:
        if not hasattr(socket, "SO_PEERCRED"):  # Linux has it
            return THIS_MACHINE
        process = struct.unpack_from("i", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return f"process {process[0]}"
    address = stream.socket.getpeername()
    return f"{address[0]}:{address[1]}"


@contextmanager
def _unix_socket(path: Path) -> Iterator[trio.socket.SocketType]:
    """Listen at a path that only this user may connect to; remove it at the end."""
    _remove_dead_socket(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(os.fspath(path))
        try:
            path.chmod(0o600)  # nobody can connect before it listens
            listener.listen(BACKLOG)
            yield trio.socket.from_stdlib_socket(listener)
        finally:
            with suppress(FileNotFoundError):
                path.unlink()


def _remove_dead_socket(path: Path) -> None:
    """Remove the file of a socket that no server listens at."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink()
        except BlockingIOError:
            pass  # its server is alive, and busy
