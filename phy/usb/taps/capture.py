"""Captures: a port that stands before a device and records what the host asked and how it ended.

The record is what usbmon would write on a Linux host: an event where a request is submitted, one where it
ends. Control transfers of the host's own system, such as SET_ADDRESS, never reach a device over USB/IP.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aisrv.protocol.usb_descriptors import Descriptors
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.taps.pcapng import EnhancedPacket, InterfaceDescription, SectionHeader
from phy.usb.taps.relay_port import Request, Result, arrived, end, submit, successor
from phy.usb.taps.usbmon import (
    HEADER_SIZE,
    IN_PROGRESS,
    LINKTYPE_USB_LINUX_MMAPPED,
    EventType,
    TransferType,
    UsbmonEvent,
)
from phy.usb.urb import InUrb, OutUrb, TransferStatus

logger = logging.getLogger(__name__)

PAYLOAD_LIMIT: Final = 64 * 1024
"""Bytes of a request's data that are kept, unless told; the true length is recorded in any case."""

PAYLOAD_MAXIMUM: Final = 256 * 1024 - HEADER_SIZE
"""Wireshark takes a larger packet for damage of the file."""

UNLINKED: Final = -104
NO_ENDPOINT: Final = -2
ERRNO: Final = {
    TransferStatus.OKAY: 0,
    TransferStatus.STALL: -32,
    TransferStatus.OVERFLOW: -75,
    TransferStatus.SHUTDOWN: -108,
}
"""Status of an event as Linux has it: ECONNRESET, ENOENT; EPIPE, EOVERFLOW, ESHUTDOWN."""


class CaptureFile:
    """A pcapng file that is whole after each event: there is nothing of it in this process.

    Raises OSError where the file cannot be made. One that cannot be written later, as on a full disk, ends
    the capture with an error in the log, and nothing else.
    """

    def __init__(
        self, path: Path, *, payload_limit: int = PAYLOAD_LIMIT, clock: Callable[[], int] = time.time_ns
    ) -> None:
        if not 0 <= payload_limit <= PAYLOAD_MAXIMUM:
            raise ValueError(
                f"a capture keeps 0 to {PAYLOAD_MAXIMUM} bytes of a request, not {payload_limit}"
            )
        self.payload_limit: Final = payload_limit
        self._path = path
        self._clock = clock
        self._urbs = 0
        self._interfaces = 0
        self._failed = False
        self._file = path.open("wb", buffering=0)
        self._append(bytes(SectionHeader("aisrv")))

    def interface(self, name: str, description: str = "", *, bus: int = 1, device: int = 1) -> "Interface":
        """Add an interface for a device; the numbers of its bus and on it (1 to 127) tell Wireshark which."""
        number = self._interfaces
        self._interfaces += 1
        size = HEADER_SIZE + self.payload_limit
        self._append(bytes(InterfaceDescription(LINKTYPE_USB_LINUX_MMAPPED, size, name, description)))
        return Interface(self, number, bus, device)

    def next_urb(self) -> int:
        """Return the number of a new request."""
        self._urbs += 1
        return self._urbs

    def now(self) -> int:
        """Return nanoseconds since 1970."""
        return self._clock()

    def write(self, interface: int, event: UsbmonEvent) -> None:
        """Add an event."""
        packet = EnhancedPacket(interface, event.timestamp, bytes(event), event.original_length)
        self._append(bytes(packet))

    def close(self) -> None:
        """Close the file; events that come later are not recorded."""
        self._failed = True
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, block: bytes) -> None:
        if self._failed:
            return
        left = memoryview(block)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._failed = True
            logger.error("%s: %s; the capture ends here", self._path, error.strerror)


class Interface:
    """One device's part of a capture."""

    def __init__(self, file: CaptureFile, number: int, bus: int, device: int) -> None:
        self.file: Final = file
        self.number: Final = number
        self.bus: Final = bus
        self.device: Final = device


class _Urb:
    """A request that has not ended: what its events have in common, and the data of the first."""

    __slots__ = (
        "endpoint",
        "kept",
        "length",
        "number",
        "setup",
        "submitted",
        "successor",
        "transfer",
        "zero",
    )

    def __init__(self, number: int, endpoint: int, request: Request) -> None:
        self.number = number
        self.transfer = TransferType.CONTROL if isinstance(request, ControlUrb) else TransferType.BULK
        self.endpoint = endpoint
        self.setup: bytes | None = None
        self.zero = False
        self.kept = b""
        self.submitted = False
        self.successor = request
        if isinstance(request, ControlUrb):
            setup = request.setup
            # Linux takes a transfer without a data stage for OUT, whatever its SETUP packet says.
            inwards = setup.to_host and setup.length > 0
            self.endpoint = 0x80 if inwards else 0x00
            self.length = setup.length if inwards else len(request.data)
            self.setup = bytes(setup)
        else:
            self.length = request.length
            self.zero = isinstance(request, OutUrb) and request.zero_packet


