"""Captures: a port that wraps a device and records the requests of a host and their ends.

The record is what usbmon would write on a Linux host: an event where a request is submitted, one where it
ends. Control transfers of the host's own system, such as SET_ADDRESS, never reach a device over USB/IP.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from aisrv.protocol.usb_descriptors import DIRECTION_IN
from aisrv.protocol.usbip import UrbStatus
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.taps.pcapng import EnhancedPacket, InterfaceDescription, SectionHeader
from phy.usb.taps.relay_port import Relay, RelayPort, Result, Urb
from phy.usb.taps.usbmon import (
    HEADER_SIZE,
    IN_PROGRESS,
    LINKTYPE_USB_LINUX_MMAPPED,
    EventType,
    TransferType,
    UsbmonEvent,
)
from phy.usb.urb import LINUX_STATUS, OutUrb, TransferStatus

logger = logging.getLogger(__name__)

PAYLOAD_LIMIT: Final = 64 * 1024
"""Bytes of a URB's data that are kept by default; the true length is recorded in any case."""

PAYLOAD_MAXIMUM: Final = 256 * 1024 - HEADER_SIZE
"""Largest packet that Wireshark does not take for damage of the file."""

NO_ENDPOINT: Final = -2
"""-ENOENT: Linux reports it of a URB to an unknown endpoint."""


class CaptureFile:
    """A pcapng file that is whole after each event: nothing of it is buffered in this process.

    Raises OSError if the file cannot be made. One that cannot be written later, as on a full disk, ends the
    capture with an error in the log, and nothing else. `payload_limit` is the most bytes that are kept of a
    request, ValueError for too many; `clock` tells nanoseconds since 1970.
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
        """Add an interface for a device; Wireshark shows its numbers `bus` and `device` (1 to 127)."""
        number = self._interfaces
        self._interfaces += 1
        size = HEADER_SIZE + self.payload_limit
        self._append(bytes(InterfaceDescription(LINKTYPE_USB_LINUX_MMAPPED, size, name, description)))
        return Interface(self, number, bus, device)

    def next_urb(self) -> int:
        """Allocate the number of a request."""
        self._urbs += 1
        return self._urbs

    def now(self) -> int:
        """Nanoseconds since 1970."""
        return self._clock()

    def write(self, interface: int, event: UsbmonEvent) -> None:
        """Add an event of an interface."""
        packet = EnhancedPacket(interface, event.timestamp, bytes(event), event.original_length)
        self._append(bytes(packet))

    def close(self) -> None:
        """Close the file; events that come later are not recorded."""
        self._failed = True
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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


class _CapturedRelay(Relay):
    """A relay with the common fields of its events, and the data of the first."""

    __slots__ = ("endpoint", "kept", "length", "number", "setup", "submitted", "transfer", "wanted", "zero")

    def __init__(
        self, address: int, urb: Urb, number: int, payload_limit: int, *, is_interrupt: bool
    ) -> None:
        super().__init__(address, urb)
        self.number = number
        self.endpoint = address
        self.setup: bytes | None = None
        self.zero = False
        self.kept = b""
        self.wanted = 0
        """Bytes of OUT data that are kept for the first event."""
        self.submitted = False
        if isinstance(urb, ControlUrb):
            self.transfer = TransferType.CONTROL
            self.setup = bytes(urb.setup)
            # Linux takes a transfer without a data stage for OUT, whatever its SETUP packet says.
            inwards = urb.setup.to_host and urb.setup.length > 0
            self.endpoint = DIRECTION_IN if inwards else 0
            self.length = urb.setup.length if inwards else len(urb.data)
            self.kept = urb.data[:payload_limit]
            self.wanted = len(self.kept)
        else:
            self.transfer = TransferType.INTERRUPT if is_interrupt else TransferType.BULK
            self.length = urb.length
            if isinstance(urb, OutUrb):
                self.zero = urb.zero_packet
                self.wanted = min(payload_limit, urb.length)


class CapturedPort(RelayPort[_CapturedRelay]):
    """Records the transfers of a host.

    The SUBMIT event is written when the part of the OUT data that is kept has arrived. `sink` is where events
    go.
    """

    def __init__(self, inner: HostPort, sink: Interface) -> None:
        super().__init__(inner)
        self._sink = sink

    def _relay(self, address: int, urb: Urb) -> _CapturedRelay:
        file = self._sink.file
        endpoint = self.descriptors.configuration.endpoint(address) if address else None
        is_interrupt = endpoint is not None and endpoint.is_interrupt
        return _CapturedRelay(address, urb, file.next_urb(), file.payload_limit, is_interrupt=is_interrupt)

    def _observe_start(self, relay: _CapturedRelay) -> None:
        self._record_submit(relay)

    def _observe_data(self, relay: _CapturedRelay, parts: list[bytes]) -> None:
        if not relay.submitted:
            for part in parts:
                relay.kept += part[: relay.wanted - len(relay.kept)]
            if len(relay.kept) == relay.wanted:
                self._record_submit(relay)

    def _observe_end(self, relay: _CapturedRelay, status: TransferStatus, result: Result) -> None:
        length, data = (result, b"") if isinstance(result, int) else (len(result), result)
        if isinstance(relay.urb, ControlUrb) and not relay.endpoint & DIRECTION_IN:
            length, data = relay.length if status is TransferStatus.OKAY else 0, b""
        self._record_end(relay, LINUX_STATUS[status], length, data)

    def _observe_unlink(self, relay: _CapturedRelay) -> None:
        taken = relay.urb.taken if isinstance(relay.urb, OutUrb) else 0
        self._record_end(relay, UrbStatus.UNLINKED, taken, b"")

    def _observe_refusal(self, relay: _CapturedRelay) -> None:
        if not relay.submitted:
            self._record_submit(relay)
        self._record(relay, EventType.ERROR, NO_ENDPOINT, 0, b"")

    def _record_submit(self, relay: _CapturedRelay) -> None:
        relay.submitted = True
        self._record(relay, EventType.SUBMIT, IN_PROGRESS, relay.length, relay.kept)
        relay.kept = b""

    def _record_end(self, relay: _CapturedRelay, status: int, length: int, data: bytes) -> None:
        if not relay.submitted:  # it ended before its data had come
            self._record_submit(relay)
        self._record(relay, EventType.COMPLETE, status, length, data[: self._sink.file.payload_limit])

    def _record(self, relay: _CapturedRelay, event: EventType, status: int, length: int, data: bytes) -> None:
        sink = self._sink
        sink.file.write(
            sink.number,
            UsbmonEvent(
                urb=relay.number,
                event=event,
                transfer=relay.transfer,
                endpoint=relay.endpoint,
                device=sink.device,
                bus=sink.bus,
                timestamp=sink.file.now(),
                status=status,
                length=length,
                data=data,
                setup=relay.setup if event is EventType.SUBMIT else None,
                zero_packet=relay.zero,
            ),
        )
