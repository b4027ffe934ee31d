"""Endpoints: the firmware's buffers meet the host's URBs.

The firmware side has XUD's calls (`get_buffer`, `set_buffer`, halts, resets), the host side submits and
unlinks URBs. An OUT endpoint is a rendezvous: a URB is done when the firmware has taken its last packet;
until then the device NAKs. Nothing here does I/O.

Many packets may cross in one call, which is what one call a packet would do, only faster.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable
from typing import Any, Final, Generic, TypeVar

import trio

from aisrv.protocol.commands import PACKET_SIZE
from aisrv.xcore.traced import traced_wait
from aisrv.xcore.waiter import Waiter
from phy.usb.urb import InUrb, OutUrb, TransferStatus

AT_ONCE: Final = 1 << 18
"""Bytes that the firmware moves through an endpoint without a wait before other tasks run."""

CALLS_AT_ONCE: Final = 64
"""Calls of the firmware without a wait, and control transfers, before other tasks run."""

_CALL_BYTES: Final = AT_ONCE // CALLS_AT_ONCE
"""Bytes that a call counts as, at least: small packets take their time, too."""

_OKAY: Final = TransferStatus.OKAY  # looking up a member of an enum takes time, once for each URB


class UsbReset(Exception):
    """A reset of the bus, or a new configuration: give up the transfer in progress."""


R = TypeVar("R", OutUrb, InUrb)


class _Endpoint(ABC, Generic[R]):
    """Base of both directions: a queue of URBs, the halt, and one firmware task that may wait."""

    def __init__(self, address: int) -> None:
        self.address: Final = address
        self.name: Final = f"endpoint 0x{address:02x}"
        """Name for reports."""
        self.packet_size = PACKET_SIZE
        """Bytes of a full packet, up to PACKET_SIZE."""
        self._urbs: deque[R] = deque()
        self._firmware: Waiter[Any] = Waiter()
        self._halted = False
        self._reset = False
        self._moved = 0  # since other tasks last had a turn, in bytes
        self.crossed = 0
        """Bytes that have crossed so far."""

    @property
    def halted(self) -> bool:
        """Return whether the endpoint answers STALL."""
        return self._halted

    @property
    def pending(self) -> int:
        """URBs of the host that are not done."""
        return len(self._urbs)

    # The host's side.

    def submit(self, urb: R) -> None:
        """Queue a URB; a halted endpoint ends it at once."""
        if self._halted:
            urb.finish(TransferStatus.STALL)
            return
        self._urbs.append(urb)
        self._serve()

    def unlink(self, urb: R) -> bool:
        """Take a URB back; False if it is done already. Its packets that were taken stay taken."""
        try:
            self._urbs.remove(urb)
        except ValueError:
            return False
        return True

    def clear_halt(self) -> None:
        """CLEAR_FEATURE(ENDPOINT_HALT)."""
        self._halted = False
        self._serve()

    def reset(self) -> None:
        """Drop the host's URBs and the halt; the firmware's present or next call raises UsbReset."""
        self._halted = False
        self._reset = True
        if self._firmware.task is not None:
            self._forget()
            self._firmware.fail(self._take_reset())
        self._finish_all(TransferStatus.SHUTDOWN)

    def drop_urbs(self) -> None:
        """End the host's URBs, as its system does where the configuration changes."""
        self._finish_all(TransferStatus.SHUTDOWN)

    # The firmware's side.

    def halt(self) -> None:
        """Answer STALL to all URBs, those that wait included."""
        self._halted = True
        self._finish_all(TransferStatus.STALL)

    async def wait_halt_cleared(self) -> None:
        """Wait until the host has cleared the halt. Raises UsbReset."""
        self.check_reset()
        if self._halted:
            await self._wait("wait_halt_cleared")

    def check_reset(self) -> None:
        """Raise UsbReset if one has come since the last call."""
        if self._reset:
            raise self._take_reset()

    def acknowledge_reset(self) -> None:
        """Forget a reset that the other endpoint has reported."""
        self._reset = False

    async def _yield_to_others(self) -> None:
        self._moved = 0
        await trio.lowlevel.cancel_shielded_checkpoint()

    def _take_reset(self) -> UsbReset:
        self._reset = False
        return UsbReset(f"{self.name} was reset")

    def _wait(self, verb: str) -> Awaitable[Any]:
        """Let the firmware's task wait for the host, as `verb` in traces."""
        return traced_wait(self._firmware.wait(self._forget), verb, self)

    def _wake(self, result: object = None) -> None:
        self._forget()
        self._firmware.wake(result)

    def _finish_all(self, status: TransferStatus) -> None:
        urbs, self._urbs = self._urbs, deque()
        for urb in urbs:
            urb.finish(status)

    @abstractmethod
    def _serve(self) -> None:
        """Move data and wake the firmware's task when it has what it waits for."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop the request of the waiting call."""


