"""Devices that a USB/IP server exports, opened and listed by `HOST[:PORT][/BUSID]` or `unix:PATH[/BUSID]`."""

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from aisrv.protocol.commands import (
    ENDPOINT_IN,
    ENDPOINT_OUT,
    PACKET_SIZE,
    USB_MANUFACTURER,
    USB_PRODUCT,
    USB_PRODUCT_ID,
    USB_VENDOR_ID,
)
from aisrv.protocol.usb_descriptors import DIRECTION_IN
from aisrv.protocol.usbip import PORT, URB_ZERO_PACKET, DeviceRecord
from host_tools.errors import DeviceNotFound, HostError, TransferStall
from host_tools.transports.server_address import UNIX, check_address
from host_tools.transports.transport import TIMED_OUT, Buffer, DeviceInfo, Outcome, Request
from host_tools.transports.usbip.connection import Connection
from host_tools.transports.usbip.discovery import list_devices
from host_tools.transports.usbip.pipeline import Transfer, deadline_after
from host_tools.transports.usbip.standard_requests import (
    clear_halt,
    is_halted,
    read_device,
    read_string,
    set_configuration,
)

CONFIGURATION: Final = 1

_ENDPOINTS: Final = (ENDPOINT_OUT, ENDPOINT_IN)

_BUSID: Final = re.compile(r"[0-9]+-[0-9]+(\.[0-9]+)*")

_SMALL_ANSWER: Final = 16 * 1024
"""Bytes of an exchange's answer up to which one buffer serves for all."""


class UsbipTransport:
    """The bulk endpoints of one imported device."""

    def __init__(self, connection: Connection) -> None:
        """Configure an imported device. The connection is the transport's, and closed in any case."""
        self._connection = connection
        self._answer = memoryview(bytearray(_SMALL_ANSWER))  # fresh zeros for each answer would take longer
        with ExitStack() as opened:
            opened.callback(connection.close)
            # Even where the value is set already: whatever an earlier program left unfinished is dropped.
            set_configuration(connection, CONFIGURATION)
            self._resources = opened.pop_all()

    def write(self, data: Buffer, timeout: float | None) -> None:
        """See `Transport.write`."""
        self._connection.bulk_out(ENDPOINT_OUT, data, timeout)

    def read(self, length: int, timeout: float | None) -> bytes:
        """See `Transport.read`."""
        if length <= 0 or length % PACKET_SIZE:
            raise ValueError(f"a read takes a multiple of {PACKET_SIZE} bytes, not {length}")
        return self._connection.bulk_in(ENDPOINT_IN, length, timeout)

    def exchange(self, writes: Sequence[Buffer], length: int, timeout: float | None) -> bytes:
        """See `Transport.exchange`. All requests are in flight at once."""
        answer = self._answer[:length] if length <= _SMALL_ANSWER else memoryview(bytearray(length))
        requests: list[tuple[int, Buffer]] = [(ENDPOINT_OUT, data) for data in writes]
        if length:
            requests.append((ENDPOINT_IN, answer))
        count = self._connection.transact(requests, timeout)
        return bytes(answer[:count]) if length else b""

    def exchange_each(
        self, exchanges: Sequence[Sequence[Buffer]], length: int, timeout: float | None
    ) -> list[bytes]:
        """Do as `exchange` several times, each with a read of `length` bytes; all are in flight at once."""
        requests: list[tuple[int, Buffer]] = []
        answers = []
        for writes in exchanges:
            requests += [(ENDPOINT_OUT, data) for data in writes]
            answers.append((len(requests), memoryview(bytearray(length))))
            requests.append((ENDPOINT_IN, answers[-1][1]))
        moved = self._connection.transact_each(requests, timeout)
        return [bytes(answer[: moved[place]]) for place, answer in answers]

    def halted(self) -> frozenset[int]:
        """See `Transport.halted`."""
        try:
            return frozenset(each for each in _ENDPOINTS if is_halted(self._connection, each))
        except TransferStall:  # it does not know the request
            return frozenset()

    def start(self, request: Request, timeout: float | None) -> "UsbipTicket":
        """See `RequestTransport.start`."""
        inwards = bool(request.endpoint & DIRECTION_IN)
        buffer = bytearray(request.room) if inwards else request.data
        flags = URB_ZERO_PACKET if request.zero_packet else 0
        deadline = deadline_after(timeout)
        setup = request.setup or bytes(8)
        transfer = self._connection.submit(request.endpoint, buffer, setup, flags, deadline)
        return UsbipTicket(self._connection, transfer, deadline)

    def clear_halts(self) -> None:
        """See `Transport.clear_halts`."""
        for endpoint in _ENDPOINTS:
            clear_halt(self._connection, endpoint)

    def reset(self) -> None:
        """See `Transport.reset`."""
        set_configuration(self._connection, CONFIGURATION)

    def call_on_close(self, function: Callable[[], object]) -> None:
        """Call a function after the device has been given back."""
        after = ExitStack()
        after.callback(function)
        after.push(self._resources.pop_all())
        self._resources = after

    def close(self) -> None:
        """See `Transport.close`."""
        self._resources.close()


