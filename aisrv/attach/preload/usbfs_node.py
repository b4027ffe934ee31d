"""A usbfs device node: the claims of its interfaces, and the requests of its clients. No I/O.

A request is pending from SUBMITURB until the device ends it or DISCARDURB takes it back; then it waits to be
reaped. Source: the Linux kernel's document "The Linux-USB Host Side API".
"""

import errno
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from msgspec import Struct

from aisrv.attach.preload.usbfs import (
    KNOWN_FLAGS,
    MEMORY_LIMIT,
    REQUEST_OVERHEAD,
    Urb,
    UrbFlag,
    UrbType,
    UsbfsError,
)
from aisrv.protocol.usb_descriptors import DIRECTION_IN, SetupPacket
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.urb import LINUX_STATUS, MOST_PENDING, InUrb, OutUrb, TransferStatus

SETUP_SIZE: Final = 8


class _Pending(Struct):
    """A request at the device."""

    urb: Urb
    request: OutUrb | InUrb | ControlUrb
    number: int
    """Its own, as another one may have its address when it ends."""


class Reaped(Struct, frozen=True):
    """A request that ended: its address in the client's memory, and the result to write there."""

    address: int
    urb: Urb
    data_address: int
    data: bytes | memoryview


class UsbfsNode:
    """One device of a bus, from when it is plugged in until it leaves.

    `on_reapable(flag)` says when a request can be reaped, and when none is left: all who have the node open
    share that flag, as they share the FIFO that stands for it. `on_claim(interface, flag)` says when an
    interface is claimed, and when it is free again.
    """

    def __init__(
        self,
        port: HostPort,
        device_number: int,
        on_reapable: Callable[[bool], None],
        on_claim: Callable[[int, bool], None],
    ) -> None:
        self.port: Final = port
        self.device_number: Final = device_number
        self.memory = 0
        """Bytes of MEMORY_LIMIT in use."""
        self.files: Final[list[UsbfsFile]] = []
        self.unplugged = False
        """Whether the device has left the bus: clients get ENODEV."""
        self._claims: dict[int, UsbfsFile] = {}
        self._reapable = 0
        self._on_reapable = on_reapable
        self._on_claim = on_claim
        configuration = port.descriptors.configuration
        self._interfaces: Final = {
            endpoint.address: each.number for each in configuration.interfaces for endpoint in each.endpoints
        }
        self._interrupt: Final = {
            endpoint.address
            for each in configuration.interfaces
            for endpoint in each.endpoints
            if endpoint.is_interrupt
        }
        self._numbers: Final = {each.number for each in configuration.interfaces}

    def open(self) -> "UsbfsFile":
        """Open the node. The caller closes the file."""
        file = UsbfsFile(self)
        self.files.append(file)
        return file

    def unplug(self) -> None:
        """End all requests and claims because the device left the bus."""
        for file in self.files:
            file.unplug()
            self.release_all(file)
        self.unplugged = True

    @property
    def claimed(self) -> bool:
        return bool(self._claims)

    def interface_of(self, endpoint: int) -> int:
        """Return the interface that an endpoint belongs to; ENOENT for an unknown endpoint."""
        try:
            return self._interfaces[endpoint]
        except KeyError:
            raise UsbfsError(errno.ENOENT) from None

    def check_kind(self, kind: int, endpoint: int) -> None:
        """Check that an endpoint takes requests of a kind; EINVAL for one that does not.

        One for interrupt transfers takes those for bulk transfers as well. Source: Linux, devio.c.
        """
        if kind != UrbType.BULK and not (kind == UrbType.INTERRUPT and endpoint in self._interrupt):
            raise UsbfsError(errno.EINVAL)

    def claim(self, interface: int, file: "UsbfsFile") -> None:
        """Claim an interface, again or anew; EBUSY if another has it, EINVAL if there is none."""
        if interface not in self._numbers:
            raise UsbfsError(errno.EINVAL)
        owner = self._claims.get(interface)
        if owner is None:
            self._claims[interface] = file
            self._on_claim(interface, True)
        elif owner is not file:
            raise UsbfsError(errno.EBUSY)

    def release(self, interface: int, file: "UsbfsFile") -> None:
        """Release a claim; EINVAL if the file has none."""
        if self._claims.get(interface) is not file:
            raise UsbfsError(errno.EINVAL)
        del self._claims[interface]
        self._on_claim(interface, False)

    def release_all(self, file: "UsbfsFile") -> None:
        for interface in [number for number, owner in self._claims.items() if owner is file]:
            self.release(interface, file)

    def count_reapable(self, change: int) -> None:
        """Change the number of requests that can be reaped."""
        before, self._reapable = self._reapable, self._reapable + change
        if bool(before) != bool(self._reapable):
            self._on_reapable(bool(self._reapable))


