"""A preload server with firmware behind it, a host program in C on libusb, a bare client of its socket."""

import os
import select
import shutil
import struct
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.preload.server import Preload, serve_preload
from aisrv.attach.preload.trial import PreloadMissingError
from aisrv.attach.preload.usbfs_node import UsbfsNode
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from tests.support.benches.usb_firmware import Firmware, after_each_reset
from tests.support.oracles.process_resources import count_descriptors, count_tasks
from tests.support.peers.usbip_host import receive_exactly
from tests.support.programs import missing

SOURCE = Path(__file__).with_name("libusb_client.c")
PROGRAM_SECONDS = 30


def compiled(source: Path, program: Path, *flags: str) -> Path:
    """Compile a C program."""
    if shutil.which("cc") is None:
        missing("no C compiler: install the package gcc")
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", program, source, *flags], check=True)
    return program


@pytest.fixture(scope="session")
def libusb_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The host program."""
    if not Path("/usr/include/libusb-1.0/libusb.h").exists():
        missing("no libusb to compile with: install the package libusb-1.0-0-dev")
    program = tmp_path_factory.mktemp("libusb") / "client"
    return compiled(SOURCE, program, "-I/usr/include/libusb-1.0", "-lusb-1.0", "-lpthread")


@dataclass
class PreloadedUsb:
    """A server under test."""

    preload: Preload
    bus: UsbBus
    clients: "list[BareClient]" = field(default_factory=list)

    @property
    def node(self) -> UsbfsNode:
        return self.preload.nodes[0]

    async def run(self, program: str | Path, *arguments: str) -> list[str]:
        """What a program prints; it must end well and complain of nothing."""
        done = await self.start(program, *arguments)
        assert (done.returncode, done.stderr) == (0, b""), done.stdout
        return done.stdout.decode().splitlines()

    async def start(self, program: str | Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        with trio.fail_after(PROGRAM_SECONDS):
            return await trio.run_process(
                [os.fspath(program), *arguments],
                env=self.preload.environment(),
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )

    async def open(self) -> "BareClient":
        """A client that has opened the node, and whose file the server has set up."""
        path = self.preload.directory / f"ioctl/dev/bus/usb/001/{self.node.device_number:03}"
        client = BareClient(await trio.open_unix_socket(os.fspath(path)))
        self.clients.append(client)
        await wait_all_tasks_blocked()
        return client

    def writable(self) -> bool:
        """Whether libusb would find that a request can be reaped."""
        path = self.preload.directory / f"dev/bus/usb/001/{self.node.device_number:03}"
        if self.node.unplugged:
            assert not path.exists()
            return False
        node = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            return bool(select.select([], [node], [], 0)[1])
        finally:
            os.close(node)


@asynccontextmanager
async def preloaded(firmware: Firmware) -> AsyncIterator[PreloadedUsb]:
    """Serve a device by preload. At the end nothing may be left of any client, nor of the server."""
    descriptors = count_descriptors()
    async with trio.open_nursery() as nursery:
        bus = UsbBus(aisrv_descriptors())
        nursery.start_soon(usb_ep0, bus)
        nursery.start_soon(after_each_reset, firmware, bus)
        try:
            preload: Preload = await nursery.start(serve_preload, [bus])
        except PreloadMissingError as error:
            missing(str(error))
        await wait_all_tasks_blocked(0.01)
        tasks = count_tasks()
        server = PreloadedUsb(preload, bus)
        try:
            yield server
        finally:
            for client in server.clients:
                client.stream.socket.close()
        await wait_all_tasks_blocked(0.02)
        assert_unused(server)
        # A device that left is served on for a while, by two tasks: a program may be about to open it.
        served = len(list((preload.directory / "ioctl/dev/bus/usb/001").iterdir()))
        assert count_tasks() == tasks + 2 * (served - 1), "a task of a client is left"
        nursery.cancel_scope.cancel()
    assert not preload.directory.exists()
    assert count_descriptors() == descriptors, "a file is left"


def assert_unused(server: PreloadedUsb) -> None:
    """No file is open, nothing is claimed, no request waits."""
    assert (server.node.files, server.node.claimed, server.node.memory, server.node._reapable) == (
        [],
        False,
        0,
        0,
    )
    assert (server.bus.out_endpoint.pending, server.bus.in_endpoint.pending) == (0, 0)
    assert not server.writable()


# A client that speaks bare messages, with a memory of its own. It shares no code with the server.

URB_ADDRESS, DATA_ADDRESS, POINTER_ADDRESS = 0x10000, 0x1000000, 0x5000
CLAIM, RELEASE, SUBMIT, DISCARD, REAP, RESET = (
    0x8004550F,
    0x80045510,
    0x8038550A,
    0x550B,
    0x4008550D,
    0x5514,
)
IOCTL, DONE, READ_MEMORY, WRITE_MEMORY, READ, WRITE = 1, 3, 5, 6, 7, 8
BULK, CONTROL = 3, 2
EFAULT, EINVAL, ENOTTY, EAGAIN, ENOENT, EBUSY, ENOMEM, ENODEV = 14, 22, 25, 11, 2, 16, 12, 19


def urb(
    endpoint: int,
    length: int,
    *,
    kind: int = BULK,
    flags: int = 0,
    buffer: int = DATA_ADDRESS,
) -> bytes:
    """`struct usbdevfs_urb` of a 64-bit machine."""
    return struct.pack("<BBxxiIxxxxQiiiiiIQ", kind, endpoint, 0, flags, buffer, length, 0, 0, 0, 0, 0, 0)


def status_of(raw: bytes) -> tuple[int, int]:
    """Status and actual length."""
    return struct.unpack_from("<i", raw, 4)[0], struct.unpack_from("<i", raw, 28)[0]


class BareClient:
    """One connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.memory: dict[int, bytes] = {}

    async def receive(self, size: int) -> bytes:
        return await receive_exactly(self.stream, size)

    async def send(self, command: int, first: int = 0, second: int = 0) -> None:
        await self.stream.send_all(struct.pack("<3Q", command, first, second))

    async def call(self, command: int, first: int = 0, second: int = 0) -> tuple[int, int]:
        """Make a call and serve the memory; its result and errno."""
        await self.send(command, first, second)
        while True:
            answer, a, b = struct.unpack("<Qqq", await self.receive(24))
            if answer == DONE:
                return a, b
            if answer == READ_MEMORY:
                await self.stream.send_all(self.memory[a][:b].ljust(b, b"\0"))
            else:
                assert answer == WRITE_MEMORY
                self.memory[a] = await self.receive(b)

    async def ioctl(self, code: int, argument: int = 0) -> tuple[int, int]:
        return await self.call(IOCTL, code, argument)

    async def submit(self, raw: bytes, data: bytes = b"", at: int = URB_ADDRESS) -> tuple[int, int]:
        self.memory[at], self.memory[DATA_ADDRESS] = raw, data
        return await self.ioctl(SUBMIT, at)

    async def reap(self) -> tuple[int, int, int]:
        """Address of the request that ended, its status and actual length."""
        assert await self.ioctl(REAP, POINTER_ADDRESS) == (0, 0)
        address: int = struct.unpack("<Q", self.memory[POINTER_ADDRESS])[0]
        return address, *status_of(self.memory[address])

    async def close(self) -> None:
        await self.stream.aclose()
        await wait_all_tasks_blocked()