class UsbipTicket:
    """A request in flight to an imported device."""

    def __init__(self, connection: Connection, transfer: Transfer, deadline: float | None) -> None:
        self._connection = connection
        self._transfer = transfer
        self._deadline = deadline

    def finish(self) -> Outcome:
        """See `Ticket.finish`."""
        in_time = self._connection.finish(self._transfer, self._deadline)
        return self._outcome() if in_time else replace(self._outcome(), status=TIMED_OUT)

    def withdraw(self) -> Outcome:
        """See `Ticket.withdraw`."""
        if self._transfer.status is None:
            self._connection.withdraw(self._transfer)
        return self._outcome()

    def _outcome(self) -> Outcome:
        transfer = self._transfer
        data = b"" if transfer.buffer is None else bytes(transfer.buffer[: transfer.actual])
        return Outcome(transfer.status or 0, transfer.actual, data)


def open_usbip(spec: str) -> UsbipTransport:
    """Open the only AI server of a USB/IP server, or the one with a bus id."""
    address, busid = _split(spec)
    exported = _exported(address)
    wanted = [record for record in exported if busid in ("", record.busid)]
    if not wanted:
        names = ", ".join(record.busid for record in exported)
        which = f" with bus id {busid}; it has: {names or 'none'}" if busid else ""
        raise DeviceNotFound(f"{address}: the server exports no AI server{which}")
    if len(wanted) > 1:
        names = ", ".join(f"usbip:{address}/{record.busid}" for record in wanted)
        raise DeviceNotFound(f"{address}: the server exports {len(wanted)} AI servers; name one of {names}")
    return UsbipTransport(Connection.open(address, wanted[0].busid))


def list_usbip(spec: str) -> list[DeviceInfo]:
    """List the AI servers that a USB/IP server exports; each that no host has is asked for its names."""
    address, busid = _split(spec)
    return [_describe(address, record) for record in _exported(address) if busid in ("", record.busid)]


def _describe(address: str, record: DeviceRecord) -> DeviceInfo:
    place = f"usbip:{address}/{record.busid}"
    try:
        with Connection.open(address, record.busid) as connection:
            product, manufacturer, serial = _names(connection)
    except HostError as error:
        # Vendor and product number say what it is; the list of a server carries no names.
        return DeviceInfo(place, USB_PRODUCT, USB_MANUFACTURER, note=str(error))
    return DeviceInfo(place, product or USB_PRODUCT, manufacturer or USB_MANUFACTURER, serial)


def _names(connection: Connection) -> tuple[str, str, str]:
    """Ask a device for product, manufacturer and serial number; empty where it has none."""
    device = read_device(connection)
    indices = device.product_string, device.manufacturer_string, device.serial_string
    product, manufacturer, serial = (read_string(connection, index) if index else "" for index in indices)
    return product, manufacturer, serial


def _exported(address: str) -> list[DeviceRecord]:
    records = [device.record for device in list_devices(address)]
    return [one for one in records if (one.vendor, one.product) == (USB_VENDOR_ID, USB_PRODUCT_ID)]


def _split(spec: str) -> tuple[str, str]:
    """Return the server's address and bus id; without a port it is the one that USB/IP has by default.

    The last part of a socket's path is a bus id where it looks like one.
    """
    if spec.startswith(UNIX):
        directory, _, name = spec.rpartition("/")
        address, busid = (directory, name) if _BUSID.fullmatch(name) else (spec, "")
    else:
        address, _, busid = spec.partition("/")
        if address.endswith("]") or ":" not in address:
            address = f"{address}:{PORT}"
    check_address(address)
    return address, busid