class UsbfsFile:
    """An open file of the node."""

    def __init__(self, node: UsbfsNode) -> None:
        self.node: Final = node
        self._pending: dict[int, _Pending] = {}
        self._numbers = count()
        self._ended: deque[Reaped] = deque()
        descriptors = node.port.descriptors
        self._content = bytes(descriptors.device) + bytes(descriptors.configuration)
        self._position = 0

    def read(self, size: int) -> bytes:
        """Return what reading the node gives: the device descriptor and that of the configuration."""
        data = self._content[self._position : self._position + size]
        self._position += len(data)
        return data

    def check(self, address: int, urb: Urb) -> int:
        """Check a request; return how many bytes of its buffer the device needs.

        Errors: EINVAL for an invalid one or one whose address is in use, ENOENT for an unknown endpoint,
        EBUSY if another has claimed the interface, ENOMEM for more than MEMORY_LIMIT or MOST_PENDING in
        flight.
        """
        size = urb.buffer_length
        if urb.flags & ~KNOWN_FLAGS or size < 0 or (size and not urb.buffer) or address in self._pending:
            raise UsbfsError(errno.EINVAL)
        if urb.kind == UrbType.CONTROL:
            if urb.endpoint & ~DIRECTION_IN or size < SETUP_SIZE:
                raise UsbfsError(errno.EINVAL)
        else:
            interface = self.node.interface_of(urb.endpoint)
            self.node.check_kind(urb.kind, urb.endpoint)
            self.node.claim(interface, self)  # the kernel claims for those who forgot, too
        is_full = len(self._pending) >= MOST_PENDING
        if is_full or self.node.memory + size + REQUEST_OVERHEAD > MEMORY_LIMIT:
            raise UsbfsError(errno.ENOMEM)
        is_in = urb.kind != UrbType.CONTROL and urb.endpoint & DIRECTION_IN
        return 0 if is_in else size

    def submit(self, address: int, urb: Urb, data: Sequence[bytes]) -> None:
        """Start a request that `check` let pass; `data` is the part of its buffer that it asked for.

        EINVAL for a control transfer whose SETUP packet asks for more than its buffer, ENOENT if the endpoint
        is off, as on a device without a configuration.
        """
        if urb.kind == UrbType.CONTROL:
            self._submit_control(address, urb, b"".join(data))
            return
        number = next(self._numbers)  # not the request: one that knew itself would be garbage to collect
        request: OutUrb | InUrb
        if urb.endpoint & DIRECTION_IN:
            request = InUrb(
                urb.buffer_length,
                lambda status, received: self._end(address, number, status, len(received), received),
            )
            submit = self.node.port.submit_in
        else:
            request = OutUrb(
                sum(map(len, data)),
                lambda status, taken: self._end(address, number, status, taken),
                zero_packet=bool(urb.flags & UrbFlag.ZERO_PACKET),
            )
            for piece in data:
                request.feed(piece)
            submit = self.node.port.submit_out  # type: ignore[assignment]  # the two differ in the request
        self._begin(address, urb, request, number)
        if not submit(urb.endpoint, request):  # type: ignore[arg-type]
            self._forget(address)
            raise UsbfsError(errno.ENOENT)

    def discard(self, address: int, status: int = -errno.ENOENT) -> None:
        """Take a request back, which is reaped with `status` then; EINVAL if none is pending there."""
        pending = self._pending.get(address)
        if pending is None:
            raise UsbfsError(errno.EINVAL)
        request = pending.request
        self.node.port.unlink(request)
        if isinstance(request, InUrb):
            data = request.data
            self._finish(address, status, len(data), data)
        else:
            taken = request.taken if isinstance(request, OutUrb) else 0
            self._finish(address, status, taken)

    def reap(self) -> Reaped:
        """Take the next request that ended; if there is none, EAGAIN, and ENODEV without the device."""
        if not self._ended:
            raise UsbfsError(errno.ENODEV if self.node.unplugged else errno.EAGAIN)
        reaped = self._ended.popleft()
        self.node.memory -= reaped.urb.buffer_length + REQUEST_OVERHEAD
        self.node.count_reapable(-1)
        return reaped

    def unplug(self) -> None:
        """Take all requests back, which are reaped with -ESHUTDOWN then."""
        for address in list(self._pending):
            self.discard(address, -errno.ESHUTDOWN)

    def close(self) -> None:
        """Take all requests back and give all claims up."""
        for address in list(self._pending):
            self.discard(address)
        while self._ended:
            self.reap()
        self.node.release_all(self)
        self.node.files.remove(self)

    def _submit_control(self, address: int, urb: Urb, data: bytes) -> None:
        setup = SetupPacket.from_bytes(data[:SETUP_SIZE])
        if len(data) < SETUP_SIZE + setup.length:
            raise UsbfsError(errno.EINVAL)

        number = next(self._numbers)

        def complete(status: TransferStatus, answer: bytes) -> None:
            actual = len(answer) if setup.to_host else setup.length * (status is TransferStatus.OKAY)
            self._end(address, number, status, actual, answer)

        outwards = b"" if setup.to_host else data[SETUP_SIZE : SETUP_SIZE + setup.length]
        request = ControlUrb(setup, outwards, complete)
        self._begin(address, urb, request, number)
        self.node.port.submit_control(request)

    def _begin(self, address: int, urb: Urb, request: OutUrb | InUrb | ControlUrb, number: int) -> None:
        self._pending[address] = _Pending(urb, request, number)
        self.node.memory += urb.buffer_length + REQUEST_OVERHEAD

    def _forget(self, address: int) -> None:
        urb = self._pending.pop(address).urb
        self.node.memory -= urb.buffer_length + REQUEST_OVERHEAD

    def _end(
        self,
        address: int,
        number: int,
        status: TransferStatus,
        actual: int,
        data: bytes | memoryview = b"",
    ) -> None:
        """Record the end of a request, unless it was taken back while the device was answering it."""
        pending = self._pending.get(address)
        if pending is not None and pending.number == number:
            self._finish(address, LINUX_STATUS[status], actual, data)

    def _finish(self, address: int, status: int, actual: int, data: bytes | memoryview = b"") -> None:
        urb = self._pending.pop(address).urb
        short = bool(urb.endpoint & DIRECTION_IN) and actual < urb.buffer_length
        if short and not status and urb.kind != UrbType.CONTROL and urb.flags & UrbFlag.SHORT_NOT_OK:
            status = -errno.EREMOTEIO
        offset = SETUP_SIZE if urb.kind == UrbType.CONTROL else 0
        self._ended.append(Reaped(address, urb.ended(status, actual), urb.buffer + offset, data))
        self.node.count_reapable(1)
