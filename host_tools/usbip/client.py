r"""Host side of USB/IP: list a server's devices, import one, and move data to and from its endpoints.

    for device in list_devices("localhost:3240"):
        print(device.record.busid, hex(device.record.vendor), hex(device.record.product))
    with Connection.open("localhost:3240", "1-1") as connection:
        connection.bulk_out(0x01, b"\x08\x00\x00", timeout=1)
        spec = connection.bulk_in(0x81, 512, timeout=1)

Synchronous, standard library only. Sizes are in bytes, times in seconds (None waits without limit), endpoints
are addresses as in an endpoint descriptor: 0x01 is an OUT, 0x81 an IN endpoint.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from aisrv.protocol.usbip import MAX_TRANSFER, UrbStatus
from host_tools.usbip.discovery import (
    ANSWER_GRACE,
    ExportedDevice,
    import_device,
    list_devices,
)
from host_tools.usbip.errors import (
    DeviceBusyError,
    DeviceGoneError,
    ImportRefusedError,
    ServerError,
    StallError,
    TransferError,
    TransferTimeoutError,
    UnknownDeviceError,
    UsbipClientError,
)
from host_tools.usbip.pipeline import Pipeline, Transfer, bytes_of, deadline_after, remaining_until

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from typing import Self

    from aisrv.protocol.usbip import DeviceRecord
    from host_tools.usbip.pipeline import Buffer

__all__ = [
    "Connection",
    "DeviceBusyError",
    "DeviceGoneError",
    "ExportedDevice",
    "ImportRefusedError",
    "ServerError",
    "StallError",
    "Transfer",
    "TransferError",
    "TransferTimeoutError",
    "UnknownDeviceError",
    "UsbipClientError",
    "list_devices",
]

_CONTROL_OUT: Final = 0x00
_CONTROL_IN: Final = 0x80


class Connection(Pipeline):
    """An imported device. Requests may be in flight in any number and from any thread.

    Every method raises DeviceGoneError once the connection has ended, StallError or another TransferError
    where the device refused, and TransferTimeoutError where time ran out; the connection stays usable then.
    """

    def __init__(self, peer: socket.socket, record: DeviceRecord) -> None:
        super().__init__(peer, record.devid)
        self.record = record

    @classmethod
    def open(cls, address: str, busid: str, timeout: float = ANSWER_GRACE) -> Self:
        """Import a device. ServerError, DeviceBusyError, UnknownDeviceError or ImportRefusedError."""
        return cls(*import_device(address, busid, timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def control_out(self, setup: bytes, data: Buffer = b"", timeout: float | None = None) -> int:
        """Write `data` in a control transfer; return the number of bytes that the device took."""
        return self._run(_CONTROL_OUT, data, setup, timeout)

    def control_in(self, setup: bytes, length: int, timeout: float | None = None) -> bytes:
        """Read up to `length` bytes in a control transfer."""
        buffer = bytearray(length)
        return bytes(buffer[: self.control_in_into(setup, buffer, timeout)])

    def control_in_into(
        self, setup: bytes, buffer: bytearray | memoryview, timeout: float | None = None
    ) -> int:
        """Read into `buffer` in a control transfer; return the number of bytes."""
        return self._run(_CONTROL_IN, buffer, setup, timeout)

    def bulk_out(self, endpoint: int, data: Buffer, timeout: float | None = None) -> int:
        """Write `data`, one request per 16 MiB; return the number of bytes that the device took.

        No empty packet is added: data of a multiple of 512 bytes leaves the device's transfer open.
        A time-out raises TransferTimeoutError, with what is known to have been taken.
        """
        return self._run_in_pieces(endpoint, data, timeout)

    def bulk_in_into(
        self, endpoint: int, buffer: bytearray | memoryview, timeout: float | None = None
    ) -> int:
        """Read into `buffer` until it is full or a short packet comes; return the number of bytes.

        A time-out raises TransferTimeoutError; the first `transferred` bytes of `buffer` are valid then.
        """
        return self._run_in_pieces(endpoint, buffer, timeout)

    def bulk_in(self, endpoint: int, length: int, timeout: float | None = None) -> bytes:
        """Read up to `length` bytes, fewer where a short packet, or the time-out after some data, comes."""
        buffer = bytearray(length)
        try:
            count = self.bulk_in_into(endpoint, buffer, timeout)
        except TransferTimeoutError as error:
            if not error.transferred:
                raise
            count = error.transferred
        return bytes(memoryview(buffer)[:count])

    def transact(self, requests: Sequence[tuple[int, Buffer]], timeout: float | None = None) -> int:
        """Carry out transfers, each an endpoint and its buffer, all in flight at once, at least one.

        Returns the bytes that the last one moved. At the first failure the others are taken back and the
        error is raised; a TransferError says how many ended well before.
        """
        deadline = deadline_after(timeout)
        outcome = self.exchange(requests, deadline)
        if isinstance(outcome, int):
            return outcome
        done = moved = 0
        try:
            for transfer in outcome:
                moved = self.wait(transfer, remaining_until(deadline))
                done += 1
        except TransferError as error:
            error.requests_done = done
            raise
        finally:
            for transfer in outcome:
                if transfer.status is None and self.is_open:
                    self.withdraw(transfer)
        return moved

    def wait(self, transfer: Transfer, timeout: float | None = None) -> int:
        """Wait until a submitted request is done; return the number of bytes that moved.

        At the time-out the request is taken back: TransferTimeoutError. Where it was done just before the
        server heard of that, it counts as done, and no data is lost.
        """
        timed_out = False
        if transfer.status is None:
            try:
                timed_out = not self.wait_until(transfer, deadline_after(timeout))
            except DeviceGoneError:
                raise
            except BaseException:
                # Such as Ctrl-C: the buffer goes back to the caller, so nothing may be written to it later.
                with contextlib.suppress(DeviceGoneError):
                    self.withdraw(transfer)
                raise
            if timed_out:
                self.withdraw(transfer)
        status = transfer.status or 0
        if not status:
            return transfer.actual
        if timed_out and status == UrbStatus.UNLINKED:
            raise TransferTimeoutError(transfer.endpoint, transfer.actual)
        failure = StallError if status == UrbStatus.STALL else TransferError
        raise failure(transfer.endpoint, status, transfer.actual)

    def _run(self, endpoint: int, buffer: Buffer, setup: bytes, timeout: float | None) -> int:
        """Carry out a control transfer."""
        deadline = deadline_after(timeout)
        transfer = self.submit(endpoint, buffer, setup, deadline=deadline)
        return self.wait(transfer, remaining_until(deadline))

    def _run_in_pieces(self, endpoint: int, buffer: Buffer, timeout: float | None) -> int:
        view = bytes_of(buffer)
        if len(view) <= MAX_TRANSFER:
            return self.transact([(endpoint, view)], timeout)
        deadline = deadline_after(timeout)
        done = 0
        while True:
            piece = view[done : done + MAX_TRANSFER]
            try:
                count = self.transact([(endpoint, piece)], remaining_until(deadline))
            except TransferTimeoutError as error:
                raise TransferTimeoutError(endpoint, done + error.transferred) from None
            except TransferError as error:
                raise type(error)(endpoint, error.status, done + error.transferred) from None
            done += count
            if count < len(piece) or done == len(view):
                return done
