"""The URBs of one host that are pending at a device, and the answers that end them. No I/O.

A URB is pending from its SUBMIT to the one message that ends it. Nothing here waits: IN and OUT URBs stay
with their endpoints until the device ends them or the host takes them back. Pending URBs of a host are
bounded in bytes and in number.
"""

import logging
from functools import partial
from typing import Final, Protocol

from aisrv.protocol.usb_descriptors import SetupPacket
from aisrv.protocol.usbip import (
    MAX_TRANSFER,
    NO_ISO_PACKETS,
    URB_ZERO_PACKET,
    MessageCode,
    SubmitReply,
    UnlinkReply,
    UrbStatus,
)
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.urb import LINUX_STATUS, MOST_PENDING, InUrb, OutUrb, TransferStatus

logger = logging.getLogger(__name__)

UNTAKEN_LIMIT: Final = MAX_TRANSFER
"""Bytes of OUT data that may wait for the firmware, as much as usbfs lets a host have in flight."""

ROOM_LIMIT: Final = 4 * MAX_TRANSFER
"""Bytes that the pending IN URBs may ask for together."""

PENDING_LIMIT: Final = MOST_PENDING
"""URBs that may be pending."""

_LAST_ENDPOINT: Final = 15
_COPIED_BYTES: Final = 4096
"""Data up to this length are copied to their header: one piece of an answer costs less than two."""
_OKAY: Final = TransferStatus.OKAY

_REPLY: Final = SubmitReply.struct_of("message", "seqnum", "status", "actual_length", "iso_packets")

_RET_SUBMIT: Final = int(MessageCode.RET_SUBMIT)


class Put(Protocol):
    """Takes an answer to the host, in its parts."""

    def __call__(self, *parts: bytes | memoryview) -> None: ...


