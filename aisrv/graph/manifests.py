"""Manifests: what a platform has (memory banks, processors, IOs) and what its nodes need."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aisrv.graph.errors import Place
from aisrv.graph.messages import nearest, shown
from aisrv.graph.options import Options, parse_options
from aisrv.graph.source import FileError, Line, integer, number, read_text, split_lines
from aisrv.graph.tables import UNITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aisrv.graph.messages import Messages

MOST_SEGMENTS: Final = 6
MOST_ARCS: Final = 16
LARGEST_COUNT: Final = 4096
"""Rows of a table in a manifest."""


@dataclass(frozen=True, slots=True)
class Bank:
    """A memory bank: a row of the procmap. Addresses in it count bytes from 0."""

    offset_id: int
    vid: int
    speed: int
    kind: int
    """0 static, 1 working, 2 retention."""
    private: int
    dma: int
    program: int
    size: int
    """Bytes."""
    offset: int
    base: int = 0
    """Where a piece of a split bank starts in the bank."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor, and the libraries it has."""

    number: int
    is_main: bool
    libraries: int


@dataclass(frozen=True, slots=True)
class MemorySpec:
    """A memory segment that a node asks for: alloc + factor * property of an arc's format, each in bytes."""

    place: Place
    alloc: int = 0
    channels: tuple[float, int] = (0, 0)
    sampling_rate: tuple[float, int] = (0, 0)
    frame_size: tuple[float, int] = (0, 0)
    alignment: int = 4
    type: int = 0
    """0 static, 1 working, 2 retention, 3 static until done."""
    speed: int = 0
    relocatable: int = 0
    program: int = 0


@dataclass(slots=True)
class ArcSpec:
    """What an arc of a node takes; options that the manifest does not state are not there."""

    place: Place
    tx: int | None = None
    options: dict[str, Options] = field(default_factory=dict)
    in_place: tuple[int, int] | None = None


@dataclass(slots=True)
class NodeManifest:
    """A node's manifest. `index` is its NODE_IDX, the row in the top manifest."""

    place: Place
    index: int
    name: str = ""
    developer: str = ""
    arcs_in: int = 1
    arcs_out: int = 1
    values: dict[str, float] = field(default_factory=dict)
    segments: list[MemorySpec] = field(default_factory=list)
    arcs: dict[int, ArcSpec] = field(default_factory=dict)

    def is_tx(self, arc: int, arcs_in: int) -> bool:
        """Whether an arc of the node is an output, for that many inputs."""
        spec = self.arcs.get(arc)
        return arc >= arcs_in if spec is None or spec.tx is None else bool(spec.tx)


@dataclass(slots=True)
class IoManifest:
    """An IO's manifest. `others` are the tags that only the IO's domain knows, as they stand."""

    place: Place
    name: str = ""
    domain: str = "general"
    servant: int = 1
    copy: int = 0
    tx: int = 0
    options: dict[str, Options] = field(default_factory=dict)
    units: tuple[str, tuple[float, ...]] | None = None
    others: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IoRow:
    """A row of the top manifest's IOs."""

    place: Place
    path: Path
    hwid: int
    processors: int
    clock: int


@dataclass
class Platform:
    """A platform: banks in the order of the procmap, nodes by name, IOs by IO_AL_idx."""

    path: Path
    banks: list[Bank] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    processors: list[Processor] = field(default_factory=list)
    io_rows: dict[int, IoRow] = field(default_factory=dict)
    nodes: dict[str, NodeManifest] = field(default_factory=dict)
    _ios: dict[int, IoManifest] = field(default_factory=dict)

    @cached_property
    def node_names(self) -> dict[int, str]:
        """The names of nodes by NODE_IDX."""
        return {node.index: name for name, node in self.nodes.items()}

    def bank(self, vid: int) -> Bank | None:
        """The first bank with a VID."""
        return next((bank for bank in self.banks if bank.vid == vid), None)

    def io(self, hwid: int, messages: Messages) -> IoManifest | None:
        """The manifest of an IO, read when it is asked for first."""
        row = self.io_rows.get(hwid)
        if row is None:
            return None
        if hwid not in self._ios:
            self._ios[hwid] = read_io(row.path, row.place, messages)
        return self._ios[hwid]


