"""Manifests of nodes: their memory, and the formats of their arcs."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from aisrv.addons.graph.errors import Messages, Place, nearest, shown
from aisrv.addons.graph.platform.options import read_options
from aisrv.addons.graph.platform.values import ArcSpec, MemorySpec, NodeManifest
from aisrv.addons.graph.text.source import Line, number, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable


MOST_SEGMENTS: Final = 6
MOST_ARCS: Final = 16

_TAG_ALIASES: Final = {
    "node_node_version": "node_version",
    "node_mem_retention": "node_mem_type",
    "node_mem_alignement": "node_mem_alignment",
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


def read_node(path: Path, index: int, place: Place, messages: Messages) -> NodeManifest:
    """Read a node's manifest; `place` is the line that names the file."""
    lines = read_lines(path, place, messages)
    return _NodeReader(NodeManifest(Place(str(path), 1), index), messages).read(lines)


class _NodeReader:
    """Reads the tags of a node's manifest."""

    def __init__(self, node: NodeManifest, messages: Messages) -> None:
        self.node = node
        self.messages = messages
        self.memory: dict[str, object] | None = None
        self.arc: ArcSpec | None = None
        self.memory_place = node.place
        self.handlers: dict[str, Callable[[Line], object]] = {
            "node_developer_name": lambda _line: None,
            "node_name": lambda line: setattr(self.node, "name", " ".join(line.words[1:2])),
            "node_nb_arcs": self._arcs,
            "node_mem": self._start_memory,
            "node_arc": self._start_arc,
            **{f"node_{name}": lambda line: self._numbers(line, 1, 1) for name in _NODE_VALUES},
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
            self.node.name = (*bare, "")[1]
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
            read_options(self.arc.options, name, line, self.messages)
        elif name == "rx0tx1" and (values := self._numbers(line, 1, 1)):
            self.arc.tx = int(values[0] > 0)
        elif name == "inPlaceProcessing":
            self._numbers(line, 2, 2)
