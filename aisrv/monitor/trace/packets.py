"""Packets of a Perfetto trace: what stands in them, by the numbers of its fields.

Source: perfetto.dev, protos/perfetto/trace/trace_packet.proto, track_event/track_event.proto,
track_event/track_descriptor.proto, clock_snapshot.proto, interned_data.proto. A trace is packets, field 1.
"""

import struct
from enum import IntEnum
from typing import Final

from aisrv.values.protobuf import WireType, data, sint, tag, text, uint, varint

PACKET: Final = tag(1, WireType.BYTES)
"""Begins a packet in a file."""

TIMESTAMP: Final = 8
CLOCK_SNAPSHOT: Final = 6
TRACK_EVENT: Final = 11
INTERNED_DATA: Final = 12
SEQUENCE_FLAGS: Final = 13
TIMESTAMP_CLOCK: Final = 58
TRACK_DESCRIPTOR: Final = 60

BOOTTIME: Final = 6
"""The clock that the trace processor shows: nanoseconds."""
SEQUENCE_CLOCK: Final = 64
"""The first of the clocks that belong to a sequence of packets."""

STATE_CLEARED: Final = 1
"""Sequence flag: what was said before no longer counts."""

SEQUENCE: Final = uint(10, 1)
_NEEDS_STATE: Final = uint(SEQUENCE_FLAGS, 2)
_REST: Final = SEQUENCE + _NEEDS_STATE
_REST_OF_EVENT: Final = _REST + tag(TRACK_EVENT, WireType.BYTES)
TIMESTAMP_TAG: Final = tag(TIMESTAMP, WireType.VARINT)


class EventType(IntEnum):
    """Types of a TrackEvent."""

    SLICE_BEGIN = 1
    SLICE_END = 2
    INSTANT = 3
    COUNTER = 4


class TrackEventField(IntEnum):
    """Fields of a TrackEvent."""

    CATEGORY_ID = 3
    ANNOTATION = 4
    TYPE = 9
    NAME_ID = 10
    TRACK = 11
    COUNTER_VALUE = 30
    FLOAT_VALUE = 44
    FLOW = 47
    LAST_FLOW = 48


class Interned(IntEnum):
    """Fields of InternedData: what has an id within a segment."""

    CATEGORY = 1
    NAME = 2
    ANNOTATION_NAME = 3
    ANNOTATION_TEXT = 29


_FLOAT_VALUE: Final = tag(TrackEventField.FLOAT_VALUE, WireType.FIXED64)
_COUNTER_VALUE: Final = tag(TrackEventField.COUNTER_VALUE, WireType.VARINT)


def packet(*fields: bytes) -> bytes:
    """Write a packet with its field in the file."""
    body = b"".join(fields)
    return PACKET + varint(len(body)) + body


def interned(number: int, value: str) -> bytes:
    """Write an entry of InternedData, of any kind."""
    return uint(1, number) + text(2, value)


def event_head(kind: EventType, track: int) -> bytes:
    """Write what begins every event."""
    return uint(TrackEventField.TYPE, kind) + uint(TrackEventField.TRACK, track)


def event_rest(event: bytes, interned_data: bytes) -> bytes:
    """Write an event's packet but for its time: sequence, flags, the event, and what it interns."""
    if interned_data:
        return _REST + data(INTERNED_DATA, interned_data) + data(TRACK_EVENT, event)
    return _REST_OF_EVENT + varint(len(event)) + event


def segment_start(time: int, unit_ns: int) -> bytes:
    """Write what begins a segment: nothing before it counts, and the clock stands at `time`.

    `time` is in units of `unit_ns` nanoseconds since the trace began; later times are differences.
    """
    boottime = uint(1, BOOTTIME) + uint(2, time * unit_ns)
    sequence = uint(1, SEQUENCE_CLOCK) + uint(2, time) + uint(3, 1) + uint(4, unit_ns)
    snapshot = data(1, boottime) + data(1, sequence) + uint(2, BOOTTIME)
    defaults = data(59, uint(TIMESTAMP_CLOCK, SEQUENCE_CLOCK))
    flags = uint(SEQUENCE_FLAGS, STATE_CLEARED)
    return packet(SEQUENCE, flags, defaults, data(CLOCK_SNAPSHOT, snapshot))


def process_track(track: int, pid: int, name: str) -> bytes:
    """Write the packet of a process: a device, or its host."""
    return _track(uint(1, track) + data(3, uint(1, pid) + text(6, name)))


def thread_track(track: int, parent: int, pid: int, tid: int, name: str) -> bytes:
    """Write the packet of a thread: a core."""
    thread = data(4, uint(1, pid) + uint(2, tid) + text(5, name))
    return _track(uint(1, track) + uint(5, parent) + thread)


def child_track(track: int, parent: int, name: str) -> bytes:
    """Write the packet of any other track below a process or a thread."""
    return _track(uint(1, track) + text(2, name) + uint(5, parent))


def counter_track(track: int, parent: int, name: str, unit: str) -> bytes:
    """Write the packet of a counter; `unit` is what it counts."""
    return _track(uint(1, track) + text(2, name) + uint(5, parent) + data(8, text(6, unit)))


def counter_value(value: float) -> bytes:
    """Write the value of a counter's event."""
    if isinstance(value, float):
        return _FLOAT_VALUE + struct.pack("<d", value)
    return _COUNTER_VALUE + varint(value) if value >= 0 else sint(TrackEventField.COUNTER_VALUE, value)


def _track(descriptor: bytes) -> bytes:
    return packet(SEQUENCE, data(TRACK_DESCRIPTOR, descriptor))
