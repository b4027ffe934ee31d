"""The baseline of round trips: a bare TCP echo between the same two processes, by a task or a thread."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import trio

QUESTION: Final = bytes(3)
ANSWER: Final = bytes(20)


async def echo_task(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while await stream.receive_some(4096):
        await stream.send_all(ANSWER)


def echo_thread(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while connection.recv(4096):
            connection.sendall(ANSWER)


def receive(peer: socket.socket, size: int) -> None:
    while size:
        size -= len(peer.recv(size))


def echo(port: int, cleanup: ExitStack) -> Callable[[], None]:
    peer = cleanup.enter_context(socket.create_connection(("127.0.0.1", port)))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange() -> None:
        peer.sendall(QUESTION)
        receive(peer, len(ANSWER))

    return exchange


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process, and those that it starts, on one core: no time goes into waking another one."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
