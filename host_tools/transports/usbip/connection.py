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
from host_tools.errors import DeviceGone, TransferError, TransferStall, TransferTimeout
from host_tools.transports.usbip.discovery import ANSWER_GRACE, import_device
from host_tools.transports.usbip.pipeline import Pipeline, activity, bytes_of, deadline_after, timed_out

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from typing import Self

    from aisrv.protocol.usbip import DeviceRecord
    from host_tools.transports.usbip.pipeline import Buffer, Transfer

_CONTROL_OUT: Final = 0x00
_CONTROL_IN: Final = 0x80

_GONE: Final = (UrbStatus.NO_DEVICE, UrbStatus.SHUTDOWN)


class Connection(Pipeline):
    """An imported device. Requests may be in flight in any number and from any thread.

    Every method raises DeviceGone once the connection has ended or the server says that the device is gone,
    TransferStall or another TransferError where the device refused, and TransferTimeout where time ran out;
    the connection stays usable after these two.
    """

    def __init__(self, peer: socket.socket, record: DeviceRecord) -> None:
        super().__init__(peer, record.devid)
        self.record = record

    @classmethod
    def open(cls, address: str, busid: str, timeout: float = ANSWER_GRACE) -> Self:
        """Import a device. DeviceNotFound, or DeviceBusy where another client has it."""
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
        """
        return self._run_in_pieces(endpoint, data, timeout)

    def bulk_in_into(
        self, endpoint: int, buffer: bytearray | memoryview, timeout: float | None = None
    ) -> int:
        """Read into `buffer` until it is full or a short packet comes; return the number of bytes.

        At a time-out the first `transferred` bytes of `buffer` are valid.
        """
        return self._run_in_pieces(endpoint, buffer, timeout)

    def bulk_in(self, endpoint: int, length: int, timeout: float | None = None) -> bytes:
        """Read up to `length` bytes, fewer where a short packet comes."""
        buffer = bytearray(length)
        return bytes(memoryview(buffer)[: self.bulk_in_into(endpoint, buffer, timeout)])

    def transact(self, requests: Sequence[tuple[int, Buffer]], timeout: float | None = None) -> int:
        """Carry out transfers, each an endpoint and its buffer, all in flight at once.

        Returns the bytes that the last one moved. At the first failure the others are taken back and the
        error is raised; `writes_done` of a TransferError says how many ended well before.
        """
        moved = self.transact_each(requests, timeout)
        return moved[-1] if moved else 0

    def transact_each(
        self, requests: Sequence[tuple[int, Buffer]], timeout: float | None = None
    ) -> list[int]:
        """Do as `transact`, and return the bytes that each transfer moved."""
        deadline = deadline_after(timeout)
        transfers = self.submit_batch(requests, deadline)
        moved: list[int] = []
        try:
            for transfer in transfers:
                actual = transfer.actual if transfer.status == 0 else self._result(transfer, deadline)
                moved.append(actual)
        except TransferError as error:
            error.writes_done = len(moved)
            raise
        finally:
            for transfer in transfers[len(moved) :]:
                if transfer.status is None and self.is_open:
                    self.withdraw(transfer)
        return moved

    def wait(self, transfer: Transfer, timeout: float | None = None) -> int:
        """Wait until a submitted request is done; return the number of bytes that moved.

        At the time-out the request is taken back: TransferTimeout. Where it was done just before the server
        heard of that, it counts as done, and no data is lost.
        """
        return self._result(transfer, deadline_after(timeout))

    def finish(self, transfer: Transfer, deadline: float | None) -> bool:
        """Wait until a request is over; False where it was taken back at the deadline."""
        if transfer.status is not None:
            return True
        try:
            in_time = self.wait_until(transfer, deadline)
        except DeviceGone:
            raise
        except BaseException:
            # Such as Ctrl-C: the buffer goes back to the caller, so nothing may be written to it later.
            with contextlib.suppress(DeviceGone):
                self.withdraw(transfer)
            raise
        if not in_time:
            self.withdraw(transfer)
        return in_time or transfer.status != UrbStatus.UNLINKED

    def _result(self, transfer: Transfer, deadline: float | None) -> int:
        """Wait for a request; return the number of bytes that moved, or raise why it failed."""
        in_time = self.finish(transfer, deadline)
        if not transfer.status:
            return transfer.actual
        if not in_time:
            raise timed_out(transfer.endpoint, transfer.actual)
        raise _failure(transfer.endpoint, transfer.status, transfer.actual)

    def _run(self, endpoint: int, buffer: Buffer, setup: bytes, timeout: float | None) -> int:
        """Carry out a control transfer."""
        deadline = deadline_after(timeout)
        return self._result(self.submit(endpoint, buffer, setup, deadline=deadline), deadline)

    def _run_in_pieces(self, endpoint: int, buffer: Buffer, timeout: float | None) -> int:
        view = bytes_of(buffer)
        deadline = deadline_after(timeout)
        done = 0
        while True:
            piece = view[done : done + MAX_TRANSFER]
            try:
                count = self._result(self.submit(endpoint, piece, deadline=deadline), deadline)
            except TransferTimeout as error:
                raise timed_out(endpoint, done + error.transferred) from None
            except TransferError as error:
                raise _failure(endpoint, error.status, done + error.transferred) from None
            done += count
            if count < len(piece) or done == len(view):
                return done


def _failure(endpoint: int, status: int, transferred: int) -> TransferError | DeviceGone:
    """Return the error for a request that ended with a negative errno value after `transferred` bytes."""
    what = activity(endpoint)
    if status == UrbStatus.STALL:
        return TransferStall(what, transferred)
    name = UrbStatus(status).name if status in UrbStatus._value2member_map_ else "unknown"
    outcome = f"status {status} ({name}) after {transferred} bytes"
    if status in _GONE:
        return DeviceGone(f"{what}: the device is gone, {outcome}")
    return TransferError(f"{what}: {outcome}", status=status, transferred=transferred)
