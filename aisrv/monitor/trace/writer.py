"""The writer of a trace: events become packets, names become numbers, and every segment stands alone.

Ids of tracks and flows are counted, so that equal runs give equal bytes. Times are whole units since the
trace began, and mostly written as the difference from the one before.
"""

from collections.abc import Mapping
from typing import Final

from aisrv.monitor.trace.packets import (
    BOOTTIME,
    PACKET,
    TIMESTAMP_CLOCK,
    TIMESTAMP_TAG,
    EventType,
    Interned,
    TrackEventField,
    child_track,
    counter_track,
    counter_value,
    event_head,
    event_rest,
    interned,
    process_track,
    segment_start,
    thread_track,
)
from aisrv.monitor.trace.sinks import Sink
from aisrv.values.protobuf import WireType, data, signed_to_unsigned, tag, text, uint, varint

Arguments = Mapping[str, int | str]
"""What an event says besides its name: numbers and short texts."""

_NONE: Final[Arguments] = {}
_FLOW: Final = tag(TrackEventField.FLOW, WireType.FIXED64)
_LAST_FLOW: Final = tag(TrackEventField.LAST_FLOW, WireType.FIXED64)
_NAME: Final = 23
_CATEGORY: Final = 22
_ABSOLUTE: Final = uint(TIMESTAMP_CLOCK, BOOTTIME)