def read_platform(path: Path, messages: Messages) -> Platform:
    """Read the top manifest of a platform, its procmap and the manifests of its nodes."""
    platform = Platform(path)
    rows = _Rows(_lines(path, Place(str(path), 1), messages), Place(str(path), 1), messages)
    folder = path.parent / ".."
    paths = [Path(os.path.normpath(folder / row.words[0])) for row in rows.take(rows.count("paths"), 1)]
    procmap = rows.file(paths, "the procmap")
    if procmap is not None:
        _read_procmap(platform, procmap, rows.place, messages)
    for row in rows.take(rows.count("IOs"), 5):
        file = rows.file_of(row, paths)
        numbers = rows.numbers(row, row.words[2:5])
        if file is None or numbers is None:
            continue
        if numbers[0] in platform.io_rows:
            messages.error(
                row.place, f"IO {numbers[0]} exists already, at {platform.io_rows[numbers[0]].place}"
            )
        platform.io_rows[numbers[0]] = IoRow(row.place, file, *numbers)
    for index, row in enumerate(rows.nodes()):
        file = rows.file_of(row, paths)
        if file is None:
            continue
        node = read_node(file, index, row.place, messages)
        if node.name in platform.nodes:
            messages.error(row.place, f"node {shown(node.name)} exists already")
        platform.nodes[node.name] = node
    return platform


def _lines(path: Path, place: Place, messages: Messages) -> list[Line]:
    try:
        return split_lines(read_text(path), str(path))
    except FileError as error:
        messages.error(place, f"{path}: {error}")
        return []


class _Rows:
    """Reads the rows of a manifest without tags, one after the other."""

    def __init__(self, lines: list[Line], place: Place, messages: Messages) -> None:
        self.lines: Iterator[Line] = iter(lines)
        self.place = place
        self.messages = messages

    def next(self) -> Line | None:
        line = next(self.lines, None)
        if line is not None:
            self.place = line.place
        return line

    def count(self, what: str) -> int:
        """A row whose first word is a count."""
        line = self.next()
        value = integer(line.words[0]) if line else None
        if value is None or not 0 <= value <= LARGEST_COUNT:
            self.messages.error(self.place, f"expected the number of {what}, 0 to {LARGEST_COUNT}")
            return 0
        return value

    def take(self, count: int, words: int) -> Iterator[Line]:
        """As many rows, each with at least that many words."""
        for index in range(count):
            line = self.next()
            if line is None:
                self.messages.error(self.place, f"the manifest ends after {index} of {count} rows")
                return
            if len(line.words) < words:
                self.messages.error(line.place, f"the row has {len(line.words)} fields: {words} are needed")
                continue
            yield line

    def numbers(self, line: Line, words: tuple[str, ...]) -> list[int] | None:
        values = [integer(word) for word in words]
        whole = [value for value in values if value is not None]
        if len(whole) != len(words):
            self.messages.error(
                line.place, f"the row has {' '.join(map(shown, words))} where numbers are expected"
            )
            return None
        return whole

    def file(self, paths: list[Path], what: str) -> Path | None:
        line = self.next()
        if line is None:
            self.messages.error(self.place, f"the manifest ends before {what}")
            return None
        return self.file_of(line, paths)

    def file_of(self, line: Line, paths: list[Path]) -> Path | None:
        """The file of a row that starts with the number of a path and a name."""
        index = integer(line.words[0])
        if index is None or len(line.words) < 2:
            self.messages.error(line.place, "the row starts with the number of a path and a file's name")
            return None
        if not 0 <= index < len(paths):
            self.messages.error(line.place, f"path {index} is not one of the {len(paths)} that are given")
            return None
        return Path(os.path.normpath(paths[index] / line.words[1]))

    def nodes(self) -> Iterator[Line]:
        """The rows to the end; the first grammar counts them first."""
        is_first = True
        while (line := self.next()) is not None and line.words[0] != "end":
            is_count = is_first and not (len(line.words) > 1 and line.words[1].endswith(".txt"))
            is_first = False
            if not is_count:
                yield line


