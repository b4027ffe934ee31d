"""Dialects: the meaning of a graph text, and its words, where compilers differ."""

# ruff: noqa: ARG002 - a dialect need not look at all that it is given

from collections.abc import Collection, Sequence
from typing import ClassVar, Final

from aisrv.addons.graph.binary.model import Format, Graph, IoEntry, Node
from aisrv.addons.graph.compiler.memory_plan import Address, MemoryPlan
from aisrv.addons.graph.errors import Messages, Place
from aisrv.addons.graph.platform.values import MemorySpec
from aisrv.addons.graph.script.assembler import Code
from aisrv.addons.graph.script.line import LineAssembler
from aisrv.addons.graph.text.sections import GraphText, TextSection
from aisrv.addons.graph.text.source import Data, Line, read_data


class Dialect:
    """Our dialect. `public.PublicDialect` overrides the differences of the public compiler."""

    line: ClassVar[type[LineAssembler]] = LineAssembler
    undeclared: ClassVar[Format] = Format()
    """A format between declared ones."""
    heap_unit: ClassVar[int] = 4
    """Bytes of a heap to each word of its memory."""

    def read_parameters(self, line: Line, messages: Messages, /) -> Data | None:
        return read_data(line, messages)

    def prepare(self, text: GraphText) -> None:
        """Change the statements of a text whose subgraphs are in their places."""

    def known_formats(self, declared: Collection[int], count: int) -> frozenset[int]:
        """Return the formats that arcs may have, of `count`."""
        return frozenset(declared)

    def check_script(self, code: Code, messages: Messages) -> None:
        """Refuse an invalid script."""

    def default_segments(self, place: Place) -> list[MemorySpec]:
        """Return the memory segments of a node whose manifest has none."""
        return [MemorySpec(place)]

    def place_graph(self, plan: MemoryPlan, control: TextSection, offset: int, size: int) -> Address:
        """Place the words of the graph, `offset` bytes into its bank."""
        vid = control.whole("graph_memory_bank")
        if offset:
            plan.place("before the graph", vid, offset, control.place_of("graph_location_offset"))
        return plan.place("graph", vid, size, control.place_of("graph_memory_bank"))

    def shared_address(self, address: Address) -> Address:
        """Return the address of a script's memory that is shared, as the words have it."""
        return address

    def io(self, entry: IoEntry, number: int) -> IoEntry:
        """Return an IO as the words have it; `number` is that of its `stream_io`."""
        return entry

    def finish(self, graph: Graph, working: Sequence[Sequence[bool]]) -> Graph:
        """Return the graph as the words have it; `working` says of each node's segments whether they are."""
        return graph

    def lost_flags(self, node: Node, working: Sequence[int]) -> list[str]:
        """Return lines for flags of a node's working segments that the words do not have."""
        return []


OURS: Final = Dialect()
