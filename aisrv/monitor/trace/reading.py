"""Traces read again: tracks, slices and instants, in the order of the file.

What other programs write into a trace is passed over, as far as it is no event of a track. A file that was
cut ends with the last whole packet.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from aisrv.monitor.trace.packets import (
    BOOTTIME,
    CLOCK_SNAPSHOT,
    INTERNED_DATA,
    SEQUENCE_FLAGS,
    STATE_CLEARED,
    TIMESTAMP,
    TIMESTAMP_CLOCK,
    TRACK_DESCRIPTOR,
    TRACK_EVENT,
    EventType,
    Interned,
    TrackEventField,
)
from aisrv.values.printable import PrintableError
from aisrv.values.protobuf import ProtobufError, Value, read_fields, read_varint, unsigned_to_signed
from aisrv.values.regular_file import ANY_SIZE, opened_regular

LARGEST_PACKET: Final = 1 << 20
MOST_TRACKS: Final = 100_000
_HEAD_BYTES: Final = 11
_NAME: Final = 23
_CATEGORY: Final = 22
_PACKET_KEY: Final = 0x0A


class TraceError(PrintableError):
    """A file that is no trace, or not one that can be read; the message says where and why."""


@dataclass(slots=True)
class Track:
    """A process, a core of it, or what else events stand on."""

    name: str
    parent: int = 0
    """Number of the track that it belongs to; 0 for none."""
    is_process: bool = False
    is_thread: bool = False
    process: str = ""
    """Name of the process that it belongs to."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that took time, in nanoseconds."""

    track: int
    name: str
    category: str
    start: int
    end: int
    arguments: dict[str, int | str]


@dataclass(slots=True)
class _Open:
    name: str
    category: str
    start: int
    arguments: dict[str, int | str]


