"""Pages that are open in another process: `python -m benchmarks.web_readers PORT TOKEN VIEW`.

A line `N` on standard input opens or closes pages until there are N, and is answered by the bytes and the
messages that came since the last one. `N hold` opens pages that never read.
"""

import json
import os
import select
import socket
import sys
from typing import Final

_UPGRADE: Final = (
    "GET /socket HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
_SMALL: Final = 65536
"""Bytes that the system keeps for a page that never reads."""


def _opened(port: int, token: str, view: str, *, holds: bool) -> socket.socket:
    page = socket.socket()
    if holds:
        page.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
    page.connect(("127.0.0.1", port))
    hello = json.dumps({"token": token, "see": view}).encode()
    page.sendall(_UPGRADE.format(port).encode() + bytes((0x81, 0x80 | len(hello), 0, 0, 0, 0)) + hello)
    return page


def main() -> None:
    """Read what pages get until standard input ends."""
    port, token, view = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    pages: list[socket.socket] = []
    holding: list[socket.socket] = []
    got = reads = 0
    while True:
        ready = select.select([sys.stdin, *pages], [], [])[0]
        for page in pages[:]:
            if page in ready:
                got += len(page.recv(1 << 16))
                reads += 1
        if sys.stdin in ready:
            line = os.read(0, 100).split()
            if not line:
                return
            holds = len(line) > 1
            where = holding if holds else pages
            while len(where) < int(line[0]):
                where.append(_opened(port, token, view, holds=holds))
            while len(where) > int(line[0]):
                where.pop().close()
            print(got, reads, flush=True)
            got = reads = 0


if __name__ == "__main__":
    main()
