"""USB hardware, through pyusb and libusb.

The transport drives pyusb's backend interface (`usb.backend.IBackend`), below `usb.core.Device`, which looks
the endpoint up at every transfer. What that interface does with the two special cases of bulk transfers:

- A write of an empty array is one packet of no bytes. Nothing ends a write of n * 512 bytes by itself.
- A read ends at a packet shorter than 512 bytes or with a full buffer. An answer of exactly n * 512 bytes is
  followed by a packet of no bytes: a buffer that is at least 512 bytes larger takes both in one read.

Device identity, endpoints and packet size: "XCORE AI server: numbers and wire behavior", USB identity.
"""

import time
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import usb.core
from usb.backend import libusb1

from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT, PACKET_SIZE, USB_PRODUCT_ID, USB_VENDOR_ID
from aisrv.protocol.usb_descriptors import (
    DIRECTION_IN,
    ENDPOINT_HALT,
    LANGID_ENGLISH_US,
    DescriptorType,
    Recipient,
    SetupPacket,
    StandardRequest,
    halt_bit,
    string_text,
)
from aisrv.protocol.usbip import UrbStatus
from host_tools.errors import (
    DeviceAccessDenied,
    DeviceBusy,
    DeviceGone,
    DeviceNotFound,
    HostError,
    TransferError,
    TransferStall,
    TransferTimeout,
)
from host_tools.transports.transport import TIMED_OUT, Buffer, DeviceInfo, Outcome, Request, one_after_another

CONFIGURATION: Final = 1
INTERFACE: Final = 0

_CONTROL_TIMEOUT_MS: Final = 1000

_ERRORS: Final[dict[int, tuple[type[HostError], str]]] = {
    libusb1.LIBUSB_ERROR_NO_DEVICE: (DeviceGone, "the device is gone"),
    libusb1.LIBUSB_ERROR_BUSY: (DeviceBusy, "it is in use by another program"),
    libusb1.LIBUSB_ERROR_ACCESS: (
        DeviceAccessDenied,
        f"no permission to use {USB_VENDOR_ID:04x}:{USB_PRODUCT_ID:04x}; on Linux a udev rule grants it",
    ),
}


_PROTOCOL_ERROR: Final = -71
"""-EPROTO, for what has no status of its own."""

_FAILURES: Final[tuple[tuple[type[HostError], int], ...]] = (
    (TransferStall, UrbStatus.STALL),
    (TransferTimeout, TIMED_OUT),
    (DeviceGone, UrbStatus.NO_DEVICE),
)


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """Turn pyusb's errors into ours."""
    try:
        yield
    except usb.core.USBError as error:
        raise translate(error, what) from error
    except NotImplementedError as error:  # what pyusb makes of LIBUSB_ERROR_NOT_SUPPORTED
        raise DeviceAccessDenied(f"{what}: not supported; on Windows it needs the WinUSB driver") from error


def translate(error: usb.core.USBError, what: str) -> HostError:
    """Return our error for one of pyusb's, by libusb's code."""
    if isinstance(error, usb.core.USBTimeoutError):
        return TransferTimeout(f"{what}: timed out")
    if error.backend_error_code == libusb1.LIBUSB_ERROR_PIPE:  # libusb's name for a stall
        return TransferStall(what)
    kind, reason = _ERRORS.get(error.backend_error_code, (TransferError, str(error)))
    return kind(f"{what}: {reason}")