class TraceWriter:
    """Writes events to a sink. `unit_ns` is the unit of all times in nanoseconds."""

    def __init__(self, sink: Sink, *, unit_ns: int) -> None:
        self._sink = sink
        self._unit_ns = unit_ns
        self._tracks: list[bytes] = []
        self._flows = 0
        self._time = 0  # of the last event
        self._written = sink.segment_bytes  # of this segment: one is due
        self._numbers: dict[tuple[Interned, str], int] = {}
        self._counts: dict[Interned, int] = {}
        self._new = b""  # what the next event interns
        self._events: dict[tuple[object, ...], bytes] = {}  # but for their flows, in this segment
        self._counters: dict[int, bytes] = {}
        self._open: dict[int, list[tuple[str, str]]] = {}
        self._values: dict[int, float] = {}

    # Tracks. Each has a number, from 1.

    def process(self, pid: int, name: str) -> int:
        """Add the track of a process: a device."""
        return self._add(process_track(self._next, pid, name))

    def thread(self, parent: int, pid: int, tid: int, name: str) -> int:
        """Add the track of a thread, below that of its process: a core."""
        return self._add(thread_track(self._next, parent, pid, tid, name))

    def track(self, parent: int, name: str) -> int:
        """Add any other track below one."""
        return self._add(child_track(self._next, parent, name))

    def counter(self, parent: int, name: str, unit: str) -> int:
        """Add the track of a counter of `unit` below another track."""
        return self._add(counter_track(self._next, parent, name, unit))

    def next_flow(self) -> int:
        """Return the id of a new flow."""
        self._flows += 1
        return self._flows

    # Events. A category says what kind of thing an event is; `arguments` stand with it.

    def begin(
        self,
        track: int,
        time: int,
        name: str,
        category: str,
        arguments: Arguments = _NONE,
        *,
        flow: int = 0,
        last_flow: int = 0,
    ) -> None:
        """Begin a slice within the open ones of its track. A flow begins or goes on here, or it ends."""
        self._begin_segment_if_due()  # with what was open before
        self._open.setdefault(track, []).append((name, category))
        self._event(EventType.SLICE_BEGIN, track, time, name, category, arguments, flow, last_flow)

    def end(
        self, track: int, time: int, arguments: Arguments = _NONE, *, flow: int = 0, last_flow: int = 0
    ) -> None:
        """End the innermost slice of a track; nothing where none is open, as one that began before."""
        if slices := self._open.get(track):
            self._begin_segment_if_due()
            slices.pop()
            self._event(EventType.SLICE_END, track, time, "", "", arguments, flow, last_flow)

    def instant(
        self,
        track: int,
        time: int,
        name: str,
        category: str,
        arguments: Arguments = _NONE,
        *,
        flow: int = 0,
        last_flow: int = 0,
    ) -> None:
        """Add something that takes no time. A flow begins or goes on here, or it ends: `last_flow`."""
        self._begin_segment_if_due()
        self._event(EventType.INSTANT, track, time, name, category, arguments, flow, last_flow)

    def count(self, track: int, time: int, value: float) -> None:
        """Give a counter a value."""
        self._begin_segment_if_due()
        self._values[track] = value
        head = self._counters.get(track)
        if head is None:
            head = self._counters[track] = event_head(EventType.COUNTER, track)
        self._write(time, event_rest(head + counter_value(value), b""))

    def finish(self) -> None:
        """Write the tracks where there was no event at all: a device that did nothing is in its trace."""
        self._begin_segment_if_due()

    def depth(self, track: int) -> int:
        """Return the number of open slices of a track."""
        return len(self._open.get(track, ()))

    # Inside.

    @property
    def _next(self) -> int:
        return len(self._tracks) + 1

    def _add(self, packet: bytes) -> int:
        self._tracks.append(packet)
        if self._written < self._sink.segment_bytes:
            self._put(packet)
        return len(self._tracks)

    def _event(
        self,
        kind: EventType,
        track: int,
        time: int,
        name: str,
        category: str,
        arguments: Arguments,
        flow: int = 0,
        last_flow: int = 0,
    ) -> None:
        key = (kind, track, name, category, *arguments.items())
        event = self._events.get(key)
        if event is None:
            event = self._head(kind, track, name, category)
            for each, value in arguments.items():
                event += self._annotation(each, value)
            self._events[key] = event
        if flow:
            event += _FLOW + flow.to_bytes(8, "little")
        if last_flow:
            event += _LAST_FLOW + last_flow.to_bytes(8, "little")
        new = self._new
        if new:
            self._new = b""
        self._write(time, event_rest(event, new))

    def _head(self, kind: EventType, track: int, name: str, category: str) -> bytes:
        event = event_head(kind, track)
        if name:
            event += uint(TrackEventField.NAME_ID, self._number(Interned.NAME, name))
            event += uint(TrackEventField.CATEGORY_ID, self._number(Interned.CATEGORY, category))
        return event

    def _annotation(self, key: str, value: int | str) -> bytes:
        annotation = uint(1, self._number(Interned.ANNOTATION_NAME, key))
        if isinstance(value, int):
            annotation += uint(4, signed_to_unsigned(value))
        else:
            annotation += uint(17, self._number(Interned.ANNOTATION_TEXT, value))
        return data(TrackEventField.ANNOTATION, annotation)

    def _number(self, kind: Interned, value: str) -> int:
        number = self._numbers.get((kind, value))
        if number is None:
            self._counts[kind] = number = self._counts.get(kind, 0) + 1
            self._numbers[kind, value] = number
            self._new += data(kind, interned(number, value))
        return number

    def _write(self, time: int, rest: bytes) -> None:
        since = time - self._time
        if since >= 0:
            self._time = time
            body = TIMESTAMP_TAG + varint(since) + rest
        else:  # of another core, which is behind
            body = TIMESTAMP_TAG + varint(max(0, time * self._unit_ns)) + _ABSOLUTE + rest
        self._put(PACKET + varint(len(body)) + body)

    def _put(self, packet: bytes) -> None:
        self._written += len(packet)
        self._sink.write(packet)

    def _begin_segment_if_due(self) -> None:
        if self._written < self._sink.segment_bytes:
            return
        self._numbers.clear()
        self._counts.clear()
        self._events.clear()
        start = segment_start(self._time, self._unit_ns) + b"".join(self._tracks)
        self._written = len(start)
        self._sink.begin_segment(start, b"".join(self._open_slices()))

    def _open_slices(self) -> list[bytes]:
        """Write what is open and the values of counters, for who does not know the segments before."""
        stamp = TIMESTAMP_TAG + varint(0)
        events = [
            event_head(EventType.SLICE_BEGIN, track) + text(_NAME, name) + text(_CATEGORY, category)
            for track, slices in self._open.items()
            for name, category in slices
        ]
        events += [
            event_head(EventType.COUNTER, track) + counter_value(value)
            for track, value in self._values.items()
        ]
        bodies = [stamp + event_rest(event, b"") for event in events]
        return [PACKET + varint(len(body)) + body for body in bodies]
