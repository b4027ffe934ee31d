"""The pyusb backend as a host program sees it, through pyusb itself."""

import errno
import gc
import socket
import struct
import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import usb.core
import usb.util
from usb.backend import libusb1

from aisrv.protocol.usbip import DeviceRecord, Operation, OperationHeader, Submit, UnlinkReply, UrbStatus
from host_tools.standins.libusb_errors import usb_error
from host_tools.standins.pyusb_backend import UsbipBackend, get_backend
from host_tools.transports.usbip import pipeline as usbip_pipeline
from tests.support.peers.usbip_peers import (
    DEADLINE,
    RECORD,
    Peer,
    echo_device,
    list_device,
    plugged,
    refuse_import,
    scripted,
)

IN, OUT = 0x81, 0x01
GET_CONFIGURATION, SET_CONFIGURATION, SET_INTERFACE, CLEAR_FEATURE = 8, 9, 11, 1

DEVICE_DESCRIPTOR = bytes.fromhex("12 01 00 02 ff ff ff 40 b1 20 5e a1 00 10 01 02 00 01")
CONFIGURATION = bytes.fromhex(
    "09 02 20 00 01 01 00 80 fa  09 04 00 00 02 ff ff ff 03  07 05 01 02 00 02 01  07 05 81 02 00 02 01"
)
"""The AI server's descriptors: "XCORE AI server: numbers and wire behavior", USB identity."""


@pytest.fixture
def device() -> Iterator[usb.core.Device]:
    with plugged(echo_device()) as address:
        found = usb.core.find(product="xAISRV", backend=UsbipBackend(address))
        yield found
        usb.util.dispose_resources(found)


@contextmanager
def refused(code: int, number: int | None = None) -> Iterator[None]:
    """The block ends with libusb's error of that code, and with that errno."""
    with pytest.raises(usb.core.USBError) as caught:
        yield
    assert caught.value.backend_error_code == code
    assert number is None or caught.value.errno == number


# Finding


def test_found_by_its_strings() -> None:
    with plugged(echo_device("other"), echo_device("xAISRV", serial="42")) as address:
        found = usb.core.find(product="xAISRV", backend=UsbipBackend(address))
        assert (found.product, found.manufacturer, found.serial_number) == ("xAISRV", "XMOS", "42")
        usb.util.dispose_resources(found)


def test_device_without_serial_number(device: usb.core.Device) -> None:
    assert device.iSerialNumber == 0
    assert device.serial_number is None


def test_device_descriptor(device: usb.core.Device) -> None:
    assert (device.bcdUSB, device.bDeviceClass, device.bMaxPacketSize0) == (0x0200, 0xFF, 64)
    assert (device.idVendor, device.idProduct, device.bcdDevice) == (0x20B1, 0xA15E, 0x1000)
    assert (device.iManufacturer, device.iProduct, device.bNumConfigurations) == (1, 2, 1)


def test_place_and_speed(device: usb.core.Device) -> None:
    assert (device.bus, device.address, device.port_number, device.port_numbers) == (1, 2, 1, (1,))
    assert device.speed == usb.util.SPEED_HIGH


def test_configuration_tree(device: usb.core.Device) -> None:
    (configuration,) = device
    (interface,) = configuration
    assert configuration.bConfigurationValue == 1
    assert (interface.bInterfaceClass, interface.bInterfaceSubClass, interface.bInterfaceProtocol) == (
        255,
    ) * 3
    assert [(e.bEndpointAddress, e.bmAttributes, e.wMaxPacketSize) for e in interface] == [
        (0x81, 2, 512),
        (0x01, 2, 512),
    ]
    assert configuration[(0, 0)].bNumEndpoints == 2


def test_device_can_be_printed(device: usb.core.Device) -> None:
    assert "ENDPOINT 0x81: Bulk IN" in str(device)


def test_several_devices_on_one_server() -> None:
    with plugged(echo_device("one"), echo_device("two")) as address:
        found = list(usb.core.find(find_all=True, backend=UsbipBackend(address)))
        assert [(d.product, d.port_number) for d in found] == [("one", 1), ("two", 2)]
        assert found[0] != found[1]
        for one in found:
            usb.util.dispose_resources(one)