class UsbTransport:
    """The bulk endpoints of one opened device, seen through a pyusb backend."""

    def __init__(self, backend: Any, device: object) -> None:  # noqa: ANN401 - pyusb has no types
        """Open a device that `backend.enumerate_devices()` gave, configure it and claim its interface."""
        self._backend = backend
        self._bulk_write = backend.bulk_write
        self._bulk_read = backend.bulk_read
        self._queues: dict[int, ThreadPoolExecutor] = {}
        with ExitStack() as opened, _translated("opening the device"):
            self._handle = backend.open_device(device)
            opened.callback(backend.close_device, self._handle)
            # Even where the value is set already: whatever an earlier program left unfinished is dropped.
            backend.set_configuration(self._handle, CONFIGURATION)
            backend.claim_interface(self._handle, INTERFACE)
            self._resources = opened.pop_all()

    def write(self, data: Buffer, timeout: float | None) -> None:
        """See `Transport.write`."""
        packets = array("B")
        packets.frombytes(data)
        try:
            written = self._bulk_write(self._handle, ENDPOINT_OUT, INTERFACE, packets, _milliseconds(timeout))
        except usb.core.USBError as error:
            raise translate(error, "writing") from error
        if written != len(packets):  # pyusb keeps quiet about a timeout once some bytes have moved
            raise TransferTimeout(f"writing: timed out after {written} of {len(packets)} bytes")

    def read(self, length: int, timeout: float | None) -> bytes:
        """See `Transport.read`."""
        if length <= 0 or length % PACKET_SIZE:
            raise ValueError(f"a read takes a multiple of {PACKET_SIZE} bytes, not {length}")
        packets = array("B", bytes(length))
        started = time.monotonic()
        try:
            received = self._bulk_read(self._handle, ENDPOINT_IN, INTERFACE, packets, _milliseconds(timeout))
        except usb.core.USBError as error:
            raise translate(error, "reading") from error
        if (
            timeout is not None
            and 0 < received < length
            and received % PACKET_SIZE == 0
            and time.monotonic() - started >= timeout
        ):  # whole packets and no end: pyusb keeps quiet about this timeout, too
            raise TransferTimeout(f"reading: timed out after {received} bytes")
        return memoryview(packets)[:received].tobytes()

    def exchange(self, writes: Sequence[Buffer], length: int, timeout: float | None) -> bytes:
        """See `Transport.exchange`: libusb's backend has one request in flight at a time."""
        return one_after_another(self, writes, length, timeout)

    def halted(self) -> frozenset[int]:
        """See `Transport.halted`."""
        try:
            with _translated("asking for the halts"):
                return frozenset(each for each in (ENDPOINT_OUT, ENDPOINT_IN) if self._is_halted(each))
        except TransferStall:  # it does not know the request
            return frozenset()

    def _is_halted(self, endpoint: int) -> bool:
        question = SetupPacket(DIRECTION_IN | Recipient.ENDPOINT, StandardRequest.GET_STATUS, 0, endpoint, 2)
        return halt_bit(_control(self._backend, self._handle, question).data)

    def start(self, request: Request, timeout: float | None) -> "UsbTicket":
        """See `RequestTransport.start`.

        Each endpoint has a thread, in which its requests wait for each other: what a device sees is the
        same as with several in flight, which pyusb cannot do.
        """
        number = request.endpoint if request.endpoint & ~DIRECTION_IN else 0
        if number not in self._queues:
            self._queues[number] = ThreadPoolExecutor(1, f"endpoint {number:#04x}")
        return UsbTicket(self._queues[number].submit(self._carry_out, request, timeout))

    def _carry_out(self, request: Request, timeout: float | None) -> Outcome:
        try:
            if request.setup:
                return self._control(request, timeout)
            if request.endpoint & DIRECTION_IN:
                packets = array("B", bytes(request.room))
                received = self._bulk_read(
                    self._handle, request.endpoint, INTERFACE, packets, _milliseconds(timeout)
                )
                return Outcome(0, received, packets[:received].tobytes())
            self.write(request.data, timeout)
            if request.zero_packet and len(request.data) % PACKET_SIZE == 0 and request.data:
                self.write(b"", timeout)
            return Outcome(0, len(request.data))
        except usb.core.USBError as error:
            return _failure(translate(error, "a request"))
        except HostError as error:
            return _failure(error)

    def _control(self, request: Request, timeout: float | None) -> Outcome:
        """Carry out a control request; those that libusb keeps track of go through its own calls."""
        setup = SetupPacket.from_bytes(request.setup)
        kind = setup.request_type, setup.request
        if kind == (Recipient.DEVICE, StandardRequest.SET_CONFIGURATION):
            self.reset()
        elif kind == (Recipient.ENDPOINT, StandardRequest.CLEAR_FEATURE) and setup.value == ENDPOINT_HALT:
            self._backend.clear_halt(self._handle, setup.index)
        elif kind == (Recipient.INTERFACE, StandardRequest.SET_INTERFACE):
            self._backend.set_interface_altsetting(self._handle, setup.index, setup.value)
        else:
            return _control(self._backend, self._handle, setup, request.data, _milliseconds(timeout))
        return Outcome(0, 0)

    def clear_halts(self) -> None:
        """See `Transport.clear_halts`."""
        with _translated("clearing the halts"):
            self._backend.clear_halt(self._handle, ENDPOINT_OUT)
            self._backend.clear_halt(self._handle, ENDPOINT_IN)

    def reset(self) -> None:
        """See `Transport.reset`."""
        with _translated("configuring the device anew"):
            # libusb refuses to configure a device while an interface is claimed, by this program too.
            self._backend.release_interface(self._handle, INTERFACE)
            self._backend.set_configuration(self._handle, CONFIGURATION)
            self._backend.claim_interface(self._handle, INTERFACE)

    def close(self) -> None:
        """See `Transport.close`. Closing the handle releases the interface, too."""
        for queue in self._queues.values():
            queue.shutdown(cancel_futures=True)
        self._resources.close()


class UsbTicket:
    """A request in the queue of an endpoint."""

    def __init__(self, future: Future[Outcome]) -> None:
        self._future = future

    def finish(self) -> Outcome:
        """See `Ticket.finish`."""
        outcome = self._future.result()
        if outcome.status == UrbStatus.NO_DEVICE:
            raise DeviceGone("a request: the device is gone")
        return outcome

    def withdraw(self) -> Outcome:
        """See `Ticket.withdraw`. A request that was begun ends with its time."""
        if self._future.cancel():
            return Outcome(UrbStatus.UNLINKED, 0)
        outcome = self.finish()
        return replace(outcome, status=UrbStatus.UNLINKED) if outcome.status == TIMED_OUT else outcome


