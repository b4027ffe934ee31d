"""The memory segments of a node: their sizes, and their settings in its text."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aisrv.addons.graph.binary.model import Format, Segment
from aisrv.addons.graph.compiler.dialect import Dialect
from aisrv.addons.graph.compiler.memory_plan import Address, MemoryPlan, round4
from aisrv.addons.graph.compiler.network import NodeUse
from aisrv.addons.graph.errors import Messages
from aisrv.addons.graph.platform.values import MemorySpec

WORKING: Final = 1
"""The type of memory that nodes share."""
_LARGEST_BYTES: Final = 1 << 40
"""Limit of sizes, which their bit-field refuses."""


@dataclass(slots=True)
class SegmentUse:
    """A memory segment of a node with its size in bytes and, when placed, its address."""

    spec: MemorySpec
    vid: int
    size: int
    clear: bool = False
    swap: int | None = None
    address: Address = field(default_factory=lambda: Address(0, 0))

    @property
    def is_working(self) -> bool:
        return self.spec.type == WORKING

    @property
    def has_flags(self) -> bool:
        return self.clear or self.swap is not None


def segment_uses(
    node: NodeUse, formats: tuple[Format, ...], dialect: Dialect, messages: Messages
) -> list[SegmentUse]:
    """Return the segments of a node, before they are placed; errors go to `messages`."""
    text, manifest = node.text, node.manifest
    known = {
        number: formats[connection.format]
        for number, connection in node.arcs.items()
        if connection.format < len(formats)
    }
    specs = manifest.segments or dialect.default_segments(manifest.place)
    uses = [SegmentUse(spec, text.default_bank, segment_size(spec, known)) for spec in specs]
    for tag, (place, apply) in _TAGS.items():
        for statement in text.every(tag):
            numbers = [int(value) for value in statement.values]
            index = numbers[place]
            if not 0 <= index < len(uses):
                messages.error(
                    statement.place, f"{manifest.name} has memory segments 0 to {len(uses) - 1}, not {index}"
                )
                continue
            if tag == "node_malloc_add" and numbers[0] < 0:
                messages.error(statement.place, "memory cannot be taken away")
            apply(uses[index], numbers)
    return uses


def place_segments(node: NodeUse, uses: list[SegmentUse], plan: MemoryPlan, *, is_working: bool) -> None:
    """Place the static segments of a node, or its working ones, which overlay those of others."""
    for index, use in enumerate(uses):
        if use.is_working != is_working:
            continue
        what, place = f"{node.name} segment {index}", node.text.place
        put = plan.overlay if is_working else plan.place
        use.address = put(what, use.vid, use.size, place, use.spec.alignment)
        if use.swap is not None and is_working:
            plan.overlay(f"{what} swapped", use.swap, use.size, place)


def segment_records(uses: list[SegmentUse]) -> tuple[Segment, ...]:
    return tuple(
        Segment(
            others=len(uses) - 1,
            bank=use.address.offset_id,
            offset=use.address.byte,
            any_clear_or_swap=int(any(each.has_flags for each in uses)),
            clear=int(use.clear),
            swap=int(use.swap is not None),
            size=use.size,
        )
        for use in uses
    )


def segment_size(spec: MemorySpec, formats: dict[int, Format]) -> int:
    """Return the bytes of a memory segment, for the formats of the node's arcs."""
    size = spec.alloc
    for (factor, number), name in (
        (spec.channels, "channels"),
        (spec.sampling_rate, "sampling_rate"),
        (spec.frame_size, "frame_bytes"),
    ):
        if factor and number in formats:
            size += rounded(factor * getattr(formats[number], name))
    return round4(size)


def rounded(size: float) -> int:
    """Round a size to the nearest byte; one far above any bit-field is cut."""
    return math.floor(0.5 + size) if size < _LARGEST_BYTES else _LARGEST_BYTES


def _add(use: SegmentUse, numbers: list[int]) -> None:
    use.size += min(max(numbers[0], 0), _LARGEST_BYTES)


def _map(use: SegmentUse, numbers: list[int]) -> None:
    use.vid = numbers[1]


def _swap(use: SegmentUse, numbers: list[int]) -> None:
    use.swap = numbers[1]


def _clear(use: SegmentUse, _: list[int]) -> None:
    use.clear = True


_TAGS: Final[dict[str, tuple[int, Callable[[SegmentUse, list[int]], None]]]] = {
    "node_malloc_add": (1, _add),
    "node_map_hwblock": (0, _map),
    "node_map_swap": (0, _swap),
    "node_memory_clear": (0, _clear),
}
"""Tags of segments, each with the place of the segment's number and its function."""