class CapturedPort(HostPort):
    """Records the requests of a host; the device behind `inner` and the host notice nothing."""

    def __init__(self, inner: HostPort, sink: Interface) -> None:
        self._inner = inner
        self._sink = sink
        self._urbs: dict[Request, _Urb] = {}

    @property
    def descriptors(self) -> Descriptors:
        """What the device is."""
        return self._inner.descriptors

    def submit_out(self, address: int, request: OutUrb) -> bool:
        """Record and pass on; False where there is no such endpoint."""
        return self._submit(address, request)

    def submit_in(self, address: int, request: InUrb) -> bool:
        """Record and pass on; False where there is no such endpoint."""
        return self._submit(address, request)

    def submit_control(self, request: ControlUrb) -> None:
        """Record and pass on."""
        self._submit(0, request)

    def data_arrived(self, request: OutUrb) -> None:
        """Pass on what has come; the SUBMIT event is written when the part of it that is kept is complete."""
        urb = self._urbs.get(request)
        if urb is not None and isinstance(urb.successor, OutUrb):
            self._move(urb, request, urb.successor)
            self._inner.data_arrived(urb.successor)

    def unlink(self, request: Request) -> bool:
        """Take a request back; False where it is done, or is being answered."""
        urb = self._urbs.get(request)
        if urb is None or not self._inner.unlink(urb.successor):
            return False
        del self._urbs[request]
        taken = 0
        if isinstance(urb.successor, OutUrb):
            assert isinstance(request, OutUrb)  # noqa: S101 - for the type checker
            taken = request.taken = urb.successor.taken  # of the device, not of this port
        self._record_end(urb, UNLINKED, taken, b"")
        return True

    def reset(self) -> None:
        """Reset the bus; the requests that ends are recorded as they end."""
        self._inner.reset()

    async def wait_unplugged(self) -> None:
        """Wait until the device has left the bus."""
        await self._inner.wait_unplugged()

    def _submit(self, address: int, request: Request) -> bool:
        urb = _Urb(self._sink.file.next_urb(), address, request)
        urb.successor = successor(request, partial(self._end, request))
        self._urbs[request] = urb
        if isinstance(request, ControlUrb):
            urb.kept = request.data[: self._sink.file.payload_limit]
            self._record_submit(urb)
        elif isinstance(urb.successor, OutUrb):
            assert isinstance(request, OutUrb)  # noqa: S101 - for the type checker
            self._move(urb, request, urb.successor)
        else:
            self._record_submit(urb)
        if submit(self._inner, address, urb.successor):
            return True
        del self._urbs[request]
        if not urb.submitted:
            self._record_submit(urb)
        self._record(urb, EventType.ERROR, NO_ENDPOINT, 0, b"")
        return False

    def _move(self, urb: _Urb, request: OutUrb, to: OutUrb) -> None:
        wanted = min(self._sink.file.payload_limit, urb.length)
        for part in arrived(request):
            if not urb.submitted:
                urb.kept += part[: wanted - len(urb.kept)]
            to.feed(part)
        if not urb.submitted and len(urb.kept) == wanted:
            self._record_submit(urb)

    def _end(self, request: Request, status: TransferStatus, result: Result) -> None:
        urb = self._urbs.pop(request, None)
        if urb is not None:
            if isinstance(result, int):
                length, data = result, b""
            else:
                length, data = len(result), result
            if isinstance(request, ControlUrb) and not urb.endpoint & 0x80:
                length = urb.length if status is TransferStatus.OKAY else 0
                data = b""
            self._record_end(urb, ERRNO[status], length, data)
        end(request, status, result)

    def _record_submit(self, urb: _Urb) -> None:
        urb.submitted = True
        self._record(urb, EventType.SUBMIT, IN_PROGRESS, urb.length, urb.kept)
        urb.kept = b""

    def _record_end(self, urb: _Urb, status: int, length: int, data: bytes) -> None:
        if not urb.submitted:  # it ended before its data had come
            self._record_submit(urb)
        self._record(urb, EventType.COMPLETE, status, length, data[: self._sink.file.payload_limit])

    def _record(self, urb: _Urb, event: EventType, status: int, length: int, data: bytes) -> None:
        sink = self._sink
        sink.file.write(
            sink.number,
            UsbmonEvent(
                urb=urb.number,
                event=event,
                transfer=urb.transfer,
                endpoint=urb.endpoint,
                device=sink.device,
                bus=sink.bus,
                timestamp=sink.file.now(),
                status=status,
                length=length,
                data=data,
                setup=urb.setup if event is EventType.SUBMIT else None,
                zero_packet=urb.zero,
            ),
        )
