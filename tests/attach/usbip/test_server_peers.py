"""USB/IP hosts that others wrote: the PyPI package `usbip`, and the tool of the Linux kernel's sources."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
import trio
import usbip

from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.board import Board
from aisrv.device.device import open_devices
from phy.usb.bus import UsbBus
from tests.support.benches.usb_firmware import idle, loopback
from tests.support.peers.usbip_host import DEVICE_DESCRIPTOR, ExportedDevices, pattern, served
from tests.support.programs import missing

T = TypeVar("T")
TOOL_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


# The PyPI package. It blocks, so that it runs in a thread.


class Transport(usbip.USBIP):  # type: ignore[misc]  # the package has no types
    """The package's transport, without 40 ms of waiting for every transfer."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._sockets: list[socket.socket] = []

    def close_all(self) -> None:
        """Close what the package leaves open after a refusal."""
        for each in self._sockets:
            each.close()

    def connect(self) -> socket.socket:
        peer: socket.socket = super().connect()
        self._sockets.append(peer)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.settimeout(60)
        return peer


async def with_peer(server: ExportedDevices, use: Callable[[Transport], T]) -> T:
    transport = Transport("127.0.0.1", server.port)
    try:
        return await trio.to_thread.run_sync(use, transport)
    finally:
        transport.close_all()


@contextmanager
def opened(transport: Transport) -> Iterator[Any]:
    with usbip.open(0x20B1, 0xA15E, transport=transport) as handle:
        yield handle


async def test_package_lists_devices() -> None:
    async with served(idle, idle) as server:
        found = await with_peer(server, usbip.host.list_devices)
    assert found == [
        {
            "busid": f"1-{number}",
            "busnum": 1,
            "devnum": number,
            "speed": 3,
            "idVendor": 0x20B1,
            "idProduct": 0xA15E,
            "bcdDevice": 0x1000,
            "bNumConfigurations": 1,
            "bNumInterfaces": 1,
            "interfaces": [(0xFF, 0xFF, 0xFF)],
        }
        for number in (1, 2)
    ]


async def test_package_reads_descriptors() -> None:
    def use(transport: Transport) -> list[bytes]:
        with opened(transport) as handle:
            assert handle.device_descriptor.idProduct == 0xA15E
            values = [0x0100, 0x0200, 0x0302]
            return [handle.control(0x80, 6, value, 0, 255) for value in values]

    async with served(idle) as server:
        device, configuration, product = await with_peer(server, use)
    assert device == DEVICE_DESCRIPTOR
    assert configuration.hex() == ("0902200001010080fa0904000002ffffff030705010200020107058102000201")
    assert product[2:].decode("utf-16-le") == "xAISRV"


@pytest.mark.parametrize("size", [0, 1, 3, 511, 513, 1023, 100_001])
async def test_package_moves_data(size: int) -> None:
    def use(transport: Transport) -> bytes:
        with opened(transport) as handle:
            assert handle.bulk_out(0x01, pattern(size)) == size
            data: bytes = handle.bulk_in(0x81, size + 1)
            return data

    async with served(loopback) as server:
        assert await with_peer(server, use) == pattern(size)


async def test_package_meets_a_stall_and_clears_it() -> None:
    async def halting(bus: UsbBus) -> None:
        await bus.out_endpoint.get_buffer()
        bus.in_endpoint.halt()
        bus.out_endpoint.halt()
        await bus.out_endpoint.wait_halt_cleared()
        await bus.in_endpoint.wait_halt_cleared()
        await bus.in_endpoint.set_buffer(b"cleared")

    def use(transport: Transport) -> bytes:
        with opened(transport) as handle:
            handle.bulk_out(0x01, b"halt")
            with pytest.raises(usbip.Stall, match="transfer status -32"):
                handle.bulk_in(0x81, 512)
            with pytest.raises(usbip.Stall, match="transfer status -32"):
                handle.bulk_out(0x01, b"more")
            handle.clear_halt(0x81)
            handle.clear_halt(0x01)
            data: bytes = handle.bulk_in(0x81, 512)
            return data

    async with served(halting) as server:
        assert await with_peer(server, use) == b"cleared"


async def test_package_meets_a_control_stall() -> None:
    def use(transport: Transport) -> None:
        with opened(transport) as handle:
            with pytest.raises(usbip.Stall, match="control status -32"):
                handle.control(0xC0, 1, 0, 0, 4)
            with pytest.raises(usbip.Stall, match="control status -32"):
                handle.control(0x40, 2, 0, 0, b"data")
            assert handle.control(0x80, 0, 0, 0, 2) == b"\0\0"

    async with served(idle) as server:
        await with_peer(server, use)


async def test_package_is_refused_a_device_in_use() -> None:
    def use(transport: Transport) -> None:
        with opened(transport), pytest.raises(usbip.NotFound, match="status 1"):
            usbip.open(busid="1-1", transport=transport)
        with pytest.raises(usbip.NotFound, match="status 1"):
            usbip.open(busid="7-7", transport=transport)

    async with served(idle) as server:
        await with_peer(server, use)


async def test_package_talks_to_each_of_several_devices() -> None:
    """Whole devices, with their engines: GET_ID, and a serial number that differs."""

    def use(transport: Transport) -> list[tuple[bytes, str]]:
        answers = []
        for busid in ("1-2", "1-1"):
            with usbip.open(busid=busid, transport=transport) as handle:
                assert handle.bulk_out(0x01, b"\x10\0\0") == 3
                identity = handle.bulk_in(0x81, 512)
                serial = handle.control(0x80, 6, 0x0304, 0x0409, 255)
                answers.append((identity, serial[2:].decode("utf-16-le")))
        return answers

    boards = [Board(serial="LAB-1"), Board(serial="LAB-2")]
    async with open_devices(boards) as devices, trio.open_nursery() as nursery:
        server = UsbipServer(export_all([device.usb for device in devices]))
        _, port = await nursery.start(server.serve, "127.0.0.1", 0)
        transport = Transport("127.0.0.1", port)
        answers = await trio.to_thread.run_sync(use, transport)
        transport.close_all()
        nursery.cancel_scope.cancel()
    assert answers == [(b"\x78\x56\x34\x12", "LAB-2"), (b"\x78\x56\x34\x12", "LAB-1")]


# The tool. Listing needs no kernel module.


@pytest.fixture
def tool() -> str:
    found = shutil.which("usbip", path=TOOL_PATH)
    if found is None:
        missing("Debian's package usbip is not installed; .ci/packages does that")
    return found


async def list_with(tool: str, port: int) -> str:
    done = await trio.run_process(
        [tool, "--tcp-port", str(port), "list", "-r", "127.0.0.1"],
        capture_stdout=True,
        stderr=subprocess.STDOUT,
    )
    return done.stdout.decode()


async def test_tool_lists_devices(tool: str) -> None:
    async with served(idle, idle) as server:
        lines = (await list_with(tool, server.port)).splitlines()
    assert " - 127.0.0.1" in lines
    for number in (1, 2):
        (first,) = [index for index, line in enumerate(lines) if line.strip().startswith(f"1-{number}:")]
        assert lines[first].endswith("(20b1:a15e)")
        assert lines[first + 1].strip() == f": /sys/devices/aisrv/1-{number}"
        assert "(ff/ff/ff)" in lines[first + 2]
        assert lines[first + 3].strip().startswith(":  0 - ")


async def test_tool_lists_nothing(tool: str) -> None:
    async with served() as server:
        assert "no exportable devices" in await list_with(tool, server.port)