def _read_procmap(platform: Platform, path: Path, place: Place, messages: Messages) -> None:
    rows = _Rows(_lines(path, place, messages), Place(str(path), 1), messages)
    first = rows.next()
    counts = [integer(word) for word in first.words[:4]] if first else []
    numbers = [value for value in counts if value is not None and 0 <= value <= LARGEST_COUNT]
    if len(numbers) < 3:
        messages.error(rows.place, "expected the numbers of architectures, processors, banks and offsets")
        return
    for row in rows.take(numbers[2], 9):
        values = rows.numbers(row, row.words[:9])
        if values is None:
            continue
        bank = Bank(*values)
        if not 0 <= bank.offset_id <= 63 or not 0 <= bank.size <= 1 << 32 or bank.vid < 0:
            messages.error(
                row.place, f"offset id {bank.offset_id}, VID {bank.vid} or size {bank.size} is wrong"
            )
        platform.banks.append(bank)
    if not platform.banks:
        messages.error(rows.place, "the platform has no memory bank")
    for row in rows.take(numbers[3] if len(numbers) > 3 else 0, 2):
        values = rows.numbers(row, row.words[:2])
        if values is not None:
            platform.offsets[values[0]] = values[1]
    for row in rows.take(numbers[1], 3):
        values = rows.numbers(row, row.words[:3])
        if values is not None:
            platform.processors.append(Processor(values[0], bool(values[1]), values[2]))


_TAG_ALIASES: Final = {
    "node_node_version": "node_version",
    "node_mem_retention": "node_mem_type",
    "node_mem_alignement": "node_mem_alignment",
    "io_sampling_accuracy": "io_sampling_rate_accuracy",
}
_NODE_VALUES: Final = (
    "mask_library", "architecture", "fpu_used", "use_unlock_key", "version", "stream_version",
    "complexity_index", "not_reentrant",
)  # fmt: skip
_NODE_IGNORED: Final = (
    "logo", "subtype_units", "arc_parameter", "steady_stream", "same_data_rate", "use_dtcm", "use_arc_format",
)  # fmt: skip
_MEMORY_TAGS: Final = (
    "alloc", "nbchan", "sampling_rate", "frame_size", "alignment", "type", "speed", "relocatable",
    "data0prog1",
)  # fmt: skip
_MEMORY_FIELDS: Final = {
    "nbchan": "channels", "data0prog1": "program",
}  # fmt: skip
_ARC_OPTIONS: Final = (
    "interleaving", "nb_channels", "raw_format", "frame_length", "frame_duration", "sampling_rate",
    "sampling_period_s", "sampling_period_day", "sampling_accuracy",
)  # fmt: skip
_ARC_TAGS: Final = ("name", "rx0tx1", "units_scale", "inPlaceProcessing", *_ARC_OPTIONS)
_NODE_TAGS: Final = (
    "node_developer_name", "node_name", "node_nb_arcs", "node_mem", "node_arc", "end",
    *(f"node_{name}" for name in (*_NODE_VALUES, *_NODE_IGNORED)),
    *(f"node_mem_{name}" for name in _MEMORY_TAGS),
    *(f"node_arc_{name}" for name in _ARC_TAGS),
)  # fmt: skip
_IO_OPTIONS: Final = (
    "raw_format", "interleaving", "nb_channels", "frame_length", "frame_duration", "sampling_rate",
    "sampling_period", "sampling_period_s", "sampling_period_day", "sampling_rate_accuracy",
    "time_stamp_format",
)  # fmt: skip


def read_node(path: Path, index: int, place: Place, messages: Messages) -> NodeManifest:
    """Read a node's manifest; `place` is the line that names the file."""
    lines = _lines(path, place, messages)
    return _NodeReader(NodeManifest(Place(str(path), 1), index), messages).read(lines)