class Packets:
    """Data of consecutive packets; `short` says that the last one ended the transfer."""

    __slots__ = ("data", "short")

    def __init__(self, data: bytes, *, short: bool) -> None:
        self.data = data
        self.short = short


class OutEndpoint(_Endpoint[OutUrb]):
    """From host to device."""

    def __init__(self, address: int) -> None:
        super().__init__(address)
        self._wanted = 0  # bytes that a waiting get_buffer asked for, 0 while none waits

    def data_arrived(self) -> None:
        self._serve()

    async def get_buffer(self, limit: int = PACKET_SIZE) -> Packets:
        """Take the next packet, or as many as there are up to `limit` bytes or the end of the transfer."""
        self.check_reset()
        if self._urbs:
            packets, ended = self._take(limit)
            self._end(ended)
            if packets is not None:
                self._moved += max(len(packets.data), _CALL_BYTES)
                if self._moved >= AT_ONCE:
                    await self._yield_to_others()
                return packets
        self._wanted = limit
        self._moved = 0
        got: Packets = await self._wait("get_buffer")
        return got

    def _serve(self) -> None:
        if self._wanted:
            packets, ended = self._take(self._wanted)
            if packets is not None:
                self._wake(packets)
            self._end(ended)  # last, as the host may submit its next URB from there
        elif self._firmware.task is not None and not self._halted:
            self._wake()

    def _end(self, urbs: list[OutUrb]) -> None:
        """End URBs whose last packet was taken."""
        for urb in urbs:
            urb.finish(_OKAY)

    def _forget(self) -> None:
        self._wanted = 0

    def _take(self, limit: int) -> tuple[Packets | None, list[OutUrb]]:
        """Take packets off the URBs; return also the URBs that this ends."""
        parts: list[bytes] = []
        ended: list[OutUrb] = []
        urbs = self._urbs
        short = False
        size = 0
        while urbs and not short and size < limit:
            urb = urbs[0]
            size += urb.take(limit - size, parts)
            if urb.taken != urb.length:
                break
            short = urb.length % self.packet_size != 0 or not urb.length or urb.zero_packet
            ended.append(urbs.popleft())
        self.crossed += size
        if not size and not short:
            return None, ended
        return Packets(parts[0] if len(parts) == 1 else b"".join(parts), short=short), ended


class InEndpoint(_Endpoint[InUrb]):
    """From device to host."""

    def __init__(self, address: int) -> None:
        super().__init__(address)
        self._data = b""
        self._offset = 0
        self._sending = False
        self._zero_packet_due = False

    async def set_buffer(self, data: bytes, *, last: bool = True) -> None:
        """Send packets, and wait until the host has taken them.

        With `last` the transfer ends: by its short packet, or by one of no bytes if the length is a multiple
        of the packet size. Without it the length must be such a multiple.
        """
        self.check_reset()
        self._data, self._offset = data, 0
        self._zero_packet_due = last and len(data) % self.packet_size == 0
        self._sending = last or bool(data)
        self._serve()
        if self._sending:
            self._moved = 0
            await self._wait("set_buffer")
            return
        self._moved += max(len(data), _CALL_BYTES)
        if self._moved >= AT_ONCE:
            await self._yield_to_others()

    def _serve(self) -> None:
        if self._sending:
            self._send()
            if not self._sending and self._firmware.task is not None:
                self._wake()
        elif self._firmware.task is not None and not self._halted:
            self._wake()

    def _forget(self) -> None:
        self._data = b""
        self._sending = self._zero_packet_due = False

    def _send(self) -> None:
        urbs, size, full = self._urbs, len(self._data), self.packet_size
        if urbs and not self._offset and size % full and size <= urbs[0].length and not urbs[0].filled:
            self._sending = False  # the usual case: a short packet ends the transfer and the first URB
            urb = urbs.popleft()
            urb.put(self._data)
            self.crossed += size
            self._end(urb, _OKAY)
            return
        while urbs and self._sending:
            urb = urbs[0]
            room = urb.length - urb.filled
            left = len(self._data) - self._offset
            count = left if left <= room else room - room % full
            if left and not count:
                urbs.popleft()
                self._end(urb, TransferStatus.OVERFLOW)
                continue
            urb.put(self._data[self._offset : self._offset + count])
            self._offset += count
            self.crossed += count
            ended = count % full != 0
            if not ended and count == left and self._zero_packet_due and (count < room or not urb.length):
                self._zero_packet_due = False
                ended = True
            self._sending = self._offset < len(self._data) or self._zero_packet_due
            if ended or urb.filled == urb.length:
                urbs.popleft()
                self._end(urb, _OKAY)

    def _end(self, urb: InUrb, status: TransferStatus) -> None:
        """End a URB that is full, or whose transfer has ended."""
        urb.finish(status)