@dataclass(slots=True)
class TraceReader:
    """Reads a file from its beginning: `slices` yields what took time; `tracks` grow meanwhile."""

    path: Path
    tracks: dict[int, Track] = field(default_factory=dict)
    first: int | None = None
    """Time of the first event in nanoseconds; None before there was one."""
    last: int = 0
    """Time of the last event."""
    traps: list[tuple[int, int, str, str]] = field(default_factory=list)
    """Time, track, name and reason of each trap."""
    events: int = 0
    is_cut: bool = False
    """Whether the file ends within a packet."""
    _interned: dict[tuple[int, int], str] = field(default_factory=dict)
    _open: dict[int, list[_Open]] = field(default_factory=dict)
    _time: int = 0
    _unit: int = 1

    def slices(self) -> Iterator[Slice]:
        """Yield slices as they end, at last those that are open at the end; TraceError, OSError."""
        with opened_regular(self.path, ANY_SIZE) as file:
            for offset, packet in self._packets(file):
                try:
                    found = self._see(list(read_fields(packet)))
                except (ProtobufError, ValueError, TypeError, KeyError) as error:
                    raise TraceError(f"{self.path}: packet at byte {offset}: {error}") from None
                if found is not None:
                    yield found
        if not self.events and not self.tracks:
            raise TraceError(f"{self.path}: no event of a track in it")
        for track, stack in self._open.items():
            while stack:
                yield self._ended(track, stack.pop(), self.last, {})

    def _packets(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and the content of each packet."""
        offset = 0
        while head := file.read(_HEAD_BYTES):
            if head[0] != _PACKET_KEY:
                raise TraceError(f"{self.path}: no trace: byte {offset} begins no packet")
            try:
                size, start = read_varint(head, 1)
            except ProtobufError:
                if len(head) == _HEAD_BYTES:
                    raise TraceError(f"{self.path}: the packet at byte {offset} has no length") from None
                self.is_cut = True
                return
            if size > LARGEST_PACKET:
                raise TraceError(f"{self.path}: the packet at byte {offset} is too large: {size:,} bytes")
            rest = head[start : start + size]
            file.seek(offset + start + len(rest))
            packet = rest + file.read(size - len(rest))
            if len(packet) < size:
                self.is_cut = True
                return
            yield offset, packet
            offset += start + size

    def _see(self, fields: list[tuple[int, Value]]) -> Slice | None:
        values = dict(fields)
        if _number(values, SEQUENCE_FLAGS) & STATE_CLEARED:
            self._interned.clear()
        if CLOCK_SNAPSHOT in values:
            self._set_clock(_message(values, CLOCK_SNAPSHOT))
        if TRACK_DESCRIPTOR in values:
            self._add_track(dict(read_fields(_message(values, TRACK_DESCRIPTOR))))
        if INTERNED_DATA in values:
            for kind, entry in read_fields(_message(values, INTERNED_DATA)):
                said = dict(read_fields(_bytes(entry)))
                self._interned[kind, _number(said, 1)] = _text(said, 2)
        if TRACK_EVENT not in values:
            return None
        now = self._now(_number(values, TIMESTAMP), _number(values, TIMESTAMP_CLOCK))
        self.first = now if self.first is None else min(self.first, now)
        self.last = max(self.last, now)
        self.events += 1
        return self._event(now, list(read_fields(_message(values, TRACK_EVENT))))

    def _set_clock(self, snapshot: bytes) -> None:
        for number, clock in read_fields(snapshot):
            if number == 1:
                said = dict(read_fields(_bytes(clock)))
                if said.get(3):
                    self._unit = _number(said, 4) or 1
                    self._time = _number(said, 2)

    def _now(self, stamp: int, clock: int) -> int:
        if clock == BOOTTIME:
            return stamp
        self._time += stamp
        return self._time * self._unit

    def _add_track(self, said: dict[int, Value]) -> None:
        if len(self.tracks) >= MOST_TRACKS:
            raise ValueError(f"more than {MOST_TRACKS:,} tracks")
        track = Track(_text(said, 2), _number(said, 5))
        if 3 in said:
            track.is_process, track.name = True, _text(dict(read_fields(_message(said, 3))), 6)
        if 4 in said:
            track.is_thread, track.name = True, _text(dict(read_fields(_message(said, 4))), 5)
        parent = self.tracks.get(track.parent)
        track.process = track.name if track.is_process else "" if parent is None else parent.process
        self.tracks.setdefault(_number(said, 1), track)

    def _event(self, now: int, fields: list[tuple[int, Value]]) -> Slice | None:
        values = dict(fields)
        track = _number(values, TrackEventField.TRACK)
        arguments = dict(
            self._argument(_bytes(value)) for key, value in fields if key == TrackEventField.ANNOTATION
        )
        match _number(values, TrackEventField.TYPE):
            case EventType.SLICE_BEGIN:
                name, category = self._name(values)
                self._open.setdefault(track, []).append(_Open(name, category, now, arguments))
            case EventType.SLICE_END:
                stack = self._open.get(track)
                if stack:
                    return self._ended(track, stack.pop(), now, arguments)
            case EventType.INSTANT:
                name, category = self._name(values)
                if category == "trap":
                    self.traps.append((now, track, name, str(arguments.get("reason", ""))))
        return None

    def _ended(self, track: int, begun: _Open, now: int, arguments: dict[str, int | str]) -> Slice:
        return Slice(track, begun.name, begun.category, begun.start, now, begun.arguments | arguments)

    def _name(self, values: dict[int, Value]) -> tuple[str, str]:
        return tuple(  # type: ignore[return-value]  # two of them
            _text(values, plain)
            if plain in values
            else self._interned.get((kind, _number(values, by_number)), "?")
            for plain, kind, by_number in (
                (_NAME, Interned.NAME, TrackEventField.NAME_ID),
                (_CATEGORY, Interned.CATEGORY, TrackEventField.CATEGORY_ID),
            )
        )

    def _argument(self, annotation: bytes) -> tuple[str, int | str]:
        said = dict(read_fields(annotation))
        key = self._interned.get((Interned.ANNOTATION_NAME, _number(said, 1)), "?")
        if 4 in said:
            return key, unsigned_to_signed(_number(said, 4))
        return key, self._interned.get((Interned.ANNOTATION_TEXT, _number(said, 17)), "?")


def _number(values: dict[int, Value], key: int) -> int:
    value = values.get(key, 0)
    if not isinstance(value, int):
        raise ValueError(f"field {key} is no number")
    return value


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field is no message")
    return value


def _message(values: dict[int, Value], key: int) -> bytes:
    return _bytes(values[key])


def _text(values: dict[int, Value], key: int) -> str:
    value = values.get(key, b"")
    return _bytes(value).decode(errors="replace")