class _NodeReader:
    """Reads the tags of a node's manifest."""

    def __init__(self, node: NodeManifest, messages: Messages) -> None:
        self.node = node
        self.messages = messages
        self.memory: dict[str, object] | None = None
        self.arc: ArcSpec | None = None
        self.memory_place = node.place
        self.handlers: dict[str, Callable[[Line], None]] = {
            "node_developer_name": lambda line: setattr(self.node, "developer", " ".join(line.words[1:2])),
            "node_name": lambda line: setattr(self.node, "name", " ".join(line.words[1:2])),
            "node_nb_arcs": self._arcs,
            "node_mem": self._start_memory,
            "node_arc": self._start_arc,
            **{f"node_{name}": self._value for name in _NODE_VALUES},
            **{f"node_{name}": lambda _line: None for name in _NODE_IGNORED},
            **{f"node_mem_{name}": self._memory for name in _MEMORY_TAGS},
            **{f"node_arc_{name}": self._arc_tag for name in _ARC_TAGS},
        }

    def read(self, lines: list[Line]) -> NodeManifest:
        bare: list[str] = []
        for line in lines:
            tag = _TAG_ALIASES.get(line.words[0], line.words[0])
            if tag in ("end", "_end_"):
                break
            handler = self.handlers.get(tag)
            if handler is not None:
                handler(Line(line.place, (tag, *line.words[1:]), line.text))
            elif not tag.startswith("node_") and len(bare) < 2:
                bare.append(tag)  # the first grammar: developer and name, each on a line
            else:
                self.messages.error(line.place, f"unknown tag {shown(tag)}{nearest(tag, _NODE_TAGS)}")
        self._end_memory()
        if bare:
            self.node.developer, self.node.name = (*bare, "")[:2]
        if not self.node.name:
            self.messages.error(self.node.place, "the manifest has no node_name")
        return self.node

    def _numbers(self, line: Line, most: int, needed: int) -> list[float] | None:
        values = []
        for word in line.words[1 : most + 1]:
            value = number(word)
            if value is None:
                break
            values.append(value)
        if len(values) < needed:
            self.messages.error(line.place, f"{line.words[0]} has {needed} numbers: {len(values)} are given")
            return None
        return values

    def _arcs(self, line: Line) -> None:
        values = self._numbers(line, 2, 2)
        if values is None:
            return
        if min(values) < 0 or sum(values) > MOST_ARCS:
            self.messages.error(line.place, f"a node has at most {MOST_ARCS} arcs")
            return
        self.node.arcs_in, self.node.arcs_out = map(int, values)

    def _value(self, line: Line) -> None:
        values = self._numbers(line, 1, 1)
        if values:
            self.node.values[line.words[0].removeprefix("node_")] = values[0]

    def _start_memory(self, line: Line) -> None:
        self._end_memory()
        if self._numbers(line, 1, 1) is None:
            return
        if len(self.node.segments) >= MOST_SEGMENTS:
            self.messages.error(line.place, f"a node has at most {MOST_SEGMENTS} memory segments")
        self.memory, self.memory_place = {}, line.place

    def _end_memory(self) -> None:
        if self.memory is not None:
            self.node.segments.append(MemorySpec(self.memory_place, **self.memory))  # type: ignore[arg-type]
        self.memory = None

    def _memory(self, line: Line) -> None:
        name = line.words[0].removeprefix("node_mem_")
        if self.memory is None:
            self.memory, self.memory_place = {}, line.place  # without node_mem 0 in front: segment 0
        factors = name in ("nbchan", "sampling_rate", "frame_size")
        values = self._numbers(line, 2 if factors else 1, 1)
        if values is None:
            return
        largest = (1 << 22) if name != "alignment" else 4096
        if not 0 <= values[0] <= largest or (name == "alignment" and values[0] < 1):
            self.messages.error(line.place, f"{line.words[0]} is {values[0]:g}: 0 to {largest} are possible")
            return
        if name == "type" and values[0] not in (0, 1, 2, 3):
            self.messages.error(line.place, f"memory type {values[0]:g} is not one of 0, 1, 2 and 3")
            return
        where = int(values[1]) if len(values) > 1 else 0
        if factors and not 0 <= where < MOST_ARCS:
            self.messages.error(line.place, f"arc {where} is not one of 0 to {MOST_ARCS - 1}")
            return
        self.memory[_MEMORY_FIELDS.get(name, name)] = (values[0], where) if factors else int(values[0])

    def _start_arc(self, line: Line) -> None:
        values = self._numbers(line, 1, 1)
        if values is None:
            return
        if not 0 <= values[0] < MOST_ARCS:
            self.messages.error(line.place, f"a node has at most {MOST_ARCS} arcs")
            return
        self.arc = self.node.arcs.setdefault(int(values[0]), ArcSpec(line.place))

    def _arc_tag(self, line: Line) -> None:
        if self.arc is None:
            self.messages.error(line.place, f"{line.words[0]} must follow a node_arc")
            return
        name = line.words[0].removeprefix("node_arc_")
        if name in _ARC_OPTIONS:
            _set_options(self.arc.options, name, line, self.messages)
        elif name == "rx0tx1" and (values := self._numbers(line, 1, 1)):
            self.arc.tx = int(values[0] > 0)
        elif name == "inPlaceProcessing" and (values := self._numbers(line, 2, 2)):
            self.arc.in_place = (int(values[0]), int(values[1]))


