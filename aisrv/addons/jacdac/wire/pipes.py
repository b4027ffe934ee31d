"""Pipes: streams of bytes between two devices, each packet of which is acknowledged. No I/O.

A pipe packet is a command with ACK_REQUESTED to the device that owns the port. Its command is
port << 7 | metadata 0x40 | close 0x20 | counter. Source: Jacdac's protocol reference; jacdac-c, jacdac-ts and
MakeCode for how they end a pipe.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from aisrv.addons.jacdac.wire.frame import PIPE_INDEX, Frame, FrameFlags, JacdacPacket, ServicePacket
from aisrv.addons.jacdac.wire.timers import MILLISECOND, Timer, Timers
from aisrv.values.packet import U16, U64

METADATA: Final = 0x40
CLOSE: Final = 0x20
COUNTER_MASK: Final = 0x1F
PORT_SHIFT: Final = 7
LAST_PORT: Final = 511

PIPE_BYTES: Final = 224
"""Bytes that we send in a packet of a pipe."""
RESEND_AFTER: Final = (40 * MILLISECOND, 100 * MILLISECOND, 100 * MILLISECOND, 100 * MILLISECOND)
"""How long each of the times that a packet is sent waits for its ACK."""
QUEUE_BYTES: Final = 64 * 1024
"""Bytes that wait to be sent; a receiver that takes them more slowly loses the pipe."""


class PipeArgument(JacdacPacket, name="a pipe"):
    """The argument of a command that gives the port of a pipe to send into."""

    device: U64
    port: U16
    reserved: U16 = 0


class InPipe:
    """The receiving end of a pipe: data in order, then the end."""

    def __init__(self, data: Callable[[bytes], None], closed: Callable[[], None]) -> None:
        """Take the function that gets data and the one that is called when the sender closes."""
        self._data = data
        self._closed = closed
        self._counter = 0

    def receive(self, command: int, payload: bytes) -> bool:
        """Take a packet, or drop a repeated one; return whether the sender has closed the pipe."""
        if command & COUNTER_MASK != self._counter:
            return False
        self._counter = (self._counter + 1) & COUNTER_MASK
        if payload and not command & METADATA:
            self._data(payload)
        if not command & CLOSE:
            return False
        self._closed()
        return True


class InPipes:
    """The open ports of a device."""

    def __init__(self) -> None:
        self._pipes: dict[int, InPipe] = {}
        self._last = 0

    def open(self, pipe: InPipe) -> int:
        """Give a pipe a port, 1 to 511, and return it; 0 where all are taken.

        A port that was closed is the last to be used again, since packets for it may still be on their way.
        """
        for step in range(1, LAST_PORT + 1):
            port = (self._last + step - 1) % LAST_PORT + 1
            if port not in self._pipes:
                self._pipes[port] = pipe
                self._last = port
                return port
        return 0

    def close(self, port: int) -> None:
        """Take a port back; closing one that is not open does nothing."""
        self._pipes.pop(port, None)

    def close_all(self) -> None:
        """Take all ports back."""
        self._pipes.clear()

    def receive(self, packet: ServicePacket) -> None:
        """Take a packet; one for a port that is not open is dropped."""
        port = packet.command >> PORT_SHIFT
        pipe = self._pipes.get(port)
        if (
            pipe is not None
            and pipe.receive(packet.command, packet.payload)
            and self._pipes.get(port) is pipe
        ):
            self.close(port)


class OutPipe:
    """The sending end of a pipe: one packet at a time, repeated until it is acknowledged."""

    def __init__(
        self, target: PipeArgument, timers: Timers, send: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        """Send frames by `send`; `ended` is called once, when all is acknowledged or the receiver is gone."""
        self.target: Final = target
        self.is_alive = True
        """Whether the receiver may still get something."""
        self.is_delivered = False
        """Whether all was acknowledged, the end included."""
        self._timers = timers
        self._send = send
        self._ended = ended
        self._counter = 0
        self._queue: deque[tuple[int, bytes]] = deque()
        self._queued = 0
        self._closing = False
        self._frame = b""
        self._crc = -1
        self._timer: Timer | None = None

    @property
    def queued(self) -> int:
        """Bytes that were not acknowledged yet."""
        return self._queued

    def write(self, data: bytes) -> bool:
        """Queue a message, cut into packets; return whether there was room for all of it."""
        if not self.is_alive or self._closing:
            return False
        if self._queued + len(data) > QUEUE_BYTES:
            return False
        for start in range(0, len(data), PIPE_BYTES):
            self._append(0, data[start : start + PIPE_BYTES])
        return True

    def close(self) -> None:
        """End the pipe behind what is queued. Closing again does nothing."""
        if self.is_alive and not self._closing:
            self._closing = True
            self._append(CLOSE, b"")

    def abort(self) -> None:
        """Forget the pipe, and what is queued."""
        if self.is_alive:
            self._end()

    def acknowledge(self, device: int, crc: int) -> None:
        """Take an ACK of a device; the next packet follows."""
        if device == self.target.device and crc == self._crc:
            self._stop_waiting()
            self._crc = -1
            flags, data = self._queue.popleft()
            self._queued -= len(data)
            if flags & CLOSE:
                self.is_delivered = True
                self._end()
            else:
                self._send_next()

    def _append(self, flags: int, data: bytes) -> None:
        self._queue.append((flags, data))
        self._queued += len(data)
        if len(self._queue) == 1:
            self._send_next()

    def _send_next(self) -> None:
        if not self._queue:
            return
        flags, data = self._queue[0]
        command = self.target.port << PORT_SHIFT | flags | self._counter
        self._counter = (self._counter + 1) & COUNTER_MASK
        packet = ServicePacket(PIPE_INDEX, command & 0xFFFF, data)
        self._frame = bytes(
            Frame(self.target.device, (packet,), FrameFlags.COMMAND | FrameFlags.ACK_REQUESTED)
        )
        self._crc = int.from_bytes(self._frame[:2], "little")
        self._send_again(0)

    def _send_again(self, times: int) -> None:
        if times == len(RESEND_AFTER):
            self._end()
            return
        self._timer = self._timers.after(RESEND_AFTER[times], lambda: self._send_again(times + 1))
        self._send(self._frame)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self.is_alive = False
        self._crc = -1
        self._queue.clear()
        self._queued = 0
        self._stop_waiting()
        self._ended()