def _failure(error: HostError) -> Outcome:
    for kind, status in _FAILURES:
        if isinstance(error, kind):
            return Outcome(status, 0)
    return Outcome(_PROTOCOL_ERROR, 0)


def _milliseconds(timeout: float | None) -> int:
    """Return a timeout as pyusb takes it, where 0 is no limit."""
    return 0 if timeout is None else max(1, round(timeout * 1000))


@dataclass(frozen=True, slots=True)
class Found:
    """A device that a backend enumerated, and what its descriptor says."""

    device: object
    descriptor: Any
    location: str
    """Number of its bus and of the device on it, such as 1-4; changes when it is plugged in again."""


def find(backend: Any) -> list[Found]:  # noqa: ANN401 - pyusb has no types
    """Return the AI servers that a backend sees, known by vendor and product number."""
    found = []
    with _translated("looking for devices"):
        for device in backend.enumerate_devices():
            descriptor = backend.get_device_descriptor(device)
            if (descriptor.idVendor, descriptor.idProduct) == (USB_VENDOR_ID, USB_PRODUCT_ID):
                found.append(Found(device, descriptor, f"{descriptor.bus}-{descriptor.address}"))
    return found


def open_usb(spec: str) -> UsbTransport:
    """Open hardware: the only board, or the one of a serial number or BUS-DEVICE number."""
    backend = _libusb()
    found = find(backend)
    if spec:
        wanted = [one for one in found if spec in (one.location, describe(backend, one).serial)]
    else:
        wanted = found
    if not wanted:
        which = f" with serial number or place {spec!r}" if spec else ""
        raise DeviceNotFound(
            f"no AI server{which} on USB ({USB_VENDOR_ID:04x}:{USB_PRODUCT_ID:04x}); is it plugged in? "
            "The address `virtual` starts a virtual one"
        )
    if len(wanted) > 1:
        names = ", ".join(f"usb:{one.location}" for one in wanted)
        raise DeviceNotFound(f"{len(wanted)} AI servers fit; name one of {names}")
    return UsbTransport(backend, wanted[0].device)


def list_usb(spec: str) -> list[DeviceInfo]:
    """List all boards on USB, or those that fit the serial number or BUS-DEVICE number."""
    backend = _libusb()
    devices = []
    for one in find(backend):
        strings = describe(backend, one)
        if not spec or spec in (one.location, strings.serial):
            devices.append(strings)
    return devices


def _libusb() -> Any:  # noqa: ANN401 - pyusb has no types
    backend = libusb1.get_backend()
    if backend is None:
        raise DeviceNotFound(
            "USB needs the library libusb 1.0, which was not found (Debian: apt install libusb-1.0-0); "
            "the address `virtual` starts a virtual device instead"
        )
    return backend


def describe(backend: Any, found: Found) -> DeviceInfo:  # noqa: ANN401 - pyusb has no types
    """Describe a device in its own words; a device that cannot be opened is still listed, with the reason."""
    try:
        handle = backend.open_device(found.device)
    except usb.core.USBError as error:
        return DeviceInfo(f"usb:{found.location}", note=str(translate(error, "opening it")))
    try:
        one = found.descriptor
        indices = one.iProduct, one.iManufacturer, one.iSerialNumber
        product, manufacturer, serial = (_string(backend, handle, index) for index in indices)
    except usb.core.USBError as error:
        return DeviceInfo(f"usb:{found.location}", note=str(translate(error, "asking for its names")))
    finally:
        backend.close_device(handle)
    return DeviceInfo(f"usb:{serial or found.location}", product, manufacturer, serial)


def _string(backend: Any, handle: object, index: int) -> str:  # noqa: ANN401 - pyusb has no types
    """Return a string descriptor (USB 2.0, section 9.6.7) in English; empty where the device has none."""
    if not index:
        return ""
    kind = DescriptorType.STRING << 8 | index
    question = SetupPacket(DIRECTION_IN, StandardRequest.GET_DESCRIPTOR, kind, LANGID_ENGLISH_US, 255)
    return string_text(_control(backend, handle, question).data)


def _control(
    backend: Any,  # noqa: ANN401 - pyusb has no types
    handle: object,
    setup: SetupPacket,
    data: bytes = b"",
    timeout_ms: int = _CONTROL_TIMEOUT_MS,
) -> Outcome:
    """Carry out a control request; `data` is what one to the device sends."""
    content = array("B", bytes(setup.length) if setup.to_host else data)
    fields = setup.request_type, setup.request, setup.value, setup.index
    moved = backend.ctrl_transfer(handle, *fields, content, timeout_ms)
    return Outcome(0, moved, content[:moved].tobytes() if setup.to_host else b"")