def _set_options(options: dict[str, Options], name: str, line: Line, messages: Messages) -> None:
    found = parse_options(line.text.partition(";")[0].strip().removeprefix(line.words[0]).strip())
    if found is None:
        messages.error(line.place, f"{line.words[0]} has options such as {{1 16000 48000}} or a number")
    else:
        options[name] = found


def read_io(path: Path, place: Place, messages: Messages) -> IoManifest:
    """Read an IO's manifest; `place` is the row of the top manifest."""
    manifest = IoManifest(Place(str(path), 1))
    bare: list[str] = []
    for line in _lines(path, place, messages):
        tag = _TAG_ALIASES.get(line.words[0], line.words[0])
        if tag in ("end", "_end_"):
            break
        if (
            len(bare) < 2
            and len(line.words) == 1
            and not (tag in _IO_FLAGS or tag in ("io_name", "io_domain"))
        ):
            bare.append(tag)
            continue
        _io_tag(manifest, tag, Line(line.place, (tag, *line.words[1:]), line.text), messages)
    if bare:
        manifest.name = bare[0]
    if len(bare) > 1:
        manifest.domain = bare[1]
    return manifest


_IO_FLAGS: Final = {
    "io_commander0_servant1": "servant",
    "io_set0copy1": "copy",
    "io_direction_rx0tx1": "tx",
    "io_buffer_allocation": "copy",
}


def _io_tag(manifest: IoManifest, tag: str, line: Line, messages: Messages) -> None:
    name = tag.removeprefix("io_")
    if tag in _IO_FLAGS:
        value = number(line.words[1]) if len(line.words) > 1 else None
        if value is None:
            messages.error(line.place, f"{tag} has a number")
        else:
            setattr(manifest, _IO_FLAGS[tag], int(value > 0))
    elif tag in ("io_name", "io_domain") and len(line.words) > 1:
        setattr(manifest, name, line.words[1])
    elif name in _IO_OPTIONS:
        _set_options(manifest.options, name, line, messages)
    elif tag in ("io_units_rescale", "io_subtype_units"):
        manifest.units = _units(tag, line, messages)
    elif tag.startswith("io_"):
        manifest.others[tag] = line.words[1:]
    else:
        messages.error(
            line.place, f"unknown tag {shown(tag)}{nearest(tag, [f'io_{each}' for each in _IO_OPTIONS])}"
        )


def _units(tag: str, line: Line, messages: Messages) -> tuple[str, tuple[float, ...]] | None:
    """A unit, and a, b, max of P = a(D - b); the first grammar gives the unit alone."""
    unit = line.words[1].upper() if len(line.words) > 1 else ""
    code = integer(unit)
    if code is not None and 0 <= code < len(UNITS):
        unit = UNITS[code]
    if unit not in UNITS:
        messages.warn(line.place, f"unknown unit {shown(unit)}{nearest(unit, UNITS)}")
    if tag == "io_subtype_units":
        return unit, (1, 0, 1)
    values = [number(word) for word in line.words[2:5]]
    known = [value for value in values if value is not None]
    if len(known) != 3:
        messages.error(line.place, f"{tag} has a unit and three numbers")
        return None
    return unit, tuple(known)
