"""Captures as tshark, which others wrote, reads them, and the bytes of a file as the formats say."""

import errno
import json
import logging
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.protocol.usb_descriptors import SetupPacket, aisrv_descriptors
from phy.usb.bus import HostPort, UsbBus
from phy.usb.ep0 import usb_ep0
from phy.usb.taps.capture import PAYLOAD_MAXIMUM, CapturedPort, CaptureFile
from phy.usb.urb import OutUrb, TransferStatus
from phy.usb.xud import UsbReset
from tests.support.benches.usb_firmware import configured, sink
from tests.support.peers.usbip_host import Answer, served, submit_in, submit_out
from tests.support.programs import run_process

SUBMIT, COMPLETE, ERROR = "'S'", "'C'", "'E'"
START = 1_700_000_000_123_456_789
STEP = 1_000_001


class Clock:
    """Nanoseconds that go on at every look."""

    def __init__(self) -> None:
        self.now = START - STEP

    def __call__(self) -> int:
        self.now += STEP
        return self.now


@pytest.fixture
def tshark() -> str:
    found = shutil.which("tshark")
    if found is None:
        reason = "Debian's package tshark is not installed; .ci/packages does that"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usb.pcapng"


def run_tshark(tshark: str, *options: str) -> str:
    done = run_process([tshark, *options])
    assert done.returncode == 0, done.stderr
    return done.stdout


def fields(tshark: str, path: Path, *names: str, only: str = "") -> list[tuple[str, ...]]:
    """Read fields of each packet; a field that is not there is empty."""
    chosen = [part for name in names for part in ("-e", name)]
    text = run_tshark(tshark, "-2", "-r", str(path), "-Y", only, "-T", "fields", "-E", "separator=|", *chosen)
    return [tuple(line.split("|")) for line in text.splitlines()]


def layers(tshark: str, path: Path) -> list[dict[str, Any]]:
    """Read every packet as tshark dissects it."""
    text = run_tshark(tshark, "-r", str(path), "-T", "json", "--no-duplicate-keys")
    return [packet["_source"]["layers"] for packet in json.loads(text)]


def blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Read the blocks of a pcapng file and check their lengths."""
    data = path.read_bytes()
    while data:
        kind, total = struct.unpack_from("<II", data)
        assert total % 4 == 0
        assert 12 <= total <= len(data)
        assert struct.unpack_from("<I", data, total - 4) == (total,)
        yield kind, data[8 : total - 4]
        data = data[total:]


def events(path: Path) -> list[tuple[Any, ...]]:
    """Read event type, endpoint, status, length and data of every packet."""
    found = []
    for kind, body in blocks(path):
        if kind == 6:
            size = struct.unpack_from("<I", body, 12)[0]
            packet = body[20 : 20 + size]
            event, endpoint = chr(packet[8]), packet[10]
            status, length, kept = struct.unpack_from("<iII", packet, 28)
            assert kept == len(packet) - 64
            found.append((event, endpoint, status, length, packet[64:]))
    return found


async def answering(bus: UsbBus) -> None:
    """Take a transfer, send back how long it was."""
    while True:
        with suppress(UsbReset):
            await _answer(bus)


async def _answer(bus: UsbBus) -> None:
    while True:
        size = 0
        while True:
            packets = await bus.out_endpoint.get_buffer(1 << 20)
            size += len(packets.data)
            if packets.short:
                break
        await bus.in_endpoint.set_buffer(b"%d" % size)


@asynccontextmanager
async def captured(path: Path, **options: Any) -> AsyncIterator[tuple[InProcessHost, UsbBus, HostPort]]:
    """A configured device with `answering` firmware, and its host behind a capture."""
    with CaptureFile(path, clock=Clock(), **options) as file:
        async with configured(answering, "LAB-7") as bus:
            port = CapturedPort(bus, file.interface("1-5", "serial number LAB-7", bus=1, device=5))
            await wait_all_tasks_blocked()
            yield InProcessHost(port), bus, port


# What tshark reads.


async def test_tshark_dissects_the_device_descriptor(tshark: str, path: Path) -> None:
    async with captured(path) as (host, _, _):
        await host.get_descriptor(1, length=64)
    request, answer = layers(tshark, path)
    setup = request["Setup Data"]
    assert setup["usb.bmRequestType"] == "0x80"
    assert setup["usb.setup.bRequest"] == "6"
    assert setup["usb.DescriptorIndex"] == "0x00"
    assert setup["usb.bDescriptorType"] == "0x01"
    assert setup["usb.setup.wLength"] == "64"
    found = answer["DEVICE DESCRIPTOR"]
    assert found["usb.bcdUSB"] == "0x0200"
    assert (found["usb.idVendor"], found["usb.idProduct"]) == ("0x20b1", "0xa15e")
    assert found["usb.bcdDevice"] == "0x1000"
    assert found["usb.bMaxPacketSize0"] == "64"
    assert (found["usb.iManufacturer"], found["usb.iProduct"], found["usb.iSerialNumber"]) == ("1", "2", "4")
    assert found["usb.bNumConfigurations"] == "1"


async def test_tshark_dissects_the_configuration_descriptor(tshark: str, path: Path) -> None:
    async with captured(path) as (host, _, _):
        await host.get_descriptor(2)
    names = ("usb.wTotalLength", "usb.bNumInterfaces", "usb.bInterfaceClass", "usb.bEndpointAddress")
    (found,) = fields(tshark, path, *names, "usb.wMaxPacketSize", only="usb.wTotalLength")
    assert found[:3] == ("32", "1", "0xff")
    assert sorted(found[3].split(",")) == ["0x01", "0x81"]
    assert found[4] == "512,512"


async def test_tshark_dissects_strings(tshark: str, path: Path) -> None:
    async with captured(path) as (host, _, _):
        await host.get_descriptor(3, 0)
        await host.get_descriptor(3, 1)
        await host.get_descriptor(3, 4)
    assert fields(tshark, path, "usb.wLANGID", only="usb.bLength and usb.wLANGID") == [("0x0409",)]
    found = fields(tshark, path, "usb.bString", only="usb.bString")
    assert found == [("XMOS",), ("LAB-7",)]


async def test_tshark_reads_bulk_transfers(tshark: str, path: Path) -> None:
    async with captured(path) as (host, _, _):
        await host.write(b"hello")
        assert await host.read(512) == b"5"
    names = ("usb.urb_type", "usb.transfer_type", "usb.endpoint_address", "usb.urb_status")
    found = fields(tshark, path, *names, "usb.urb_len", "usb.data_len", "usb.urb_id", "usb.capdata")
    assert [each[:6] for each in found] == [
        (SUBMIT, "0x03", "0x01", "-115", "5", "5"),
        (COMPLETE, "0x03", "0x01", "0", "5", "0"),
        (SUBMIT, "0x03", "0x81", "-115", "512", "0"),
        (COMPLETE, "0x03", "0x81", "0", "1", "1"),
    ]
    assert [int(each[6], 16) for each in found] == [1, 1, 2, 2]
    assert [each[7] for each in found] == [b"hello".hex(), "", "", b"5".hex()]


async def test_tshark_pairs_submit_and_completion(tshark: str, path: Path) -> None:
    async with captured(path) as (host, _, _):
        await host.write(b"hello")
    names = ("usb.request_in", "usb.response_in", "usb.bus_id", "usb.device_address")
    assert fields(tshark, path, *names) == [("", "2", "1", "5"), ("1", "", "1", "5")]


async def test_tshark_reads_stalls(tshark: str, path: Path) -> None:
    async with captured(path) as (host, bus, _):
        with pytest.raises(TransferFailed):
            await host.control(SetupPacket(0xC0, 1, 2, 3, 4))
        bus.out_endpoint.halt()
        with pytest.raises(TransferFailed):
            await host.write(b"refused")
        await host.clear_halt(0x01)
    names = ("usb.urb_type", "usb.endpoint_address", "usb.urb_status", "usb.urb_len")
    assert fields(tshark, path, *names) == [
        (SUBMIT, "0x80", "-115", "4"),
        (COMPLETE, "0x80", "-32", "0"),
        (SUBMIT, "0x01", "-115", "7"),
        (COMPLETE, "0x01", "-32", "0"),
        (SUBMIT, "0x00", "-115", "0"),
        (COMPLETE, "0x00", "0", "0"),
    ]
    assert fields(tshark, path, "usb.setup.bRequest", only="usb.setup.bRequest==1")[-1] == ("1",)


async def test_tshark_reads_true_lengths_past_the_limit(tshark: str, path: Path) -> None:
    async with captured(path, payload_limit=100) as (host, _, _):
        await host.write(bytes(1000))
        await host.read(512)
    names = ("usb.urb_len", "usb.data_len", "frame.len", "frame.cap_len")
    assert fields(tshark, path, *names)[0] == ("1000", "100", "1064", "164")
    assert fields(tshark, path, *names)[3] == ("4", "4", "68", "68")


async def test_tshark_reads_times_and_interfaces(tshark: str, path: Path) -> None:
    with CaptureFile(path, clock=Clock()) as file:
        async with trio.open_nursery() as nursery:
            for number in (1, 2):
                bus = UsbBus(aisrv_descriptors())
                nursery.start_soon(usb_ep0, bus)
                interface = file.interface(f"1-{number}", f"serial number {number}", bus=1, device=number)
                await InProcessHost(CapturedPort(bus, interface)).get_descriptor(1)
            nursery.cancel_scope.cancel()
    names = ("frame.interface_name", "frame.interface_description", "usb.device_address", "frame.time_epoch")
    first, last = "serial number 1", "serial number 2"
    assert fields(tshark, path, *names) == [
        ("1-1", first, "1", "1700000000.123456789"),
        ("1-1", first, "1", "1700000000.124456790"),
        ("1-2", last, "2", "1700000000.125456791"),
        ("1-2", last, "2", "1700000000.126456792"),
    ]


async def test_tshark_finds_no_fault_in_a_conversation_over_usbip(tshark: str, path: Path) -> None:
    with CaptureFile(path) as file:
        async with served(sink) as device:
            exported = device.exports[0]
            bus = exported.bus
            exported.bus = CapturedPort(bus, file.interface("1-1"))
            host = await device.attach()
            data = bytes(300_000)
            assert await host.ask(submit_out(1, data)) == Answer(3, 1, 0, len(data))
            await host.send(submit_in(2, 512))
            await host.leave()
            await wait_all_tasks_blocked()
            exported.bus = bus
    names = ("usb.urb_type", "usb.endpoint_address", "usb.urb_status", "usb.urb_len", "usb.data_len")
    assert fields(tshark, path, *names) == [
        (SUBMIT, "0x00", "-115", "0", "0"),
        (COMPLETE, "0x00", "0", "0", "0"),
        (SUBMIT, "0x01", "-115", "300000", "65536"),
        (COMPLETE, "0x01", "0", "300000", "0"),
        (SUBMIT, "0x81", "-115", "512", "0"),
        (COMPLETE, "0x81", "-108", "0", "0"),
    ]
    assert fields(tshark, path, "_ws.malformed", only="_ws.malformed or _ws.expert") == []


# What the file holds.


async def test_file_opens_as_the_format_says(path: Path) -> None:
    with CaptureFile(path, payload_limit=1000) as file:
        file.interface("1-1", "a device")
    (section, header), (interface, description) = blocks(path)
    assert section == 0x0A0D0D0A
    assert header[:16] == bytes.fromhex("4d3c2b1a 01000000 ffffffffffffffff")
    assert interface == 1
    assert description == (
        bytes.fromhex("dc000000 28040000")
        + bytes.fromhex("02000300") + b"1-1\0"
        + bytes.fromhex("03000800") + b"a device"
        + bytes.fromhex("09000100 09000000")
        + bytes(4)
    )  # fmt: skip


async def test_event_is_laid_out_as_usbmon_has_it(path: Path) -> None:
    async with captured(path) as (host, _, _):
        await host.get_descriptor(1, length=18)
    packet = next(body for kind, body in blocks(path) if kind == 6)
    stamp = struct.pack("<II", START >> 32, START & 0xFFFFFFFF)
    assert packet == (
        struct.pack("<I", 0) + stamp + struct.pack("<II", 64, 64)
        + bytes.fromhex("0100000000000000 53 02 80 05 0100 00 3c")
        + struct.pack("<qi", 1_700_000_000, 123_456)
        + bytes.fromhex("8dffffff 12000000 00000000")
        + bytes.fromhex("8006000100001200")
        + bytes.fromhex("00000000 00000000 00020000 00000000")
    )  # fmt: skip


@pytest.mark.parametrize("size", [0, 1, 3, 4, 511, 512, 513, 1024])
async def test_payload_is_kept_whole_up_to_the_limit(path: Path, size: int) -> None:
    data = os.urandom(size)
    async with captured(path, payload_limit=513) as (host, _, _):
        await host.write(data, zero_packet=True)
    assert events(path) == [
        ("S", 0x01, -115, size, data[:513]),
        ("C", 0x01, 0, size, b""),
    ]


@pytest.mark.parametrize(
    ("limit", "pieces"), [(4096, 3), (600, 2), (512, 1), (0, 0)], ids=["all", "part", "packet", "nothing"]
)
async def test_submit_is_written_when_the_kept_part_has_come(path: Path, limit: int, pieces: int) -> None:
    data = os.urandom(1300)
    async with captured(path, payload_limit=limit) as (_, _, port):
        ended = []
        request = OutUrb(1300, lambda *end: ended.append(end))
        assert port.submit_out(0x01, request)
        for number, piece in enumerate((data[:512], data[512:1200], data[1200:]), 1):
            assert bool(events(path)) == (number > pieces)
            request.feed(piece)
            port.data_arrived(request)
        await wait_all_tasks_blocked()
        assert ended == [(TransferStatus.OKAY, 1300)]
    assert events(path) == [
        ("S", 0x01, -115, 1300, data[:limit]),
        ("C", 0x01, 0, 1300, b""),
    ]


async def test_request_that_ends_before_its_data_have_come_has_both_events(path: Path) -> None:
    async with captured(path) as (_, bus, port):
        ended = []
        request = OutUrb(1300, lambda *end: ended.append(end))
        port.submit_out(0x01, request)
        request.feed(bytes(600))
        port.data_arrived(request)
        bus.out_endpoint.halt()
        assert ended == [(TransferStatus.STALL, 512)]
        assert request.done
    assert events(path) == [
        ("S", 0x01, -115, 1300, bytes(512)),
        ("C", 0x01, -32, 512, b""),
    ]


async def test_unlinked_request_ends_with_econnreset(path: Path) -> None:
    async with captured(path) as (host, bus, _):
        with trio.move_on_after(0):
            await host.read(512)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(host.read, 512)
                await wait_all_tasks_blocked()
                scope.cancel()
        assert bus.in_endpoint.pending == 0
    assert events(path) == [
        ("S", 0x81, -115, 512, b""),
        ("C", 0x81, -errno.ECONNRESET, 0, b""),
    ]


async def test_unlinked_out_request_counts_what_the_device_took(path: Path) -> None:
    async with captured(path) as (_, _, port):
        request = OutUrb(2000, lambda *_: None)
        request.feed(bytes(700))
        port.submit_out(0x01, request)
        assert port.unlink(request)
        assert request.taken == 512
    assert events(path)[1] == ("C", 0x01, -errno.ECONNRESET, 512, b"")


async def test_reset_ends_requests_with_eshutdown(path: Path) -> None:
    async with captured(path) as (host, _, port):

        async def read() -> None:
            with pytest.raises(TransferFailed):
                await host.read(512)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await wait_all_tasks_blocked()
            port.reset()
    assert events(path)[1:] == [("C", 0x81, -errno.ESHUTDOWN, 0, b"")]


async def test_missing_endpoint_is_an_error_event(path: Path) -> None:
    async with captured(path) as (host, _, _):
        with pytest.raises(TransferFailed):
            await host.write(b"to nobody", endpoint=0x02)
    assert events(path) == [
        ("S", 0x02, -115, 9, b"to nobody"),
        ("E", 0x02, -errno.ENOENT, 0, b""),
    ]


async def test_control_data_are_recorded_in_their_direction(path: Path) -> None:
    async with captured(path) as (host, _, _):
        await host.control(SetupPacket(0x80, 8, 0, 0, 1))
        with pytest.raises(TransferFailed):
            await host.control(SetupPacket(0x40, 9, 0, 0, 3), b"abc")
    assert events(path) == [
        ("S", 0x80, -115, 1, b""),
        ("C", 0x80, 0, 1, b"\1"),
        ("S", 0x00, -115, 3, b"abc"),
        ("C", 0x00, -32, 0, b""),
    ]


def test_killed_process_leaves_a_readable_file(path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys\n"
        "from phy.usb.taps.capture import CaptureFile, CapturedPort\n"
        "from phy.usb.bus import UsbBus\n"
        "from aisrv.protocol.usb_descriptors import aisrv_descriptors\n"
        "from phy.usb.xud import InUrb\n"
        "file = CaptureFile(pathlib.Path(sys.argv[1]))\n"
        "bus = UsbBus(aisrv_descriptors())\n"
        "bus.configuration = 1\n"
        "CapturedPort(bus, file.interface('1-1')).submit_in(0x81, InUrb(512, print))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], timeout=30)
    assert done.returncode == -9
    assert events(path) == [("S", 0x81, -115, 512, b"")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
async def test_full_disk_ends_the_capture_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "phy.usb.taps.capture"):
        async with captured(Path("/dev/full")) as (host, _, _):
            assert await host.write(b"hello") == 5
            assert await host.read(512) == b"5"
    assert caplog.messages == ["/dev/full: No space left on device; the capture ends here"]


@pytest.mark.parametrize("limit", [-1, PAYLOAD_MAXIMUM + 1])
def test_limit_that_wireshark_would_not_read_is_refused(path: Path, limit: int) -> None:
    with pytest.raises(ValueError, match=f"0 to 262080 bytes of a request, not {limit}"):
        CaptureFile(path, payload_limit=limit)
    assert not path.exists()


async def test_largest_payload_is_read_back(tshark: str, path: Path) -> None:
    async with captured(path, payload_limit=PAYLOAD_MAXIMUM) as (host, _, _):
        await host.write(bytes(1 << 20) + b"!")
    assert fields(tshark, path, "usb.urb_len", "usb.data_len")[0] == ("1048577", "262080")


async def test_nothing_is_kept_of_requests_that_ended(path: Path) -> None:
    async with captured(path) as (host, _, port):
        for _ in range(10):
            await host.write(b"hello")
            await host.read(512)
        assert isinstance(port, CapturedPort)
        assert port._relays == {}
