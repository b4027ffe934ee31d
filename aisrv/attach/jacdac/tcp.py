"""A Jacdac bus over TCP, as jacdac-ts and `devs devtools` speak it: port 8082."""

from typing import ClassVar

from aisrv.attach.jacdac.framed_stream import join_stream
from aisrv.attach.peer_stream import PeerStream
from aisrv.attach.stream_server import StreamServer
from aisrv.protocol.jacdac.stream import StreamError
from phy.jacdac.bus import JacdacBus


class JacdacTcpServer(StreamServer):
    """Joins each peer to the bus."""

    PEER: ClassVar[str] = "Jacdac peer"
    PROTOCOL_ERROR: ClassVar[type[Exception]] = StreamError

    def __init__(self, bus: JacdacBus) -> None:
        super().__init__()
        self._bus = bus

    async def _serve_peer(self, stream: PeerStream, peer: str) -> None:
        await join_stream(stream, self._bus.join(f"tcp:{peer}"))
