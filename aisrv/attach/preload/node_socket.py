"""The socket at which umockdev's library finds the server of a device node."""

import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NoReturn

import trio

BACKLOG: Final = 128


class NodeSocket:
    """Listens from when it is made, at a path in the emulated system; `serve` serves who comes."""

    def __init__(self, path: Path) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.bind(os.fspath(path))
        sock.listen(BACKLOG)
        self._listener: Final = trio.SocketListener(trio.socket.from_stdlib_socket(sock))

    async def serve(self, serve: Callable[[trio.SocketStream], Awaitable[None]]) -> NoReturn:
        """Serve each program that opens the node, until cancelled; then close."""
        await trio.serve_listeners(serve, [self._listener])
