"""The first half of USB/IP, before a device is imported: find a server's devices and ask for one.

Source: the Linux kernel's "USB/IP protocol" document, version 1.1.1, OP_REQ_DEVLIST and OP_REQ_IMPORT. A
server is not trusted: what it claims is bounded, and an exchange as a whole has a deadline. Times are in
seconds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aisrv.protocol.usbip import (
    VERSION,
    DeviceRecord,
    InterfaceRecord,
    Operation,
    OperationHeader,
    pack_busid,
)
from host_tools.errors import DeviceBusy, DeviceNotFound
from host_tools.transports.server_address import connect

if TYPE_CHECKING:
    import socket
    from typing import Self

ANSWER_GRACE: Final = 5.0
"""Seconds that a server has by default for what needs no device."""

MAX_DEVICES: Final = 1024
"""Devices that a list may hold; a server that claims more is not believed."""

# What usbipd and the usbip tool call ST_NA, ST_DEV_BUSY and ST_NODEV.
_STATUS_NOT_AVAILABLE: Final = 1
_STATUS_BUSY: Final = 2
_STATUS_NO_DEVICE: Final = 4


@dataclass(frozen=True)
class ExportedDevice:
    """One entry of a device list."""

    record: DeviceRecord
    interfaces: tuple[InterfaceRecord, ...]


def list_devices(address: str, timeout: float = ANSWER_GRACE) -> list[ExportedDevice]:
    """Return what the server at `address` exports; DeviceNotFound where none answers within `timeout`."""
    deadline = time.monotonic() + timeout
    with _Dialogue.connect(address, deadline) as dialogue:
        status = dialogue.request(Operation.REQ_DEVLIST, Operation.REP_DEVLIST)
        if status:
            raise DeviceNotFound(f"{address}: the server refuses to list its devices (status {status})")
        count = int.from_bytes(dialogue.read(4), "big")
        if count > MAX_DEVICES:
            raise DeviceNotFound(f"{address}: the server claims {count} devices; {MAX_DEVICES} is the most")
        devices = []
        for _ in range(count):
            record = DeviceRecord.from_bytes(dialogue.read(DeviceRecord.SIZE))
            interfaces = tuple(
                InterfaceRecord.from_bytes(dialogue.read(InterfaceRecord.SIZE))
                for _ in range(record.interface_count)
            )
            devices.append(ExportedDevice(record, interfaces))
        return devices


def import_device(
    address: str, busid: str, timeout: float = ANSWER_GRACE
) -> tuple[socket.socket, DeviceRecord]:
    """Take a device for ourselves; the socket then carries its requests, and closing it lets go.

    DeviceNotFound where no server answers or it refuses, DeviceBusy where another client has the device.
    """
    wanted = pack_busid(busid)
    deadline = time.monotonic() + timeout
    dialogue = _Dialogue.connect(address, deadline)
    try:
        status = dialogue.request(Operation.REQ_IMPORT, Operation.REP_IMPORT, wanted)
        if status:
            dialogue.socket.close()
            raise _refusal(address, busid, status, deadline)
        record = DeviceRecord.from_bytes(dialogue.read(DeviceRecord.SIZE))
        if record.busid != busid:
            raise DeviceNotFound(f"{address}: asked for device {busid!r}, was given {record.busid!r}")
    except BaseException:
        dialogue.socket.close()
        raise
    return dialogue.socket, record


class _Dialogue:
    """The exchange before an import: one request, one reply, all of it before a deadline."""

    def __init__(self, peer: socket.socket, address: str, deadline: float) -> None:
        self.socket = peer
        self._address = address
        self._deadline = deadline

    @classmethod
    def connect(cls, address: str, deadline: float) -> Self:
        try:
            peer = connect(address, max(0.001, deadline - time.monotonic()))
        except OSError as error:
            raise DeviceNotFound(f"{address}: no USB/IP server answers ({error}); is it running?") from error
        return cls(peer, address, deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def request(self, code: Operation, reply_code: Operation, payload: bytes = b"") -> int:
        """Send one request; return the status of the reply's header."""
        try:
            self.socket.sendall(bytes(OperationHeader(code=code)) + payload)
        except OSError as error:
            raise DeviceNotFound(f"{self._address}: the connection broke ({error})") from error
        reply = OperationHeader.from_bytes(self.read(OperationHeader.SIZE))
        if (reply.version, reply.code) != (VERSION, reply_code):
            raise DeviceNotFound(
                f"{self._address}: expected reply {reply_code:#06x} of USB/IP version {VERSION:#06x}, "
                f"got {reply.code:#06x} of version {reply.version:#06x}"
            )
        return reply.status

    def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            # The time-out is set anew for each piece, so that a server which drips cannot stretch it.
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise DeviceNotFound(f"{self._address}: the server did not finish its answer in time")
            self.socket.settimeout(remaining)
            try:
                piece = self.socket.recv(size - len(data))
            except OSError as error:
                raise DeviceNotFound(f"{self._address}: no answer ({error})") from error
            if not piece:
                raise DeviceNotFound(f"{self._address}: the server closed the connection mid-answer")
            data += piece
        return bytes(data)


def _refusal(address: str, busid: str, status: int, deadline: float) -> DeviceNotFound | DeviceBusy:
    """Return the error for a refused import; most servers always send 1, so look at their list."""
    refused = f"{address}: device {busid!r} was refused"
    unknown = status == _STATUS_NO_DEVICE
    busy = status == _STATUS_BUSY
    if status == _STATUS_NOT_AVAILABLE:
        try:
            devices = list_devices(address, max(0.001, deadline - time.monotonic()))
        except DeviceNotFound as error:
            return DeviceNotFound(f"{refused}, and no list is to be had: {error}")
        busy = any(device.record.busid == busid for device in devices)
        unknown = not busy
    if busy:
        return DeviceBusy(f"{address}: device {busid!r} is in use by another program")
    if unknown:
        return DeviceNotFound(f"{address}: the server has no device {busid!r}; its list says what it has")
    return DeviceNotFound(f"{refused} with status {status}")
