"""USB request blocks (URBs): the transfers that a host asks of the bulk endpoints, and how they end."""

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aisrv.protocol.commands import PACKET_SIZE
from aisrv.protocol.usbip import UrbStatus
from aisrv.xcore.channels.array import LARGE_BYTES, own_pages

if TYPE_CHECKING:
    import mmap


MOST_PENDING: Final = 2048
"""URBs that a host may have pending: a reset or a halt ends all of them in one step.

Linux cuts the largest transfer of usbfs, 16 MiB, into 1,024.
"""


_JOINED_BYTES: Final = 4096
"""Pieces of data up to this length are joined to what follows them."""


class TransferStatus(enum.Enum):
    """End of a URB; the value is for messages."""

    OKAY = "the transfer is done"
    STALL = "the transfer ended with a stall"
    """The endpoint is halted."""
    OVERFLOW = "the device's packet was larger than the URB"
    """The device sent more than the host has room for."""
    SHUTDOWN = "the endpoint was reset or switched off"
    """The device is gone."""


LINUX_STATUS: Final = {
    TransferStatus.OKAY: int(UrbStatus.OKAY),
    TransferStatus.STALL: int(UrbStatus.STALL),
    TransferStatus.OVERFLOW: int(UrbStatus.OVERFLOW),
    TransferStatus.SHUTDOWN: int(UrbStatus.SHUTDOWN),
}
"""Status as Linux reports it: the negative errno values in USB/IP, usbfs and usbmon."""


class OutUrb:
    """Data from the host: `length` bytes that may come in pieces, with `feed`.

    `complete(status, actual)` is called once, with the number of bytes that the firmware took. `zero_packet`
    ends data of whole packets with an empty one.
    """

    __slots__ = (
        "_complete",
        "_offset",
        "_pieces",
        "_received",
        "done",
        "length",
        "submitted",
        "taken",
        "zero_packet",
    )

    submitted: int
    """Clock at which the host submitted it, or its latest data; only in device time."""

    def __init__(
        self, length: int, complete: Callable[[TransferStatus, int], None], *, zero_packet: bool = False
    ) -> None:
        self.length: Final = length
        self.zero_packet: Final = zero_packet
        self.taken = 0
        self.done = False
        self._received = 0
        self._offset = 0  # bytes taken of the first piece
        self._pieces: list[bytes | memoryview] = []  # few: a deque takes longer to make than they do
        self._complete = complete

    @property
    def ends_transfer(self) -> bool:
        """Return whether the last packet is a short one."""
        return self.length % PACKET_SIZE != 0 or not self.length or self.zero_packet

    def feed(self, piece: bytes | memoryview) -> None:
        """Add `piece`; the endpoint must be notified with `OutEndpoint.data_arrived`.

        A view shows memory of the caller's, who calls `keep` before it changes. More than `length` bytes in
        all is a ValueError.
        """
        if self._received + len(piece) > self.length:
            raise ValueError(f"{self._received + len(piece)} bytes fed to a URB of {self.length}")
        self._pieces.append(piece)
        self._received += len(piece)

    def keep(self) -> None:
        """Copy what the firmware has not taken of the pieces that are views: the last ones.

        Small pieces are joined: a host may send its data in any number of them.
        """
        pieces = self._pieces
        first = len(pieces)
        while first and isinstance(pieces[first - 1], memoryview):
            first -= 1
        if first and len(pieces) > first and len(pieces[first - 1]) < _JOINED_BYTES:
            first -= 1
        views, pieces[first:] = pieces[first:], []
        if not views:
            return
        if not first:
            views[0] = views[0][self._offset :]
            self._offset = 0
        pieces.append(b"".join(views))

    def take(self, limit: int, into: list[bytes]) -> int:
        """Move whole packets to `into`, at most `limit` bytes; return how many bytes that were."""
        if limit >= self.length == self._received and not self.taken:  # the usual case: all of it at once
            into.extend(map(bytes, self._pieces))
            self.taken = self.length
            return self.length
        available = self._received - self.taken
        if self._received < self.length:
            available -= available % PACKET_SIZE
        count = left = min(available, limit)
        while left:
            piece = self._pieces[0]
            part = piece[self._offset : self._offset + left]
            into.append(bytes(part))
            left -= len(part)
            self._offset += len(part)
            if self._offset == len(piece):
                self._pieces.pop(0)
                self._offset = 0
        self.taken += count
        return count

    def finish(self, status: TransferStatus) -> None:
        """Notify the host's side of the end."""
        self.done = True
        self._complete(status, self.taken)


class InUrb:
    """Room for `length` bytes from the device; `complete(status, data)` is called once.

    Data of more than LARGE_BYTES are a view of memory of their own, which no step copies as a whole.
    """

    __slots__ = ("_complete", "_pages", "_parts", "filled", "length", "submitted")

    submitted: int
    """Clock at which the host submitted it; only in device time."""

    def __init__(self, length: int, complete: Callable[[TransferStatus, bytes | memoryview], None]) -> None:
        self.length: Final = length
        self.filled = 0
        self._parts: list[bytes] = []
        self._pages: mmap.mmap | None = None  # in place of the parts
        self._complete = complete

    @property
    def data(self) -> bytes | memoryview:
        """Bytes received so far."""
        if self._pages is not None:
            return memoryview(self._pages).toreadonly()[: self.filled]
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def put(self, data: bytes) -> None:
        """Add received data."""
        if not data:
            return
        self.filled += len(data)
        if self._pages is None:
            self._parts.append(data)
            if self.filled <= LARGE_BYTES or len(self._parts) == 1:
                return
            self._pages = own_pages(self.length)
            data, self._parts = b"".join(self._parts), []
        self._pages.write(data)

    def finish(self, status: TransferStatus) -> None:
        """Notify the host's side of the end."""
        self._complete(status, self.data)
