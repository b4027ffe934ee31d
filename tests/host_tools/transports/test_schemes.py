"""Addresses, the USB transport over a pyusb backend, and the process behind `virtual`."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from usb.backend import libusb1
from usb.core import USBError

from host_tools.errors import (
    BadAddressError,
    DeviceAccessDenied,
    DeviceBusy,
    DeviceGone,
    DeviceNotFound,
    TransferError,
    TransferStall,
    TransferTimeout,
)
from host_tools.transports import usb as usb_transport
from host_tools.transports import virtual
from host_tools.transports.schemes import list_devices, open_transport
from host_tools.transports.transport import DeviceInfo
from host_tools.transports.usb import UsbTransport, translate
from host_tools.transports.usbip import transport as usbip_transport
from host_tools.transports.usbip.transport import UsbipTransport
from tests.support.benches.memory_device import Backend, Device, Engine
from tests.support.peers.usbip_peers import echo_device, plugged


@pytest.fixture
def backend() -> Backend:
    return Backend(Device())


@pytest.fixture
def libusb(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Backend:
    monkeypatch.setattr(libusb1, "get_backend", lambda: backend)
    return backend


def opened(backend: Backend) -> UsbTransport:
    return UsbTransport(backend, "the device")


# Addresses


@pytest.mark.parametrize("device", ["", "ubs", "USB", "tcp:localhost:1", ":usb"])
def test_an_unknown_scheme_names_those_that_exist(device: str) -> None:
    with pytest.raises(BadAddressError, match=r"usb\[:SERIAL\], usbip:HOST:PORT\[/BUSID\], virtual"):
        open_transport(device)


@pytest.mark.parametrize("spec", ["host:0", "host:65536", "host:x", ":3240", "::1:3240", "", "[::1]:"])
def test_a_usbip_address_that_is_none(spec: str) -> None:
    with pytest.raises(BadAddressError):
        open_transport(f"usbip:{spec}")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("lab", ("lab:3240", "")),
        ("lab:99", ("lab:99", "")),
        ("lab:99/1-2", ("lab:99", "1-2")),
        ("[::1]", ("[::1]:3240", "")),
        ("[::1]:99/1-2", ("[::1]:99", "1-2")),
    ],
)
def test_usbip_addresses(spec: str, expected: tuple[str, str]) -> None:
    assert usbip_transport._split(spec) == expected


def test_no_usbip_server() -> None:
    with pytest.raises(DeviceNotFound, match=r"127\.0\.0\.1:1: no USB/IP server answers"):
        open_transport("usbip:127.0.0.1:1")


# Finding hardware


def test_the_only_board_needs_no_name(libusb: Backend) -> None:
    open_transport("usb").close()
    assert libusb.open_handles == 0


def test_a_board_by_serial_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libusb1, "get_backend", lambda: Backend(Device(), serial="LAB-7"))
    open_transport("usb:LAB-7").close()
    with pytest.raises(DeviceNotFound, match="serial number or place 'LAB-8'"):
        open_transport("usb:LAB-8")


def test_a_board_by_its_place(libusb: Backend) -> None:
    open_transport("usb:1-4").close()
    with pytest.raises(DeviceNotFound):
        open_transport("usb:1-5")


def test_two_boards_must_be_told_apart(libusb: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libusb, "enumerate_devices", lambda: ["one", "two"])
    with pytest.raises(DeviceNotFound, match="2 AI servers fit; name one of usb:1-4, usb:1-4"):
        open_transport("usb")


def test_another_product_is_no_ai_server(libusb: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usb_transport, "USB_PRODUCT_ID", 0xA15F)
    with pytest.raises(DeviceNotFound, match="is it plugged in"):
        open_transport("usb")


def test_without_libusb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libusb1, "get_backend", lambda: None)
    with pytest.raises(DeviceNotFound, match=r"apt install libusb-1\.0-0"):
        open_transport("usb")


def test_boards_are_listed_with_their_names(libusb: Backend) -> None:
    assert list_devices("usb") == [DeviceInfo("usb:1-4", "xAISRV", "XMOS")]
    assert list_devices("usb:2-2") == []
    assert libusb.open_handles == 0


def test_a_board_with_a_serial_number_is_listed_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libusb1, "get_backend", lambda: Backend(Device(), serial="LAB-7"))
    assert list_devices("usb") == [DeviceInfo("usb:LAB-7", "xAISRV", "XMOS", "LAB-7")]


def test_a_board_that_cannot_be_opened_is_listed_with_the_reason(
    libusb: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(device: object) -> None:
        raise USBError("access", libusb1.LIBUSB_ERROR_ACCESS, 13)

    monkeypatch.setattr(libusb, "open_device", refuse)
    (info,) = list_devices("usb")
    assert info.address == "usb:1-4"
    assert "udev" in info.note


# Opening and closing


def test_opening_configures_and_claims(backend: Backend) -> None:
    resets = backend.device.resets
    transport = opened(backend)
    assert (backend.device.resets - resets, backend.claimed, backend.open_handles) == (1, True, 1)
    transport.close()
    transport.close()
    assert (backend.claimed, backend.open_handles) == (False, 0)


def test_a_device_in_use_is_busy_and_not_left_open(backend: Backend) -> None:
    backend.claimed = True
    with pytest.raises(DeviceBusy, match="it is in use by another program"):
        opened(backend)
    assert backend.open_handles == 0


def test_reset_abandons_the_command(backend: Backend) -> None:
    transport = opened(backend)
    transport.write(b"\x86\0\0", 1)
    transport.reset()
    transport.write(b"\x10\0\0", 1)
    assert transport.read(512, 1) == b"\x78\x56\x34\x12"


# Transfers


def test_a_write_adds_nothing(backend: Backend) -> None:
    transport = opened(backend)
    transport.write(b"\x86\0\0", 1)
    transport.write(bytes(512), 1)
    transport.write(b"", 1)
    assert backend.calls == ["out 3", "out 512", "out 0"]


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1023])
def test_a_read_with_room_takes_the_end_too(size: int) -> None:
    backend = Backend(Device(Engine(outputs=[size])))
    transport = opened(backend)
    for data in (b"\x86\0\0", b"\0\0\0\0TFL3", b"\x05\0\0"):
        transport.write(data, 1)
    assert transport.read(1024, 1) == bytes(size)
    transport.write(b"\x10\0\0", 1)
    assert transport.read(512, 1) == b"\x78\x56\x34\x12"


@pytest.mark.parametrize("length", [-512, 0, 1, 511, 513])
def test_a_read_of_part_packets_is_refused(backend: Backend, length: int) -> None:
    with pytest.raises(ValueError, match="multiple of 512"):
        opened(backend).read(length, 1)


def test_a_timeout_before_any_data(backend: Backend) -> None:
    with pytest.raises(TransferTimeout, match="reading: timed out"):
        opened(backend).read(512, 0.001)


def test_a_write_that_stops_half_way_is_a_timeout(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = opened(backend)
    monkeypatch.setattr(transport, "_bulk_write", lambda *_: 1024)
    with pytest.raises(TransferTimeout, match="after 1024 of 2048 bytes"):
        transport.write(bytes(2048), 1)


def test_a_read_that_stops_between_packets_is_a_timeout(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = opened(backend)
    clock = iter([100.0, 101.0])
    monkeypatch.setattr(transport, "_bulk_read", lambda *_: 512)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with pytest.raises(TransferTimeout, match="after 512 bytes"):
        transport.read(1024, 1.0)


def test_a_timeout_of_none_waits_without_limit(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = opened(backend)
    seen: list[int] = []

    def write(*arguments: Any) -> int:
        seen.append(arguments[-1])
        return len(arguments[3])

    monkeypatch.setattr(transport, "_bulk_write", write)
    transport.write(b"abc", None)
    transport.write(b"abc", 0.0001)
    transport.write(b"abc", 2.5)
    assert seen == [0, 1, 2500]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (libusb1.LIBUSB_ERROR_PIPE, TransferStall),
        (libusb1.LIBUSB_ERROR_NO_DEVICE, DeviceGone),
        (libusb1.LIBUSB_ERROR_BUSY, DeviceBusy),
        (libusb1.LIBUSB_ERROR_ACCESS, DeviceAccessDenied),
        (libusb1.LIBUSB_ERROR_OVERFLOW, TransferError),
        (libusb1.LIBUSB_ERROR_IO, TransferError),
        (None, TransferError),
    ],
)
def test_each_libusb_code_has_its_error(code: int | None, kind: type[Exception]) -> None:
    assert type(translate(USBError("text", code), "reading")) is kind


# The virtual device


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "device.py"


def start(script: Path, body: str, timeout: float = 10) -> virtual.VirtualDevice:
    script.write_text(body)
    return virtual.VirtualDevice([sys.executable, "-S", str(script)], timeout)


READY = "import sys\nprint('aisrv: ready at usbip:127.0.0.1:4711', flush=True)\n"
UNTIL_EOF = "sys.stdin.read()\n"


def test_the_ready_line_gives_the_address(script: Path) -> None:
    with start(script, READY + UNTIL_EOF) as device:
        assert device.address == "127.0.0.1:4711"


def test_the_device_ends_with_its_input(script: Path, tmp_path: Path) -> None:
    device = start(script, READY + UNTIL_EOF + f"open({str(tmp_path / 'ended')!r}, 'w').close()\n")
    device.stop()
    assert (tmp_path / "ended").exists()
    device.stop()


def test_a_device_that_ignores_its_input_is_ended_all_the_same(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual, "STOP_TIMEOUT", 0.05)
    ignore = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    device = start(script, ignore + READY + "while True: signal.pause()\n")
    device.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(device.pid, 0)


def test_a_device_that_ends_at_once_tells_why(script: Path) -> None:
    with pytest.raises(DeviceNotFound, match="ended with code 3 before it was ready: no such board"):
        start(script, "import sys\nprint('no such board', file=sys.stderr)\nsys.exit(3)\n")


def test_a_device_that_says_something_else(script: Path) -> None:
    with pytest.raises(DeviceNotFound, match="said 'hello' where its ready line belongs"):
        start(script, "import sys\nprint('hello', flush=True)\n" + UNTIL_EOF)


def test_a_device_that_never_gets_ready(script: Path) -> None:
    with pytest.raises(DeviceNotFound, match=r"not ready within 0\.05 s"):
        start(script, "import sys\n" + UNTIL_EOF, timeout=0.05)


def test_a_device_that_cannot_be_started() -> None:
    with pytest.raises(DeviceNotFound, match="does not start"):
        virtual.VirtualDevice(["/nonexistent/python"])


def test_the_device_survives_a_ctrl_c_meant_for_the_program(script: Path) -> None:
    with start(script, READY + UNTIL_EOF) as device:
        assert os.getpgid(device.pid) != os.getpgid(0)


def test_the_device_ends_when_its_parent_is_killed(script: Path, tmp_path: Path) -> None:
    script.write_text(READY + UNTIL_EOF)
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import sys, signal\nfrom host_tools.transports.virtual import VirtualDevice\n"
        f"device = VirtualDevice([sys.executable, '-S', {str(script)!r}])\n"
        "print(device.pid, flush=True)\nsignal.pause()\n"
    )
    with subprocess.Popen([sys.executable, str(parent)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        descriptor = os.pidfd_open(pid)
        process.send_signal(signal.SIGKILL)
    try:
        assert select.select([descriptor], [], [], 10)[0] == [descriptor]
    finally:
        os.close(descriptor)


def test_virtual_names_its_board() -> None:
    assert virtual.device_command("", "/here")[-3:] == ["--socket", "/here", "--until-eof"]
    assert virtual.device_command("chained", "/here")[-2:] == ["--board", "chained"]
    assert list_devices("virtual:chained") == [DeviceInfo("virtual:chained", note="started when it is used")]


def test_opening_virtual_connects_to_what_was_started_and_ends_it(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = tmp_path / "ended"
    with plugged(echo_device()) as address:
        ready = READY.replace("127.0.0.1:4711", address)
        script.write_text(ready + UNTIL_EOF + f"open({str(ended)!r}, 'w').close()\n")
        monkeypatch.setattr(virtual, "device_command", lambda *_: [sys.executable, "-S", str(script)])
        transport = open_transport("virtual")
        assert isinstance(transport, UsbipTransport)
        transport.write(b"abc", 10)
        assert transport.read(512, 10) == b"cba"
        assert not ended.exists()
        transport.close()
    assert ended.exists()


def test_a_virtual_device_that_refuses_the_connection_is_ended(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = tmp_path / "ended"
    script.write_text(READY.replace("4711", "1") + UNTIL_EOF + f"open({str(ended)!r}, 'w').close()\n")
    monkeypatch.setattr(virtual, "device_command", lambda *_: [sys.executable, "-S", str(script)])
    with pytest.raises(DeviceNotFound, match="no USB/IP server answers"):
        open_transport("virtual")
    assert ended.exists()
