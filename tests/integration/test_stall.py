"""A stall has one name on its way to the user: the endpoint halts while a host waits, at each layer.

Waits have no time-out, or one far beyond the test's: a stall that is not reported at once hangs the test.
"""

import errno
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import usb.core
from usb.backend import libusb1

from aisrv import digits
from aisrv.attach.background import BackgroundBus, BackgroundDevice
from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.board import Board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.monitor.command_stream import aisrv_framing
from aisrv.monitor.counting import CountedUsbPort
from aisrv.protocol.commands import Dialect
from aisrv.protocol.usbip import UrbStatus
from aisrv.pytest_plugin import InProcessTransport
from host_tools.client import AiServer
from host_tools.errors import NoModelError, TransferStall
from host_tools.standins.pyusb_backend import UsbipBackend
from host_tools.transports.transport import Transport
from host_tools.transports.usb import UsbTransport
from host_tools.transports.usbip.connection import Connection
from host_tools.transports.usbip.standard_requests import set_configuration
from host_tools.transports.usbip.transport import open_usbip
from phy.usb.bus import HostPort
from phy.usb.taps.capture import CapturedPort, CaptureFile
from phy.usb.taps.fault_plan import FaultPlan
from phy.usb.taps.faults import FaultyPort
from phy.usb.urb import TransferStatus
from tests.support.programs import HOST, run_process, running

GET_OUTPUT = b"\x05\0\0"
"""Fails without a model, for which the device halts both endpoints."""
PHRASE = "the transfer ended with a stall"
HOUR = 3600.0
SOON = 60.0
"""Seconds that no stall takes, however busy the machine."""


@pytest.fixture
def device() -> Iterator[BackgroundDevice]:
    with BackgroundDevice(Board(), runner=inline) as background:
        yield background


def wrapped(bus: HostPort, port: str, capture: CaptureFile, nursery: trio.Nursery) -> HostPort:
    if port == "captured":
        return CapturedPort(bus, capture.interface("usb"))
    if port == "counted":
        return CountedUsbPort(bus, aisrv_framing)
    return FaultyPort(bus, FaultPlan([]), nursery) if port == "with faults" else bus


@pytest.mark.parametrize("port", ["bare", "captured", "counted", "with faults"])
def test_stall_on_the_bus(port: str, tmp_path: Path) -> None:
    async def main() -> TransferFailed:
        with trio.fail_after(SOON), CaptureFile(tmp_path / "usb.pcap") as capture:
            async with open_device(Board()) as running, trio.open_nursery() as nursery:
                host = InProcessHost(wrapped(running.usb, port, capture, nursery))
                await host.plug_in()
                await host.write(GET_OUTPUT)
                with pytest.raises(TransferFailed) as caught:
                    await host.read(512)
                return caught.value

    failure = trio.run(main)
    assert (failure.status, str(failure)) == (TransferStatus.STALL, f"{PHRASE} after b''")


def test_stall_over_usbip(device: BackgroundDevice) -> None:
    with Connection.open(device.usbip_address, "1-1") as connection:
        set_configuration(connection, 1)
        connection.bulk_out(0x01, GET_OUTPUT, HOUR)
        with pytest.raises(TransferStall, match=f"reading from endpoint 0x81: {PHRASE}$") as caught:
            connection.bulk_in(0x81, 512, HOUR)
    assert caught.value.status == UrbStatus.STALL == -errno.EPIPE


def test_stall_in_a_program_on_pyusb(device: BackgroundDevice) -> None:
    """Programs test for libusb's own name of a stall."""
    backend = UsbipBackend(device.usbip_address)
    (found,) = backend.enumerate_devices()
    handle = backend.open_device(found)
    try:
        backend.bulk_write(handle, 0x01, 0, array("B", GET_OUTPUT), 0)
        with pytest.raises(usb.core.USBError) as caught:
            backend.bulk_read(handle, 0x81, 0, array("B", bytes(512)), 0)
    finally:
        backend.close_device(handle)
    assert (caught.value.backend_error_code, caught.value.errno) == (libusb1.LIBUSB_ERROR_PIPE, errno.EPIPE)


