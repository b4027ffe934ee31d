"""The inputs and outputs of a graph: the protocol between a platform's drivers and the arcs at its border.

A driver answers a request by `IoPort.acknowledge`, at once or later, in as many pieces as it likes.
Commanders acknowledge unasked. In copy mode bytes cross between the driver's memory and the arc's; in set
mode the driver's memory becomes the arc's.
"""

import logging
from typing import Final, Protocol

import numpy as np

from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.arcs import ArcBuffer, Bytes

logger = logging.getLogger(__name__)


AUDIO_OUT: Final = 2
ANALOG_OUT: Final = 9
_HOLDS_LAST_SAMPLE: Final = frozenset({AUDIO_OUT, ANALOG_OUT})
"""Domains whose outputs repeat the last sample if there are too few."""

Buffer = bytes | bytearray | memoryview | Bytes


class AcknowledgeError(GraphError):
    """An acknowledgement that does not suit its IO: the driver's memory is too small, or read-only."""


class Driver(Protocol):
    """A servant's side: answers requests of the scheduler."""

    def request(self, port: "IoPort") -> None:
        """Begin a transfer: acknowledge at once, or keep the port and acknowledge later.

        For an input `port.arc.producer_frame` bytes are wanted; an output has at least a frame of its
        consumer in `port.arc.readable()`.
        """


