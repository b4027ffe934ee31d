"""A USB/IP server with scripted firmware behind it, and a host that speaks bare messages to it.

The host builds its messages with `struct` from the kernel's description of the protocol, so that it shares no
code with the server.
"""

import socket
import struct
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.usbip.server import Export, UsbipServer
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from tests.support.benches.usb_firmware import Firmware, after_each_reset
from tests.support.oracles.process_resources import count_descriptors, count_tasks

OUT, IN = 0, 1
ZERO_PACKET = 0x40
SET_CONFIGURATION = bytes.fromhex("0009010000000000")
GET_DEVICE_DESCRIPTOR = bytes.fromhex("8006000100001200")
DEVICE_DESCRIPTOR = bytes.fromhex("12010002ffffff40b1205ea1001001020001")
CLEAR_HALT_OUT = bytes.fromhex("0201000001000000")
CLEAR_HALT_IN = bytes.fromhex("0201000081000000")

EPIPE, ENODEV, EINVAL, ENOMEM, EOVERFLOW, ECONNRESET, ESHUTDOWN = -32, -19, -22, -12, -75, -104, -108


def pattern(size: int, seed: int = 0) -> bytes:
    """Bytes in which every word differs from its neighbors."""
    return array("I", range(seed, seed + size // 4 + 1)).tobytes()[:size]


# The server's side.


@dataclass
class ExportedDevices:
    """A server under test."""

    port: int
    exports: Sequence[Export]

    @property
    def bus(self) -> UsbBus:
        return self.buses[0]

    @property
    def buses(self) -> list[UsbBus]:
        return [each.bus for each in self.exports if isinstance(each.bus, UsbBus)]

    async def connect(self) -> "UsbipHost":
        return UsbipHost(await trio.open_tcp_stream("127.0.0.1", self.port))

    async def attach(self, busid: str = "1-1") -> "UsbipHost":
        """A host that has imported and configured a device."""
        host = await self.connect()
        await host.attach(busid)
        return host

    def assert_unused(self) -> None:
        """No device is imported, no request waits in any."""
        assert [each.imported_by for each in self.exports] == [None] * len(self.buses)
        for bus in self.buses:
            assert (bus.out_endpoint.pending, bus.in_endpoint.pending) == (0, 0)
            assert not bus.configuration


@asynccontextmanager
async def served(*firmware: Firmware) -> AsyncIterator[ExportedDevices]:
    """Serve a device for each firmware, as 1-1, 1-2 and so on. At the end nothing may be left of any host."""
    descriptors = count_descriptors()
    async with trio.open_nursery() as nursery:
        exports = []
        for number, each in enumerate(firmware, 1):
            bus = UsbBus(aisrv_descriptors())
            nursery.start_soon(usb_ep0, bus)
            nursery.start_soon(after_each_reset, each, bus)
            exports.append(Export(bus, f"1-{number}", number))
        _, port = await nursery.start(UsbipServer(exports).serve, "127.0.0.1", 0)
        await wait_all_tasks_blocked()
        tasks = count_tasks()
        server = ExportedDevices(port, exports)
        try:
            yield server
        finally:
            UsbipHost.close_all()
        await wait_all_tasks_blocked(0.01)
        server.assert_unused()
        assert count_tasks() == tasks, "a task of a connection is left"
        nursery.cancel_scope.cancel()
    assert count_descriptors() == descriptors, "a socket is left"


# The host's side.


@dataclass(frozen=True)
class Answer:
    """RET_SUBMIT (message 3) or RET_UNLINK (message 4)."""

    message: int
    seqnum: int
    status: int
    actual: int = 0
    data: bytes = b""


def submit(
    seqnum: int,
    direction: int,
    endpoint: int,
    length: int,
    *,
    data: bytes = b"",
    flags: int = 0,
    setup: bytes = bytes(8),
    devid: int = 0x10001,
) -> bytes:
    header = struct.pack(">7I3I", 1, seqnum, devid, direction, endpoint, flags, length, 0, 0xFFFFFFFF, 0)
    return header + setup + data


def submit_out(seqnum: int, data: bytes, endpoint: int = 1, *, flags: int = 0, devid: int = 0x10001) -> bytes:
    return submit(seqnum, OUT, endpoint, len(data), data=data, flags=flags, devid=devid)


def submit_in(seqnum: int, length: int, endpoint: int = 1, *, devid: int = 0x10001) -> bytes:
    return submit(seqnum, IN, endpoint, length, devid=devid)


def control_in(seqnum: int, setup: bytes, length: int | None = None) -> bytes:
    if length is None:
        length = int.from_bytes(setup[6:8], "little")
    return submit(seqnum, IN, 0, length, setup=setup)


def control_out(seqnum: int, setup: bytes, data: bytes = b"") -> bytes:
    return submit(seqnum, OUT, 0, len(data), data=data, setup=setup)


def unlink(seqnum: int, target: int) -> bytes:
    return struct.pack(">6I24x", 2, seqnum, 0x10001, 0, 0, target)


def request_import(busid: bytes = b"1-1") -> bytes:
    return bytes.fromhex("0111800300000000") + busid.ljust(32, b"\0")


async def receive_exactly(stream: trio.SocketStream, size: int) -> bytes:
    """Read so many bytes from a server."""
    data = bytearray()
    while len(data) < size:
        piece = await stream.receive_some(size - len(data))
        if not piece:
            raise EOFError(f"the server closed the connection after {len(data)} of {size} bytes")
        data += piece
    return bytes(data)


class UsbipHost:
    """One connection to the server."""

    _open: "list[UsbipHost]" = []  # noqa: RUF012 - all of one test, for its end

    def __init__(self, stream: trio.SocketStream) -> None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = stream
        self._inwards: set[int] = set()
        UsbipHost._open.append(self)

    @classmethod
    def close_all(cls) -> None:
        for each in cls._open:
            each.stream.socket.close()
        cls._open.clear()

    async def send(self, *messages: bytes) -> None:
        """Send messages in one piece."""
        for each in messages:
            if each[:4] == b"\0\0\0\1" and each[12:16] == b"\0\0\0\1":
                self._inwards.add(int.from_bytes(each[4:8], "big"))
        await self.stream.send_all(b"".join(messages))

    async def receive(self, size: int) -> bytes:
        return await receive_exactly(self.stream, size)

    async def answer(self) -> Answer:
        header = await self.receive(48)
        message, seqnum, _, _, _, status, actual = struct.unpack(">5Iii", header[:28])
        if message == 4:
            return Answer(4, seqnum, status)
        data = await self.receive(actual) if seqnum in self._inwards else b""
        return Answer(message, seqnum, status, actual, data)

    async def answers(self, count: int) -> list[Answer]:
        return [await self.answer() for _ in range(count)]

    async def ask(self, *messages: bytes) -> Answer:
        """Send messages in one piece; the next answer."""
        await self.send(*messages)
        return await self.answer()

    async def attach(self, busid: str = "1-1") -> None:
        await self.stream.send_all(request_import(busid.encode()))
        assert (await self.receive(320))[:8] == bytes.fromhex("0111000300000000")
        devid = 0x10000 | int(busid.split("-")[1])
        answer = await self.ask(submit(0xFFFFFFFF, OUT, 0, 0, setup=SET_CONFIGURATION, devid=devid))
        assert answer == Answer(3, 0xFFFFFFFF, 0)

    async def works(self, data: bytes = b"does it work?") -> None:
        """Assert that the loopback firmware answers. Uses seqnums from 900 on."""
        assert await self.ask(submit_out(900, data)) == Answer(3, 900, 0, len(data))
        assert await self.ask(submit_in(901, 512)) == Answer(3, 901, 0, len(data), data)

    async def ended(self) -> bytes:
        """Read until the server has closed; bytes that it has not read turn that into a reset."""
        data = bytearray()
        with suppress(trio.BrokenResourceError):
            while piece := await self.stream.receive_some():
                data += piece
        return bytes(data)

    async def leave(self) -> bytes:
        """Say that nothing more comes, and wait until the server has closed its side."""
        await self.stream.send_eof()
        return await self.ended()

    def reset(self) -> None:
        """Break the connection: the server gets ECONNRESET."""
        no_time = struct.pack("ii", 1, 0)
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_time)
        self.stream.socket.close()
