"""A flood of any kind of message, at each listener: a step takes as few of them as of the smallest."""

from contextlib import suppress
from typing import Final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked
from wsproto.frame_protocol import Opcode

from aisrv.addons.jacdac.attach.tcp import CHUNK, JacdacTcpServer
from aisrv.addons.jacdac.attach.websocket import JacdacWebSocketServer
from aisrv.addons.jacdac.bus.bus import JacdacBus
from aisrv.addons.web.server import PageServer
from aisrv.attach.serprog import SerprogServer
from aisrv.attach.spi_link import SpiLinkServer
from aisrv.attach.usbip.server import UsbipServer
from aisrv.listeners.peer_stream import PeerStream
from aisrv.listeners.stream_server import StreamServer
from aisrv.listeners.websocket import WebSocket
from aisrv.protocol.spi_link import Hello, LinkMessage, LinkTransfer, Open, frame
from aisrv.protocol.usbip import Operation, OperationHeader
from flash_server.chip.serprog import PARAMETER_SIZES, SerprogCommand
from tests.support.benches.listeners import FRAME, LISTENERS, listening
from tests.support.oracles.step_watch import CallWatch

MESSAGES: Final = 2000
MOST: Final = CHUNK // 6 + 1
"""Messages of a step: the smallest frames of a WebSocket that fit what is taken at once."""


def websocket_frame(opcode: Opcode) -> bytes:
    """The smallest frame of a kind; one that goes on has one before it."""
    begun = b"\x02\x80\0\0\0\0" if opcode is Opcode.CONTINUATION else b""
    return begun + bytes((0x80 | opcode, 0x80, 0, 0, 0, 0))


WEBSOCKET: Final = {each.name: websocket_frame(each) for each in Opcode}
KINDS: Final[dict[type[StreamServer], dict[str, bytes]]] = {
    SerprogServer: {
        each.name: bytes([each]) + bytes(PARAMETER_SIZES.get(each, 0)) for each in SerprogCommand
    },
    SpiLinkServer: {
        "no transfer": frame(LinkMessage(())),
        "an empty transfer": frame(LinkMessage((LinkTransfer(b"", True),))),
        "a byte": frame(LinkMessage((LinkTransfer(b"\x01", True),))),
        "another hello": frame(Hello()),
        "another open": frame(Open("9.9")),
    },
    JacdacTcpServer: {
        "zeros": bytes(8),
        "no frame": b"\x0c" + bytes(12),
        "a frame": bytes([len(FRAME)]) + FRAME,
    },
    JacdacWebSocketServer: WEBSOCKET,
    PageServer: WEBSOCKET,
    UsbipServer: {
        each.name: bytes(OperationHeader(code=each)) for each in Operation
    },  # those of an imported device: tests/attach/usbip/test_connection_turns.py
}


def test_each_listener_has_its_kinds() -> None:
    assert set(KINDS) == set(LISTENERS)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, messages in KINDS.items() for name in messages],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
async def test_a_step_takes_few_messages_of_any_kind(
    kind: type[StreamServer], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers, frames that are passed on and messages of a WebSocket count; some kinds end the connection."""
    watch = CallWatch(monkeypatch, (PeerStream, "send_all"), (JacdacBus, "forward"), (WebSocket, "_take"))
    opening = b"" if kind is UsbipServer else LISTENERS[kind].opening
    async with listening(kind) as place:
        stream = await place.connect()

        async def read() -> None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while await stream.receive_some(1 << 20):
                    pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            with watch.watching(), suppress(trio.BrokenResourceError):
                await stream.send_all(opening.replace(b"PORT", str(place.port).encode()))
                await wait_all_tasks_blocked(0.001)
                await stream.send_all(MESSAGES * KINDS[kind][name])
                await wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
    assert watch.largest.amount <= MOST, str(watch.largest)