@pytest.fixture(params=["usb", "usbip", "in process"])
def transport(request: pytest.FixtureRequest, device: BackgroundDevice) -> Iterator[Transport]:
    opened: Transport
    if request.param == "usb":
        backend = UsbipBackend(device.usbip_address)
        opened = UsbTransport(backend, backend.enumerate_devices()[0])
    elif request.param == "usbip":
        opened = open_usbip(device.usbip_address)
    else:
        opened = InProcessTransport(BackgroundBus(device))
    yield opened
    opened.close()


def test_stall_of_a_read(transport: Transport) -> None:
    transport.write(GET_OUTPUT, None)
    with pytest.raises(TransferStall, match=f"(reading.*|in process): {PHRASE}$"):
        transport.read(512, None)


def test_stall_of_a_write(transport: Transport) -> None:
    transport.write(GET_OUTPUT, None)
    with pytest.raises(TransferStall):
        transport.read(512, None)
    with pytest.raises(TransferStall, match=f"(writing.*|in process): {PHRASE}$"):
        transport.write(GET_OUTPUT, None)


@pytest.mark.parametrize(("writes", "done"), [((GET_OUTPUT,), 1), ((GET_OUTPUT, GET_OUTPUT), 1)])
def test_stall_of_an_exchange(transport: Transport, writes: tuple[bytes, ...], done: int) -> None:
    with pytest.raises(TransferStall) as caught:
        transport.exchange(writes, 512, None)
    assert caught.value.writes_done == done


def test_transfers_go_on_once_the_halts_are_cleared(transport: Transport) -> None:
    transport.write(GET_OUTPUT, None)
    with pytest.raises(TransferStall):
        transport.read(512, None)
    transport.clear_halts()
    transport.write(b"\x10\0\0", None)
    assert transport.read(512, None) == b"\x78\x56\x34\x12"


def test_user_reads_the_reason_of_the_stall(transport: Transport) -> None:
    with pytest.raises(NoModelError, match="GET_OUTPUT_TENSOR failed on engine 0, tensor 0"):
        AiServer(transport, timeout=HOUR).read_output()


@pytest.mark.parametrize("fault", ["stall:in:1", "stall:out:1"])
@pytest.mark.parametrize("dialect", list(Dialect))
def test_injected_stall_is_reported_as_one_long_before_the_time_out(fault: str, dialect: Dialect) -> None:
    with (
        running("--fault", fault) as (_, address),
        AiServer.open(address, dialect=dialect, timeout=HOUR) as server,
    ):
        with pytest.raises(TransferStall, match=f"GET_ID at endpoint 0x[08]1: {PHRASE}$"):
            server.id  # noqa: B018
        assert server.id == 0x12345678


def test_injected_stall_within_the_data_of_a_set_leaves_no_half_of_a_command() -> None:
    with running("--fault", "stall:out:2") as (_, address), AiServer.open(address, timeout=HOUR) as server:
        with pytest.raises(TransferStall, match=f"SET_MODEL_ARENA at endpoint 0x01: {PHRASE}$"):
            server.load_model(digits.model_bytes())
        server.load_model(digits.model_bytes())
        assert server.spec().input_bytes == 64


def test_host_tool_reports_an_injected_stall_and_no_time_out() -> None:
    with running("--fault", "stall:in:1") as (_, address):
        done = run_process([*HOST, "--device", address, "info"])
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == f"aisrv-host: GET_ID at endpoint 0x81: {PHRASE}\n"


def test_halts_of_endpoints(transport: Transport) -> None:
    assert transport.halted() == frozenset()
    transport.write(GET_OUTPUT, None)
    with pytest.raises(TransferStall):
        transport.read(512, None)
    assert transport.halted() == {0x01, 0x81}
    transport.clear_halts()
    assert transport.halted() == frozenset()
