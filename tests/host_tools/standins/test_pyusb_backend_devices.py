"""Our pyusb backend drives devices that the PyPI package `usbip` brings along: a serial port and a disk."""

import errno
import struct
import threading
from collections.abc import Iterator

import pytest
import usb.core
import usb.util
import usbip
from usbip.classes.device.cdc_acm import CDCACM, LineCoding
from usbip.classes.device.msc import MSC

from host_tools.standins.pyusb_backend import UsbipBackend
from tests.support.peers.usbip_peers import DEADLINE, plugged

BLOCK, BLOCKS = 512, 256
INQUIRY, READ_CAPACITY, READ_10, WRITE_10 = 0x12, 0x25, 0x28, 0x2A


class Disk:
    """A disk's blocks, as the package's mass storage asks for them."""

    block_size = BLOCK
    num_blocks = BLOCKS

    def __init__(self) -> None:
        self.data = bytearray(BLOCK * BLOCKS)

    def read(self, lba: int, count: int) -> bytes:
        return bytes(self.data[lba * BLOCK : (lba + count) * BLOCK])

    def write(self, lba: int, _count: int, data: bytes) -> None:
        self.data[lba * BLOCK : lba * BLOCK + len(data)] = data


class BulkOnly:
    """A host of the bulk-only transport: a command block, data, a status ("Bulk-Only Transport" 1.0)."""

    def __init__(self, device: usb.core.Device) -> None:
        self.device = device
        interface = device[0][(0, 0)]
        self.into, self.out = (
            usb.util.find_descriptor(
                interface,
                custom_match=lambda e, d=direction: usb.util.endpoint_direction(e.bEndpointAddress) == d,
            )
            for direction in (usb.util.ENDPOINT_IN, usb.util.ENDPOINT_OUT)
        )
        self.tag = 0

    def command(self, cdb: bytes, *, read: int = 0, data: bytes = b"") -> tuple[bytes, int]:
        """Carry out a command; the data that it reads and its status, 0 for good."""
        self.tag += 1
        direction = 0x80 if read else 0
        block = struct.pack("<4sIIBBB", b"USBC", self.tag, read or len(data), direction, 0, len(cdb))
        self.out.write(block + cdb.ljust(16, b"\0"))
        answer = b""
        try:
            if read:
                answer = self.into.read(read, 1000 * DEADLINE).tobytes()
            elif data:
                self.out.write(data)
        except usb.core.USBError as error:
            if error.errno != errno.EPIPE:  # the device stalls to end a phase early
                raise
            self.device.clear_halt(self.into if read else self.out)
        signature, tag, _, status = struct.unpack("<4sIIB", self.into.read(13))
        assert (signature, tag) == (b"USBS", self.tag)
        return answer, status


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def storage(disk: Disk) -> Iterator[BulkOnly]:
    device = usbip.USBDevice(0x1209, 0x0003, product="disk")
    device.set_speed(usbip.SPEED_HIGH)
    device.add(MSC(disk, vendor="TEST", product="blocks"))
    with plugged(device) as address:
        found = usb.core.find(product="disk", backend=UsbipBackend(address))
        found.set_configuration()
        yield BulkOnly(found)
        usb.util.dispose_resources(found)


def cdb10(operation: int, lba: int, count: int) -> bytes:
    return struct.pack(">BBIBHB", operation, 0, lba, 0, count, 0)


def test_disk_tells_what_it_is(storage: BulkOnly) -> None:
    inquiry, status = storage.command(bytes((INQUIRY, 0, 0, 0, 36, 0)), read=36)
    assert (status, inquiry[8:16], inquiry[16:32]) == (0, b"TEST    ", b"blocks".ljust(16))
    capacity, status = storage.command(cdb10(READ_CAPACITY, 0, 0), read=8)
    assert (status, struct.unpack(">II", capacity)) == (0, (BLOCKS - 1, BLOCK))


@pytest.mark.parametrize("count", [1, 2, 127, 128, BLOCKS])
def test_disk_keeps_what_is_written(storage: BulkOnly, disk: Disk, count: int) -> None:
    data = bytes(i * 31 % 253 for i in range(count * BLOCK))
    first = BLOCKS - count
    assert storage.command(cdb10(WRITE_10, first, count), data=data) == (b"", 0)
    assert bytes(disk.data[first * BLOCK :]) == data
    assert storage.command(cdb10(READ_10, first, count), read=len(data)) == (data, 0)


def test_disk_stalls_past_its_end_and_goes_on(storage: BulkOnly) -> None:
    assert storage.command(cdb10(READ_10, BLOCKS, 1), read=BLOCK) == (b"", 1)
    assert storage.command(cdb10(READ_10, 0, 1), read=BLOCK) == (bytes(BLOCK), 0)


def test_serial_port_echoes_and_takes_its_line_coding() -> None:
    codings: list[LineCoding] = []
    set_ = threading.Event()

    def on_line_coding(_port: object, coding: LineCoding) -> None:
        codings.append(coding)
        set_.set()

    device = usbip.USBDevice(0x1209, 0x0001, product="port")
    device.add(CDCACM(on_rx=lambda port, data: port.write(bytes(data)), on_line_coding=on_line_coding))
    with plugged(device) as address:
        port = usb.core.find(product="port", backend=UsbipBackend(address))
        port.set_configuration()
        assert [interface.bInterfaceClass for interface in port[0]] == [0x02, 0x0A]
        coding = struct.pack("<IBBB", 115200, 0, 0, 8)
        assert port.ctrl_transfer(0x21, 0x20, 0, 0, coding) == len(coding)
        assert set_.wait(DEADLINE)
        assert codings[0].pack() == coding
        into, out = port[0][(1, 0)]
        assert out.write(b"hello") == 5
        assert into.read(64).tobytes() == b"hello"
        usb.util.dispose_resources(port)