class IoPort:
    """An IO of a graph, with its arc. `ongoing` says whether its driver has been asked for a transfer.

    `domain` is the code of its kind of data, `settings` three more words. It `transmits` if it is an output,
    and `copies` bytes or lends memory. A `servant` answers requests of the scheduler; other IOs begin
    transfers themselves.
    """

    def __init__(
        self,
        number: int,
        arc: ArcBuffer,
        *,
        hwid: int = 0,
        domain: int = 0,
        transmits: bool = False,
        copies: bool = True,
        servant: bool = True,
        fills_gaps: bool = False,
        sample_bytes: int = 2,
        settings: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        """Create an idle IO.

        `hwid` is the platform's IO_AL_idx. With `fills_gaps` (flow error mode 1) an overflow drops the oldest
        frames and an underflow is filled; without, excess bytes are dropped and answers may be short.
        `sample_bytes` are those of an instant of all channels.
        """
        self.number: Final = number
        self.arc: Final = arc
        self.hwid: Final = hwid
        self.domain: Final = domain
        self.transmits: Final = transmits
        self.copies: Final = copies
        self.servant: Final = servant
        self.fills_gaps: Final = fills_gaps
        self.settings = settings
        """Three words; scripts and the driver may change them."""
        self.driver: Driver | None = None
        self.ongoing = False
        self.moved = 0
        self.requests = 0
        self._sample_bytes = max(1, sample_bytes)
        self._last_sample = bytes(self._sample_bytes)

    @property
    def has_room(self) -> bool:
        """Return whether an input's arc takes another frame of its driver."""
        if self.arc.align and self.arc.read:
            self.arc.realign()
        return self.arc.has_room or not self.copies

    def reset(self) -> None:
        """Drop a transfer."""
        self.ongoing = False
        self.moved = self.requests = 0
        self._last_sample = bytes(self._sample_bytes)
        if not self.copies:
            # Until a driver lends its memory, an output needs some to write to.
            size = len(self.arc.buffer) if self.transmits else 0
            self.arc.lend(np.zeros(size, np.uint8), 0)

    def visit(self) -> None:
        """Ask an idle servant for a transfer if its arc is ready for one."""
        if self.ongoing:
            return
        arc = self.arc
        if self.transmits:
            if arc.write - arc.read < arc.consumer_frame:
                return
        elif self.copies:
            if arc.size - arc.write < arc.producer_frame:
                if arc.align and arc.read:
                    arc.realign()
                return
        elif arc.write - arc.read >= arc.consumer_frame:
            return
        if self.servant and self.driver is not None:
            self.ongoing = True
            self.requests += 1
            self.driver.request(self)
        if arc.align and arc.read and not self.transmits:
            arc.realign()

    def acknowledge(self, data: Buffer | None, size: int | None = None) -> int:
        """Take the answer of the driver; return how many bytes it moved.

        An input in copy mode takes `data`, or its first `size` bytes. An output in copy mode puts up to
        `size` bytes into `data`, which may be None to only take them off the arc. In set mode `data` becomes
        the memory of the arc: full for an input, empty for an output. Raises AcknowledgeError.
        """
        if size is None:
            size = 0 if data is None else len(data)
        if size < 0 or (data is not None and size > len(data)):
            raise AcknowledgeError(f"IO {self.number}: {size} bytes of a memory that has fewer")
        if self.transmits:
            moved = self._give(data, size) if self.copies else self._lend_output(data)
        else:
            moved = self._take(data, size) if self.copies else self._lend_input(data, size)
        self.moved += moved
        return moved

    def _take(self, data: Buffer | None, size: int) -> int:
        """Copy an input's bytes into the arc."""
        if data is None:
            raise AcknowledgeError(f"IO {self.number}: an input in copy mode needs the bytes")
        arc = self.arc
        source = _as_bytes(data)[:size]
        if size > arc.size - arc.write:
            arc.realign()
            if size > arc.size - arc.write:
                source = self._overflow(source)
        count = len(source)
        if count:
            arc.buffer[arc.write : arc.write + count] = source
            arc.produce(count)
        if arc.has_frame:
            self.ongoing = False
        return count

    def _overflow(self, source: Bytes) -> Bytes:
        """Make room for more bytes than fit, or cut them; return those to copy."""
        arc = self.arc
        if not self.fills_gaps:
            arc.errors.count_overflow(len(source) - arc.free)
            return source[: arc.free]
        frame = arc.consumer_frame
        lost = 0
        oldest = min(-(-(len(source) - arc.free) // frame), arc.filled // frame) * frame
        if oldest:
            arc.read += oldest
            arc.realign()
            lost += oldest
        if len(source) > arc.free:
            skipped = min(-(-(len(source) - arc.free) // frame) * frame, len(source))
            source = source[skipped:]
            lost += skipped
        arc.errors.count_overflow(lost)
        return source

    def _lend_input(self, data: Buffer | None, size: int) -> int:
        if data is None:
            raise AcknowledgeError(f"IO {self.number}: an input in set mode needs the memory with the bytes")
        arc = self.arc
        if arc.filled:
            arc.errors.count_overflow(arc.filled)
        arc.lend(_as_bytes(data)[:size], size)
        self.ongoing = False
        return size

    def _give(self, data: Buffer | None, size: int) -> int:
        """Copy bytes of an output's arc into the driver's memory."""
        arc = self.arc
        count = min(size, arc.filled)
        target: Bytes | None = None
        if data is not None:
            target = _as_bytes(data)
            if not target.flags.writeable:
                raise AcknowledgeError(f"IO {self.number}: an output in copy mode needs memory to write to")
            target[:count] = arc.buffer[arc.read : arc.read + count]
        if self.fills_gaps and count >= self._sample_bytes:
            self._last_sample = arc.buffer[arc.read + count - self._sample_bytes : arc.read + count].tobytes()
        if count:
            arc.consume(count)
        filled = self._underflow(target, count, size) if size > count else count
        if not arc.has_frame:
            self.ongoing = False
        return filled

    def _underflow(self, target: Bytes | None, count: int, size: int) -> int:
        """Fill an answer that is too short up to a frame, if that is wanted; return its bytes."""
        arc = self.arc
        arc.errors.count_underflow(size - count)
        if not self.fills_gaps:
            return count
        frame = arc.consumer_frame
        filled = min(size, max(frame, -(-count // frame) * frame))
        if target is not None:
            missing = filled - count
            if self.domain in _HOLDS_LAST_SAMPLE:
                pattern = np.frombuffer(self._last_sample, np.uint8)
                target[count:filled] = np.resize(pattern, missing)
            else:
                target[count:filled] = 0
        return filled

    def _lend_output(self, data: Buffer | None) -> int:
        """Take new memory for an output whose driver has the data of the old one."""
        arc = self.arc
        if data is None:
            raise AcknowledgeError(f"IO {self.number}: an output in set mode needs new memory")
        target = _as_bytes(data)
        if not target.flags.writeable or len(target) < max(arc.producer_frame, arc.consumer_frame):
            raise AcknowledgeError(
                f"IO {self.number}: an output in set mode needs memory to write to, "
                f"{max(arc.producer_frame, arc.consumer_frame)} bytes at least"
            )
        moved = arc.filled
        arc.bytes_read += moved
        arc.lend(target, 0)
        self.ongoing = False
        return moved


def _as_bytes(data: Buffer) -> Bytes:
    return data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
