"""The dialect of the public compiler of December 2024: its words to the bit, oddities included."""

# ruff: noqa: ARG002 - a dialect need not look at all that it is given

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from aisrv.addons.graph.binary.model import Format, Graph, Header, IoEntry, Node, Segment
from aisrv.addons.graph.compiler.dialect import Dialect
from aisrv.addons.graph.compiler.memory_plan import Address, MemoryPlan
from aisrv.addons.graph.errors import Messages, Place
from aisrv.addons.graph.platform.values import MemorySpec
from aisrv.addons.graph.script.assembler import Code
from aisrv.addons.graph.script.line import LineAssembler
from aisrv.addons.graph.script.public_line import PublicLine
from aisrv.addons.graph.text.grammar import SCRIPT_NODE_NAME, Section, node_name
from aisrv.addons.graph.text.sections import GraphText, Statement, TextSection
from aisrv.addons.graph.text.source import Data, Line, read_data

_FORMAT_TAGS: Final = ("format_frame_length", "format_raw_data")
_SCRIPT_OPTIONS: Final = ("script_register", "script_stack", "script_mem_shared", "script_mem_map")
_SET_THE_BANK: Final = (
    "arc_flow_error", "arc_debug_cmd", "arc_debug_reg", "arc_debug_page", "arc_flush", "arc_extend_address",
    "arc_map_hwblock",
)  # fmt: skip
_TOP_BITS: Final = 28


class PublicDialect(Dialect):
    """Each method is a difference."""

    line: ClassVar[type[LineAssembler]] = PublicLine
    undeclared: ClassVar[Format] = Format(other_channels=31)
    """Format with 0 channels, where the field holds them minus 1."""
    heap_unit: ClassVar[int] = 1

    def read_parameters(self, line: Line, messages: Messages, /) -> Data | None:
        """`0x…` is 0."""
        return read_data(line, messages, hex_is_zero=True)

    def prepare(self, text: GraphText) -> None:
        """A format keeps its frame length and raw type alone, an IO its first setting."""
        for section in text.formats.values():
            section.statements = {tag: section.every(tag) for tag in _FORMAT_TAGS if section.find(tag)}
        for section in text.ios.values():
            for given in section.statements.get("stream_io_setting", [])[-1:]:
                section.statements["stream_io_setting"] = [replace(given, values=given.values[:1])]
        _give_script_options_to_nodes(text)
        for each in text.order:
            if isinstance(each, TextSection) and each.kind is Section.ARC:
                _keep_the_bank_alone(each)

    def known_formats(self, declared: Collection[int], count: int) -> frozenset[int]:
        """An arc may have a format that is not declared."""
        return frozenset(range(count))

    def check_script(self, code: Code, messages: Messages) -> None:
        """The position of a node overwrites a word of the header or of an IO."""
        for reference in code.nodes:
            messages.error(
                reference.place,
                "the public compiler overwrites another word for the position of a node in a script",
            )

    def default_segments(self, place: Place) -> list[MemorySpec]:
        return []

    def place_graph(self, plan: MemoryPlan, control: TextSection, offset: int, size: int) -> Address:
        """The offset is added to the address, and takes no memory."""
        start = super().place_graph(plan, control, 0, size)
        return start._replace(byte=start.byte + offset)

    def shared_address(self, address: Address) -> Address:
        """Drop the address."""
        return Address(0, 0)

    def io(self, entry: IoEntry, number: int) -> IoEntry:
        """The arc is the number of the IO, and every domain is 0."""
        return replace(entry, domain=0, arc=number)

    def finish(self, graph: Graph, working: Sequence[Sequence[bool]]) -> Graph:
        """Word G4 has the upper bits of G3, too; working segments have the flags of others."""
        words = graph.header.words()
        header = Header.from_words((*words[:4], words[4] | words[3] & ~0xFF, *words[5:]))
        last, key = None, None
        for node, flags in zip(graph.nodes, working, strict=True):
            for segment, is_working in zip(node.segments, flags, strict=True):
                last = last if is_working else segment
        nodes = []
        for node, flags in zip(graph.nodes, working, strict=True):
            segments = tuple(
                _scratch(segment, last, key) if is_working else segment
                for segment, is_working in zip(node.segments, flags, strict=True)
            )
            nodes.append(replace(node, segments=segments))
            key = node.user_key[1] if node.user_key else key
        return replace(graph, header=header, nodes=tuple(nodes))

    def lost_flags(self, node: Node, working: Sequence[int]) -> list[str]:
        """The words lose the flags of a working segment, but not that there is one with flags."""
        has_flags = any(segment.clear or segment.swap for segment in node.segments)
        is_lost = node.segments[0].any_clear_or_swap and not has_flags
        return [f"node_memory_clear {number}" for number in working[:1]] if is_lost else []


PUBLIC: Final = PublicDialect()


def _give_script_options_to_nodes(text: GraphText) -> None:
    """Options of a script behind a script node are that node's, until another node opens."""
    node: TextSection | None = None
    for section in text.order:
        if not isinstance(section, TextSection):
            continue
        if section.kind is Section.NODE:
            is_script = node_name(str(section.opening.values[0])) == SCRIPT_NODE_NAME
            node = section if is_script else None
        elif section.kind is Section.SCRIPT and node is not None:
            for tag in _SCRIPT_OPTIONS:
                given = section.statements.pop(tag, [])
                if given:
                    node.statements.setdefault(tag, []).extend(given)


def _keep_the_bank_alone(arc: TextSection) -> None:
    """Each of some options of an arc sets its bank, the last counts, and they set nothing else."""
    given = [statement for tag in _SET_THE_BANK for statement in arc.statements.pop(tag, [])]
    if given:
        last = max(given, key=lambda statement: statement.place.line)
        arc.statements["arc_map_hwblock"] = [Statement("arc_map_hwblock", last.values, last.place)]


def _scratch(segment: Segment, last: Segment | None, key: int | None) -> Segment:
    """A working segment has the flags of the graph's last static one.

    `key` is the second word of a user key before it, whose top bits are then those of its address.
    """
    address = {"bank": segment.bank, "offset": segment.offset, "size": segment.size}
    if last is None:
        return Segment(**address)
    flags = replace(last, **address)
    if key is None:
        return flags
    words = flags.words()
    return Segment.from_words((words[0] & ~(15 << _TOP_BITS) | key >> _TOP_BITS << _TOP_BITS, words[1]))