class PendingUrbs:
    """Takes the messages of one host for the device `devid`; `put` is called with the parts of an answer."""

    def __init__(self, bus: HostPort, devid: int, put: Put) -> None:
        self._bus = bus
        self._devid = devid
        self._put = put
        self._pending: dict[int, OutUrb | InUrb | ControlUrb] = {}
        self.untaken = 0
        """Bytes of the pending OUT URBs."""
        self.awaited = 0
        """Bytes of the pending OUT and IN URBs."""

    def submit_out(
        self,
        seqnum: int,
        devid: int,
        endpoint: int,
        flags: int,
        length: int,
        setup: bytes,
        data: bytes | memoryview,
    ) -> OutUrb | None:
        """Start an OUT or control URB with the first part of its data; return it if it takes more."""
        if devid != self._devid or seqnum in self._pending or len(self._pending) >= PENDING_LIMIT:
            self._refuse(seqnum, devid)
        elif not endpoint:
            self._submit_control(seqnum, setup, length, bytes(data))
        elif self.untaken + length > UNTAKEN_LIMIT:
            self._reply(seqnum, UrbStatus.NO_MEMORY)
        else:
            complete = partial(self._end_out, seqnum, length)
            urb = OutUrb(length, complete, zero_packet=bool(flags & URB_ZERO_PACKET))
            if data:
                urb.feed(data)
            self._pending[seqnum] = urb
            self.untaken += length
            self.awaited += length
            if self._bus.submit_out(endpoint, urb):
                return urb
            urb.finish(TransferStatus.STALL)
        return None

    def submit_in(self, seqnum: int, devid: int, endpoint: int, length: int, setup: bytes) -> None:
        if devid != self._devid or seqnum in self._pending or len(self._pending) >= PENDING_LIMIT:
            self._refuse(seqnum, devid)
        elif length > MAX_TRANSFER:
            logger.warning("request %d asks for %d bytes, %d are allowed", seqnum, length, MAX_TRANSFER)
            self._reply(seqnum, UrbStatus.INVALID)
        elif not endpoint:
            self._submit_control(seqnum, setup, length, None)
        elif self.awaited - self.untaken + length > ROOM_LIMIT:
            self._reply(seqnum, UrbStatus.NO_MEMORY)
        else:
            urb = InUrb(length, partial(self._end_in, seqnum, length))
            self._pending[seqnum] = urb
            self.awaited += length
            if endpoint > _LAST_ENDPOINT or not self._bus.submit_in(endpoint | 0x80, urb):
                urb.finish(TransferStatus.STALL)

    def feed(self, urb: OutUrb, data: bytes | memoryview) -> None:
        """Pass on a further part of an OUT URB's data, maybe a view; one that has ended takes nothing."""
        if not urb.done:
            urb.feed(data)
            self._bus.data_arrived(urb)

    def unlink(self, seqnum: int, target: int) -> None:
        """End a pending URB without an answer of its own: after this message none may come."""
        urb = self._pending.pop(target, None)
        if urb is not None:
            self._bus.unlink(urb)
            if isinstance(urb, OutUrb):
                self.untaken -= urb.length
            if isinstance(urb, OutUrb | InUrb):
                self.awaited -= urb.length
        status = UrbStatus.OKAY if urb is None else UrbStatus.UNLINKED
        self._put(bytes(UnlinkReply(seqnum, status)))

    def _submit_control(self, seqnum: int, raw_setup: bytes, length: int, data: bytes | None) -> None:
        """Submit a control transfer to endpoint 0; without `data` the host waits for up to `length` bytes."""
        setup = SetupPacket.from_bytes(raw_setup)
        inwards = data is None
        # Linux sends a transfer without a data stage as OUT, whatever its SETUP packet says.
        if (setup.length and setup.to_host != inwards) or (data is not None and len(data) != length):
            logger.warning("request %d does not fit its SETUP packet %s", seqnum, raw_setup.hex())
            self._reply(seqnum, UrbStatus.INVALID)
            return

        def complete(status: TransferStatus, answer: bytes) -> None:
            pending = self._pending.get(seqnum)
            # By its SETUP packet: a URB that knew itself would be garbage for the collector.
            if not isinstance(pending, ControlUrb) or pending.setup is not setup:
                return  # unlinked while endpoint 0 was answering it
            del self._pending[seqnum]
            if inwards:
                answer = answer[:length]
                self._reply(seqnum, LINUX_STATUS[status], len(answer), answer)
            else:
                self._reply(seqnum, LINUX_STATUS[status], length if status is _OKAY else 0)

        self._pending[seqnum] = urb = ControlUrb(setup, data or b"", complete)
        self._bus.submit_control(urb)

    def _refuse(self, seqnum: int, devid: int) -> None:
        if devid != self._devid:
            logger.warning("request %d is for device %#x, this is %#x", seqnum, devid, self._devid)
            self._reply(seqnum, UrbStatus.NO_DEVICE)
        elif seqnum in self._pending:
            logger.warning("request %d is still pending and came again", seqnum)
            self._reply(seqnum, UrbStatus.INVALID)
        else:
            self._reply(seqnum, UrbStatus.NO_MEMORY)

    def _end_out(self, seqnum: int, length: int, status: TransferStatus, taken: int) -> None:
        if self._pending.pop(seqnum, None) is not None:
            self.untaken -= length
            self.awaited -= length
            self._reply(seqnum, 0 if status is _OKAY else LINUX_STATUS[status], taken)

    def _end_in(self, seqnum: int, length: int, status: TransferStatus, data: bytes | memoryview) -> None:
        if self._pending.pop(seqnum, None) is not None:
            self.awaited -= length
            self._reply(seqnum, 0 if status is _OKAY else LINUX_STATUS[status], len(data), data)

    def _reply(self, seqnum: int, status: int, actual: int = 0, data: bytes | memoryview = b"") -> None:
        head = _REPLY.pack(_RET_SUBMIT, seqnum, status, actual, NO_ISO_PACKETS)
        if len(data) <= _COPIED_BYTES:
            self._put(head + data)
        else:
            self._put(head, data)
