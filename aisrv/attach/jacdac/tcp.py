"""A Jacdac bus over TCP, as jacdac-ts and `devs devtools` speak it: port 8082."""

from typing import ClassVar

import trio

from aisrv.attach.jacdac.framed_stream import join_stream
from aisrv.attach.stream_server import StreamServer
from phy.jacdac.bus import JacdacBus


class JacdacTcpServer(StreamServer):
    """Joins each peer to the bus."""

    PEER: ClassVar[str] = "Jacdac peer"
    PROTOCOL_ERROR: ClassVar[type[Exception]] = trio.ClosedResourceError

    def __init__(self, bus: JacdacBus) -> None:
        self._bus = bus

    async def _serve_peer(self, stream: trio.SocketStream, peer: str) -> None:
        await join_stream(stream, self._bus.join(f"tcp:{peer}"))