def test_device_is_equal_to_itself_found_again(device: usb.core.Device) -> None:
    assert usb.core.find(backend=device.backend) == device


def test_no_server_is_an_empty_bus(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    assert usb.core.find(backend=UsbipBackend(address)) is None
    assert capfd.readouterr() == ("", "")


def test_backend_is_one_per_address() -> None:
    assert get_backend("localhost:3240") is get_backend("localhost:3240")
    assert get_backend("localhost:3240") is not get_backend("localhost:3241")


def test_address_is_checked_at_once() -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        UsbipBackend("nowhere")


# Transfers


@pytest.mark.parametrize("size", [1, 3, 4, 511, 512, 513, 1024])
def test_write_and_read(device: usb.core.Device, size: int) -> None:
    data = bytes(range(256)) * 4
    assert device.write(OUT, data[:size]) == size
    assert device.read(IN, 2048).tobytes() == data[:size][::-1]


def test_empty_write(device: usb.core.Device) -> None:
    assert device.write(OUT, b"") == 0
    assert device.read(IN, 512) == array("B")


def test_read_into_a_buffer_of_wide_items(device: usb.core.Device) -> None:
    buffer = array("I", [0, 0])
    device.write(OUT, b"\0\0\0\2\0\0\0\1")
    assert device.read(IN, buffer) == 8
    assert buffer == array("I", [1 << 0, 2])


def test_endpoint_objects(device: usb.core.Device) -> None:
    endpoint_in, endpoint_out = device[0][(0, 0)]
    assert endpoint_out.write(b"abc") == 3
    assert endpoint_in.read(512).tobytes() == b"cba"


def test_control_transfers(device: usb.core.Device) -> None:
    assert device.ctrl_transfer(0xC0, 1, 0, 0, 5).tolist() == [0, 1, 2, 3, 4]
    assert device.ctrl_transfer(0x40, 2, 0, 0, b"data") == 4
    assert device.ctrl_transfer(0x40, 2) == 0


def test_control_transfer_past_16_bits(device: usb.core.Device) -> None:
    with refused(libusb1.LIBUSB_ERROR_INVALID_PARAM):
        device.ctrl_transfer(0xC0, 1, 0, 0, 65536)


def test_time_out(device: usb.core.Device) -> None:
    with pytest.raises(usb.core.USBTimeoutError) as caught:
        device.read(IN, 512, 20)
    assert (caught.value.backend_error_code, caught.value.errno) == (
        libusb1.LIBUSB_ERROR_TIMEOUT,
        errno.ETIMEDOUT,
    )
    device.write(OUT, b"abc")
    assert device.read(IN, 512).tobytes() == b"cba"


def test_stall_and_clear_halt(device: usb.core.Device) -> None:
    device.ctrl_transfer(0x02, 3, 0, IN)  # SET_FEATURE(ENDPOINT_HALT)
    with refused(libusb1.LIBUSB_ERROR_PIPE, errno.EPIPE):
        device.read(IN, 512)
    device.clear_halt(IN)
    device.write(OUT, b"abc")
    assert device.read(IN, 512).tobytes() == b"cba"


def test_refused_control_transfer(device: usb.core.Device) -> None:
    with refused(-9, 32):
        device.ctrl_transfer(0xC0, 99, 0, 0, 1)


@pytest.mark.parametrize(
    ("code", "number", "text"),
    [
        (-1, 5, "Input/output error"),
        (-4, 19, "No such device (it may have been disconnected)"),
        (-5, 2, "Entity not found"),
        (-6, 16, "Resource busy"),
        (-7, 110, "Operation timed out"),
        (-8, 75, "Overflow"),
        (-9, 32, "Pipe error"),
    ],
)
def test_errors_are_those_of_libusb(code: int, number: int, text: str) -> None:
    error = usb_error(code)
    assert (error.backend_error_code, error.errno, error.strerror) == (code, number, text)
    assert isinstance(error, usb.core.USBTimeoutError) == (code == -7)


# Configuration, interfaces


def test_device_is_configured_when_it_is_opened(device: usb.core.Device) -> None:
    """A program that never sets a configuration finds the first one active, as after a kernel's plug-in."""
    assert device.ctrl_transfer(0x80, GET_CONFIGURATION, 0, 0, 1).tolist() == [1]
    assert device.get_active_configuration().bConfigurationValue == 1


def test_configuration_can_be_set_again(device: usb.core.Device) -> None:
    device.set_configuration()
    device.set_configuration(1)
    assert device.get_active_configuration().bConfigurationValue == 1


def test_configuration_is_not_set_while_an_interface_is_claimed(device: usb.core.Device) -> None:
    usb.util.claim_interface(device, 0)
    with refused(libusb1.LIBUSB_ERROR_BUSY, errno.EBUSY):
        device.set_configuration()
    usb.util.release_interface(device, 0)
    device.set_configuration()


def test_interface_belongs_to_one_handle(device: usb.core.Device) -> None:
    usb.util.claim_interface(device, 0)
    other = usb.core.find(backend=device.backend)
    with refused(libusb1.LIBUSB_ERROR_BUSY):
        usb.util.claim_interface(other, 0)
    usb.util.dispose_resources(device)
    usb.util.claim_interface(other, 0)
    usb.util.dispose_resources(other)


def test_claiming_twice_is_fine(device: usb.core.Device) -> None:
    handle = device._ctx.managed_open()
    device.backend.claim_interface(handle, 0)
    device.backend.claim_interface(handle, 0)
    device.backend.release_interface(handle, 0)
    with refused(libusb1.LIBUSB_ERROR_NOT_FOUND):
        device.backend.release_interface(handle, 0)


@pytest.mark.parametrize(
    ("interface", "code"),
    [(1, libusb1.LIBUSB_ERROR_NOT_FOUND), (32, libusb1.LIBUSB_ERROR_INVALID_PARAM), (-1, -2)],
)
def test_interface_that_is_not_there(device: usb.core.Device, interface: int, code: int) -> None:
    with refused(code):
        usb.util.claim_interface(device, interface)


def test_alternate_setting(device: usb.core.Device) -> None:
    device.set_interface_altsetting(0, 0)
    with pytest.raises(ValueError, match="No matching interface"):
        device.set_interface_altsetting(0, 1)


def test_no_kernel_driver(device: usb.core.Device) -> None:
    assert device.is_kernel_driver_active(0) is False
    for change in (device.detach_kernel_driver, device.attach_kernel_driver):
        with refused(-5, errno.ENOENT):
            change(0)


def test_isochronous_transfers_are_not_there(device: usb.core.Device) -> None:
    with pytest.raises(NotImplementedError):
        device.backend.iso_read(None, IN, 0, array("B"), 0)


# One import for all handles


def test_device_that_another_client_has() -> None:
    with scripted(list_device, refuse_import, refuse_import) as address:
        found = usb.core.find(idVendor=0x20B1, idProduct=0xA15E, backend=UsbipBackend(address))
        assert (found.iProduct, found.iManufacturer) == (0, 0)
        with refused(libusb1.LIBUSB_ERROR_BUSY, errno.EBUSY):
            found.set_configuration()


class Exclusive:
    """A server that gives its device to one connection at a time, and notes what it is asked."""

    def __init__(self) -> None:
        self.imports = 0
        self.current = 0
        self.requests: list[Submit] = []
        self.configuration = 0
        self.refused: set[int] = set()

    def __call__(self, peer: Peer) -> None:
        code = peer.read(8)
        if code == bytes(OperationHeader(code=Operation.REQ_DEVLIST)):
            peer.send(OperationHeader(code=Operation.REP_DEVLIST), b"\0\0\0\1", RECORD, b"\xff\xff\xff\0")
            peer.wait_for_end()
            return
        peer.read(32)
        assert not self.current
        self.imports += 1
        self.current += 1
        peer.send(OperationHeader(code=Operation.REP_IMPORT), RECORD)
        try:
            while True:
                request, _ = peer.submit()
                self.requests.append(request)
                self.answer(peer, request)
        except EOFError:
            self.current -= 1

    def answer(self, peer: Peer, request: Submit) -> None:
        _, kind, value, _, length = struct.unpack("<BBHHH", request.setup)
        data = {0x0100: DEVICE_DESCRIPTOR, 0x0200: CONFIGURATION}.get(value, b"")
        if kind == GET_CONFIGURATION:
            data = bytes([self.configuration])
        if kind == SET_CONFIGURATION:
            self.configuration = value
        if kind in self.refused:
            peer.reply(request, status=UrbStatus.STALL)
        elif request.direction:
            peer.reply(request, data[:length])
        else:
            peer.reply(request)

    def setups(self) -> list[tuple[int, ...]]:
        return [struct.unpack("<BBHHH", request.setup) for request in self.requests]


@contextmanager
def found_at(server: Exclusive, connections: int) -> Iterator[usb.core.Device]:
    """The device of a server that is connected to so many times."""
    with scripted(*[server] * connections) as address:
        found = usb.core.find(backend=UsbipBackend(address))
        yield found
        usb.util.dispose_resources(found)


def test_plug_in_asks_for_descriptors_then_configures() -> None:
    server = Exclusive()
    with found_at(server, 3) as found:
        found.is_kernel_driver_active(0)  # opens it
    assert server.setups() == [
        (0x80, 6, 0x0100, 0, 18),
        (0x80, 6, 0x0200, 0, 9),
        (0x80, 6, 0x0200, 0, 32),
        (0x80, GET_CONFIGURATION, 0, 0, 1),
        (0x00, SET_CONFIGURATION, 1, 0, 0),
    ]


def test_device_is_held_only_while_a_handle_is_open() -> None:
    server = Exclusive()
    with found_at(server, 4) as found:
        assert (server.imports, server.current) == (1, 0)
        found.is_kernel_driver_active(0)
        assert (server.imports, server.current) == (2, 1)
        usb.util.dispose_resources(found)
        assert server.current == 0
        found.is_kernel_driver_active(0)
        assert (server.imports, server.current) == (3, 1)


def test_configured_device_is_left_as_it_is() -> None:
    server = Exclusive()
    server.configuration = 1
    with found_at(server, 3) as found:
        found.is_kernel_driver_active(0)
    assert SET_CONFIGURATION not in [kind for _, kind, *_ in server.setups()]


def test_handles_share_one_import() -> None:
    server = Exclusive()
    with scripted(*[server] * 4) as address:  # two lists, one import for descriptors, one for both handles
        backend = UsbipBackend(address)
        first = usb.core.find(backend=backend)
        first.is_kernel_driver_active(0)
        second = usb.core.find(backend=backend)
        second.is_kernel_driver_active(0)
        assert server.imports == 2
        usb.util.dispose_resources(first)
        assert server.current == 1
        second.clear_halt(IN)
        usb.util.dispose_resources(second)
        assert server.current == 0


def test_forgotten_device_is_given_back() -> None:
    server = Exclusive()
    with scripted(*[server] * 3) as address:
        found = usb.core.find(backend=UsbipBackend(address))
        found.is_kernel_driver_active(0)
        del found
        gc.collect()
        assert server.current == 0


def test_reset_is_the_kernels_first_question_and_the_configuration() -> None:
    server = Exclusive()
    with found_at(server, 3) as found:
        found.is_kernel_driver_active(0)
        del server.requests[:]
        found.reset()
    assert server.setups() == [
        (0x80, GET_CONFIGURATION, 0, 0, 1),
        (0x80, 6, 0x0100, 0, 64),
        (0x00, SET_CONFIGURATION, 1, 0, 0),
    ]


def test_clear_halt_names_the_endpoint() -> None:
    server = Exclusive()
    with found_at(server, 3) as found:
        found.clear_halt(IN)
    assert server.setups()[-1] == (0x02, CLEAR_FEATURE, 0, 0x81, 0)


def test_refused_alternate_setting_clears_the_halts() -> None:
    """What the kernel does for a device with a single setting that stalls SET_INTERFACE."""
    server = Exclusive()
    server.refused = {SET_INTERFACE}
    with found_at(server, 3) as found:
        found.set_interface_altsetting(0, 0)
    assert server.setups()[-3:] == [
        (0x01, SET_INTERFACE, 0, 0, 0),
        (0x02, CLEAR_FEATURE, 0, 0x01, 0),
        (0x02, CLEAR_FEATURE, 0, 0x81, 0),
    ]


class Failing(Exclusive):
    """Answers bulk requests with one status."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status

    def answer(self, peer: Peer, request: Submit) -> None:
        if request.endpoint:
            peer.reply(request, status=self.status, actual=0)
        else:
            super().answer(peer, request)


@pytest.mark.parametrize(
    ("status", "code", "number"),
    [
        (UrbStatus.STALL, -9, errno.EPIPE),
        (UrbStatus.OVERFLOW, -8, errno.EOVERFLOW),
        (UrbStatus.NO_DEVICE, -4, errno.ENODEV),
        (UrbStatus.SHUTDOWN, -4, errno.ENODEV),
        (UrbStatus.INVALID, -1, errno.EIO),
        (UrbStatus.UNLINKED, -1, errno.EIO),
        (-71, -1, errno.EIO),
    ],
)
def test_status_becomes_the_error_that_libusb_makes_of_it(status: int, code: int, number: int) -> None:
    with found_at(Failing(status), 3) as found:
        for transfer, endpoint, data in ((found.read, IN, 512), (found.write, OUT, b"x")):
            with refused(code, number):
                transfer(endpoint, data)


class Leaving(Exclusive):
    """Ends the connection at the first bulk request."""

    def answer(self, peer: Peer, request: Submit) -> None:
        if request.endpoint:
            raise EOFError
        super().answer(peer, request)


def test_unplugged_device() -> None:
    with found_at(Leaving(), 3) as found:
        for _ in range(2):
            with refused(libusb1.LIBUSB_ERROR_NO_DEVICE, errno.ENODEV):
                found.read(IN, 512)


def test_device_that_comes_back_can_be_used_again() -> None:
    leaving, back = Leaving(), Exclusive()
    with scripted(leaving, leaving, leaving, back) as address:
        found = usb.core.find(backend=UsbipBackend(address))
        with pytest.raises(usb.core.USBError):
            found.read(IN, 512)
        usb.util.dispose_resources(found)
        found.clear_halt(IN)
        usb.util.dispose_resources(found)
    assert back.imports == 1


class Partial(Exclusive):
    """Takes half of a write; its end comes after the time-out."""

    def answer(self, peer: Peer, request: Submit) -> None:
        if request.endpoint:
            unlink = peer.unlink()
            peer.reply(request, status=UrbStatus.UNLINKED, actual=512)
            peer.send(UnlinkReply(unlink.seqnum, 0))
        else:
            super().answer(peer, request)


def test_time_out_after_some_data_is_no_error() -> None:
    with found_at(Partial(), 3) as found:
        assert found.write(OUT, bytes(1024), 50) == 512


def test_device_with_broken_descriptors_does_not_hide_the_others() -> None:
    def listing(peer: Peer) -> None:
        peer.read(8)
        other = DeviceRecord(busid="1-2", device_number=3, product=0x1234)
        peer.send(OperationHeader(code=Operation.REP_DEVLIST), b"\0\0\0\2", RECORD, bytes(4), other, bytes(4))
        peer.wait_for_end()

    def broken(peer: Peer) -> None:
        peer.accept_import()
        peer.reply(peer.submit()[0], b"\x12\x02" + bytes(16))
        peer.wait_for_end()

    with scripted(listing, broken, refuse_import) as address:
        assert usb.core.find(idProduct=0x1234, backend=UsbipBackend(address)).address == 3


def test_device_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control transfer without an answer, nor one to its UNLINK, is a device that is gone."""
    monkeypatch.setattr(usbip_pipeline, "ANSWER_GRACE", 0.05)
    monkeypatch.setattr("host_tools.transports.usbip.standard_requests.CONTROL_TIMEOUT", 0.05)
    done = threading.Event()

    def silent(peer: Peer) -> None:
        peer.accept_import()
        done.wait(DEADLINE)

    with scripted(list_device, silent) as address:
        assert usb.core.find(backend=UsbipBackend(address)).iProduct == 0
        done.set()
