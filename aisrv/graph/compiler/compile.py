"""The compiler: a graph text and the manifests of a platform become the words of the binary.

`compat` gives the words of the public compiler of December 2024 to the bit, with what is odd about them.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aisrv.graph.binary.model import (
    IDLE,
    TRANSFER_RUNS,
    Arc,
    Format,
    Graph,
    Header,
    IoEntry,
    Node,
    NodeArc,
    NodeHead,
    ParameterHead,
    Script,
    ScriptArc,
    ScriptEntry,
    Segment,
)
from aisrv.graph.binary.tables import domain_code
from aisrv.graph.binary.words import parse_words, read_words, words_of
from aisrv.graph.compiler.compat import (
    bank_options_alone,
    give_script_options_to_nodes,
    refuse_graph_positions,
    scratch_of_the_public_compiler,
)
from aisrv.graph.compiler.formats import read_formats
from aisrv.graph.compiler.network import ArcUse, Network, NodeUse, build_network
from aisrv.graph.compiler.plan import Address, BankUse, Block, MemoryPlan, round4, split_banks
from aisrv.graph.errors import FieldError
from aisrv.graph.nodes.registry import STANDARD_NODES, can_run
from aisrv.graph.platform.manifests import SHIPPED_PLATFORM, Platform, read_platform
from aisrv.graph.platform.values import MemorySpec
from aisrv.graph.script.assembler import Code, assemble
from aisrv.graph.text.grammar import SCRIPT_NODE_NAME, Section, node_name
from aisrv.graph.text.messages import Messages
from aisrv.graph.text.parser import parse_file, parse_text
from aisrv.graph.text.source import Data
from aisrv.graph.text.subgraphs import expand
from aisrv.regular_file import read_regular

if TYPE_CHECKING:
    from pathlib import Path

    from aisrv.graph.binary.bitfields import WordRecord
    from aisrv.graph.errors import Message
    from aisrv.graph.text.sections import GraphText, TextSection

logger = logging.getLogger(__name__)

LARGEST_FILE: Final = 16 << 20
"""Bytes of words or of a text."""
MOST_FILL_WORDS: Final = 65536
DEBUG_COMMANDS: Final = frozenset({0, 1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13, 14, 15})
DEBUG_PAGE_WORDS: Final = 32
WORKING: Final = 1
"""The type of memory that nodes share."""
_LARGEST_BYTES: Final = 1 << 40
"""What a size is cut to before its bit-field refuses it."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled graph: its values, what it takes of the banks, and what the compiler warns of."""

    graph: Graph
    """The graph as a value."""
    network: Network
    """Its nodes and arcs."""
    platform: Platform
    """What it was compiled for."""
    memory: tuple[BankUse, ...]
    """What it takes of each bank."""
    blocks: tuple[Block, ...]
    """Its blocks of memory."""
    codes: dict[int, Code]
    """The code of each script by its arc."""
    warnings: tuple[Message, ...]
    """The warnings."""

    @property
    def words(self) -> list[int]:
        """The words of the graph, without the count that leads its text."""
        return words_of(self.graph)


def compile_file(
    path: Path, manifest: Path, *, compat: bool = False, first_grammar: bool = False
) -> Compiled:
    """Compile the text of a file for the platform of a top manifest; TextError with all errors.

    `first_grammar` reads numbers of raw types as in the grammar of June 2024.
    """
    messages = Messages()
    platform = read_platform(manifest, messages)
    text = parse_file(path, messages, compat=compat)
    return _compile(text, platform, messages, compat, first_grammar)


def compile_text(
    text: str, path: Path, platform: Platform, *, compat: bool = False, first_grammar: bool = False
) -> Compiled:
    """Compile a text as if it stood in the file `path`, for a platform that is read already.

    `first_grammar` reads numbers of raw types as in the grammar of June 2024.
    """
    messages = Messages()
    parsed = parse_text(text, path, messages, compat=compat)
    return _compile(parsed, platform, messages, compat, first_grammar)


def load_graph(path: Path, platform: Path | None = None) -> tuple[Graph, tuple[str, ...]]:
    """Read a graph; return it with the names of nodes by NODE_IDX. Raises GraphError, OSError.

    A text is compiled for `platform`, or for the one that is shipped.
    """
    text = read_regular(path, LARGEST_FILE).decode(errors="replace")
    if _is_words(text):
        return read_words(parse_words(text)), STANDARD_NODES
    compiled = compile_file(path, platform or SHIPPED_PLATFORM)
    for warning in compiled.warnings:
        logger.warning("%s", warning)
    names = compiled.platform.node_names
    return compiled.graph, tuple(names.get(number, f"node {number}") for number in range(max(names) + 1))


def _is_words(text: str) -> bool:
    """Whether a file holds words: its first line that is not a comment begins with `0x`."""
    for line in text.splitlines():
        code = line.partition("//")[0].strip()
        if code:
            return code[:2].lower() == "0x"
    return False


def _compile(
    text: GraphText, platform: Platform, messages: Messages, compat: bool, first_grammar: bool
) -> Compiled:
    text = expand(text, messages, compat=compat)
    if compat:
        give_script_options_to_nodes(text)
    banks = split_banks(platform.banks, text.graph, messages)
    formats = read_formats(text.formats, messages, compat=compat, first_grammar=first_grammar)
    network = build_network(text, platform, formats, messages, compat=compat)
    messages.check()
    compiler = _Compiler(text.graph, network, formats, MemoryPlan(banks, messages), messages, compat)
    graph = compiler.graph()
    messages.check()
    _warn_of_strangers(network, messages)
    return Compiled(
        graph,
        network,
        platform,
        tuple(compiler.plan.use()),
        tuple(compiler.plan.blocks),
        compiler.codes,
        tuple(messages.warnings),
    )


def _warn_of_strangers(network: Network, messages: Messages) -> None:
    """Name the nodes that compile and that no interpreter here runs, each kind once."""
    kinds = {use.manifest.name: use for use in reversed(network.nodes)}
    for name, use in reversed(kinds.items()):
        if not can_run(name):
            messages.warn(use.text.place, f"{name} cannot run here, unless a package brings it")


@dataclass(slots=True)
class _SegmentUse:
    """A memory segment of a node with its size and, when placed, its address."""

    spec: MemorySpec
    vid: int
    size: int
    clear: bool
    swap: int | None
    address: Address = field(default_factory=lambda: Address(0, 0))


class _Compiler:
    """Sizes first, then addresses, then words: nothing of the words depends on what comes later."""

    def __init__(
        self,
        control: TextSection,
        network: Network,
        formats: tuple[Format, ...],
        plan: MemoryPlan,
        messages: Messages,
        compat: bool,
    ) -> None:
        self.control = control
        self.network = network
        self.formats = formats
        self.plan = plan
        self.messages = messages
        self.compat = compat
        self.codes: dict[int, Code] = {}
        self.segments: list[list[_SegmentUse]] = []

    def graph(self) -> Graph:
        """Compile the network."""
        network = self.network
        for index, arc in enumerate(network.arcs):
            if arc.code is not None:
                self.codes[index] = assemble(
                    arc.code.blocks, arc.text.place, self.messages, compat=self.compat
                )
                if self.compat and arc.text.kind is Section.SCRIPT:
                    refuse_graph_positions(self.codes[index], self.messages)
        self.segments = [self._segments(node) for node in network.nodes]
        fill = self._fill()
        debug_words = DEBUG_PAGE_WORDS * self._debug_pages()
        # The sizes do not depend on addresses: nodes are built twice, the first time to count their words.
        self.messages.check()
        counted = [self._node(index) for index in range(len(network.nodes))]
        self._resolve_nodes(counted)
        script_words = len(network.scripts) + sum(
            len(self.codes[network.script_arcs[number]].all_words()) for number in range(len(network.scripts))
        )
        ram = (len(network.ios) + 3) // 4 + debug_words + 4 * len(self.formats)
        ram += 6 * len(network.arcs) + len(fill)
        list_words = sum(node.word_count for node in counted) + 1
        flash = 7 + 4 * len(network.ios) + script_words + list_words
        location = self.control.whole("graph_location")
        start = self._place_all(4 * (ram if location == 1 else flash + ram))
        nodes = tuple(self._node(index) for index in range(len(network.nodes)))
        header = self._header(location, start, script_words, debug_words, list_words)
        return Graph(
            header=header,
            ios=self._ios(),
            scripts=self._scripts(),
            nodes=nodes,
            ongoing=bytes([IDLE] * len(network.ios) + [TRANSFER_RUNS] * (-len(network.ios) % 4)),
            arc_debug=(0,) * debug_words,
            formats=self.formats,
            arcs=tuple(self._arcs),
            fill=fill,
        )

    def _header(
        self, location: int, start: Address, script_words: int, debug_words: int, list_words: int
    ) -> Header:
        control = self.control
        fill = self.plan.fill()
        header = Header(
            location=2 if location == 3 else location,
            destination=start.offset_id << 22 | start.byte,
            script_words=script_words,
            ios=len(self.network.ios),
            formats=len(self.formats),
            arc_debug_words=debug_words,
            node_words=list_words,
            debug_script_fields=control.whole("debug_script_fields"),
            scheduler_return=control.whole("scheduler_return"),
            arcs=len(self.network.arcs),
            allowed_processors=control.whole("allowed_processors", 1),
            fill_low=int.from_bytes(fill[:4], "little"),
            fill_high=int.from_bytes(fill[4:], "little"),
        )
        if not 0 <= control.whole("scheduler_return", 1) <= 3:
            self.messages.error(control.place_of("scheduler_return"), "scheduler_return is 1, 2 or 3")
        if not 0 <= location <= 3:
            self.messages.error(control.place_of("graph_location"), "graph_location is 0 to 3")
        if not self._fits(header, control, _HEADER_TAGS) or not self.compat:
            return header
        words = header.words()
        return Header.from_words((*words[:4], words[4] | words[3] & ~0xFF, *words[5:]))

    def _fill(self) -> tuple[int, ...]:
        words: list[int] = []
        for statement in self.control.every("mem_fill_pattern"):
            count, pattern = int(statement.values[0]), int(statement.values[1])
            if not 0 <= count <= MOST_FILL_WORDS - len(words):
                self.messages.error(
                    statement.place, f"a graph has 0 to {MOST_FILL_WORDS} words of fill pattern"
                )
            elif pattern > 0xFFFFFFFF:
                self.messages.error(statement.place, f"{pattern:#x} is not a 32-bit word")
            else:
                words += [pattern] * count
        return tuple(words)

    def _debug_pages(self) -> int:
        """How many pages of debug registers the arcs use."""
        pages = 0
        for arc in self.network.arcs:
            text = bank_options_alone(arc.text) if self.compat else arc.text
            if text.find("arc_parameters"):
                self.messages.error(text.place_of("arc_parameters"), "parameters as arcs are not supported")
            command = text.whole("arc_debug_cmd")
            if command not in DEBUG_COMMANDS:
                self.messages.error(
                    text.place_of("arc_debug_cmd"), f"there is no arc debug command {command}"
                )
            register, page = text.whole("arc_debug_reg"), text.whole("arc_debug_page")
            if not 0 <= register < 16 or not 0 <= page < 4:
                self.messages.error(text.place, "an arc has debug register 0 to 15 of page 0 to 3")
            elif command or page:
                pages = max(pages, page + 1)
        return pages

    def _segments(self, node: NodeUse) -> list[_SegmentUse]:
        text = node.text
        specs = node.manifest.segments or ([] if self.compat else [MemorySpec(node.manifest.place)])
        uses = [_SegmentUse(spec, text.default_bank, self._size(node, spec), False, None) for spec in specs]
        tags = ("node_malloc_add", "node_map_hwblock", "node_map_swap", "node_memory_clear")
        for tag in tags:
            for statement in text.every(tag):
                numbers = [int(value) for value in statement.values]
                index = numbers[1] if tag == "node_malloc_add" else numbers[0]
                if not 0 <= index < len(uses):
                    last = len(uses) - 1
                    self.messages.error(
                        statement.place, f"{node.manifest.name} has memory segments 0 to {last}, not {index}"
                    )
                elif tag == "node_malloc_add":
                    if numbers[0] < 0:
                        self.messages.error(statement.place, "memory cannot be taken away")
                    uses[index].size += min(max(numbers[0], 0), _LARGEST_BYTES)
                elif tag == "node_map_hwblock":
                    uses[index].vid = numbers[1]
                elif tag == "node_map_swap":
                    uses[index].swap = numbers[1]
                else:
                    uses[index].clear = True
        return uses

    def _size(self, node: NodeUse, spec: MemorySpec) -> int:
        formats = {
            number: self.formats[connection.format]
            for number, connection in node.arcs.items()
            if connection.format < len(self.formats)
        }
        return segment_size(spec, formats)

    def _place_all(self, graph_bytes: int) -> Address:
        """Place the graph, arcs, segments, then what is shared; the address of the graph."""
        control, plan = self.control, self.plan
        vid = control.whole("graph_memory_bank")
        offset = control.whole("graph_location_offset")
        if not 0 <= offset < 1 << 22:
            self.messages.error(control.place_of("graph_location_offset"), "the offset is 0 to 4194303 bytes")
            offset = 0
        if offset and not self.compat:
            plan.place("before the graph", vid, offset, control.place_of("graph_location_offset"))
        start = plan.place("graph", vid, graph_bytes, control.place_of("graph_memory_bank"))
        if self.compat:
            start = start._replace(byte=start.byte + offset)
        self._arcs: list[Arc | ScriptArc] = []
        shared: list[int] = []
        for index, arc in enumerate(self.network.arcs):
            if arc.code is not None:
                if arc.code.whole("script_mem_shared"):
                    shared.append(index)
                    self._arcs.append(ScriptArc())
                else:
                    self._arcs.append(self._script_arc(index, arc))
            else:
                self._arcs.append(self._arc(index, arc))
        for node, uses in zip(self.network.nodes, self.segments, strict=True):
            self._place_segments(node, uses, is_working=False)
        for index in shared:
            self._arcs[index] = self._script_arc(index, self.network.arcs[index], is_shared=True)
        for node, uses in zip(self.network.nodes, self.segments, strict=True):
            self._place_segments(node, uses, is_working=True)
        return start

    def _place_segments(self, node: NodeUse, uses: list[_SegmentUse], *, is_working: bool) -> None:
        for index, use in enumerate(uses):
            if (use.spec.type == WORKING) != is_working:
                continue
            what = f"{node.name} segment {index}"
            place = node.text.place
            put = self.plan.overlay if is_working else self.plan.place
            use.address = put(what, use.vid, use.size, place, use.spec.alignment)
            if use.swap is not None and is_working:
                self.plan.overlay(f"{what} swapped", use.swap, use.size, place)

    def _script_arc(self, index: int, use: ArcUse, *, is_shared: bool = False) -> ScriptArc:
        text = use.text
        code = self.codes[index]
        # A script node that does not say how many registers it has counts six, r12 not among them.
        is_bare = text.opening.tag == "node" and text.find("script_register") is None
        registers = 6 if is_bare else text.whole("script_register", 6) + 1
        stack = text.whole("script_stack", 6)
        if not 0 <= registers < 16 or not 0 <= stack < 128:
            self.messages.error(text.place, "a script has 0 to 12 registers and 0 to 127 places of stack")
            registers, stack = 6, 6
        heap = code.heap_bytes if self.compat else (code.heap_bytes + 3) // 4
        words = 2 * registers + 2 * stack + heap
        put = self.plan.overlay if is_shared else self.plan.place
        address = put(
            f"memory of {use.producer}",
            text.whole("script_mem_map", text.default_bank),
            4 * words,
            text.place,
        )
        if is_shared and self.compat:
            address = Address(0, 0)
        arc = ScriptArc(
            bank=address.offset_id,
            offset=address.byte,
            code_words=len(code.all_words()),
            size=4 * words,
            buffer_words=words,
            registers=registers,
            stack=stack,
        )
        self._fits(arc, text, {})
        return arc

    def _arc(self, index: int, use: ArcUse) -> Arc:
        text = use.text
        producer, consumer = (
            self.formats[number].frame_bytes for number in (use.producer_format, use.consumer_format)
        )
        jitter = text.real("arc_jitter_ctrl", 1.0)
        if jitter < 1:
            self.messages.error(
                text.place_of("arc_jitter_ctrl"), f"arc_jitter_ctrl is 1 or more, not {jitter:g}"
            )
        size = _rounded(jitter * max(producer, consumer))
        is_set = use.io is not None and not use.io.copy
        what = f"arc {index}, {use.producer} to {use.consumer}"
        if self.compat:
            text = bank_options_alone(text)
        bank = text.whole("arc_map_hwblock", text.default_bank)
        address = self.plan.place(what, bank, 0 if is_set else size, text.place_of("arc_map_hwblock"))
        if not is_set:
            self._warn_of_dead_lock(index, use, size, producer, consumer)
        arc = Arc(
            bank=address.offset_id,
            offset=address.byte,
            size=size,
            extension=text.whole("arc_extend_address"),
            flush=text.whole("arc_flush"),
            flow_error=text.whole("arc_flow_error"),
            debug_command=text.whole("arc_debug_cmd"),
            debug_register=text.whole("arc_debug_reg"),
            consumer_format=use.consumer_format,
            producer_format=use.producer_format,
        )
        self._fits(arc, text, _ARC_TAGS)
        return arc

    def _warn_of_dead_lock(self, index: int, use: ArcUse, size: int, producer: int, consumer: int) -> None:
        if not producer or not consumer:
            return
        needed = producer + consumer - math.gcd(producer, consumer)
        if size < needed:
            factor = math.ceil(1000 * needed / max(producer, consumer)) / 1000
            self.messages.warn(
                use.text.place,
                f"arc {index} can come to a dead-lock: frames of {producer} and {consumer} bytes need a"
                f" buffer of {needed}, not {size}; arc_jitter_ctrl {factor:g} is enough",
            )

    def _ios(self) -> tuple[IoEntry, ...]:
        entries = []
        for index, io in enumerate(self.network.ios):
            statement = io.text.find("stream_io_setting")
            settings = [int(value) & 0xFFFFFFFF for value in statement.values] if statement else []
            settings = settings[:1] if self.compat else settings
            settings += [0] * (3 - len(settings))
            entry = IoEntry(
                hwid=io.hwid,
                domain=0 if self.compat else domain_code(io.manifest.domain),
                copy=io.copy,
                servant=io.manifest.servant,
                tx=io.manifest.tx,
                arc=io.number if self.compat else index,
                setting1=settings[0],
                setting2=settings[1],
                setting3=settings[2],
            )
            self._fits(entry, io.text, {"hwid": "stream_io_hwid"})
            entries.append(entry)
        return tuple(entries)

    def _scripts(self) -> tuple[Script, ...]:
        scripts = []
        offset = len(self.network.scripts)
        for number, text in enumerate(self.network.scripts):
            arc = self.network.script_arcs[number]
            code = self.codes[arc]
            words = tuple(code.all_words())
            shared = int(text.whole("script_mem_shared") > 0)
            entry = ScriptEntry(arc=arc, format=code.format, shared=shared, offset=offset)
            self._fits(entry, text, {})
            scripts.append(Script(entry, words))
            offset += len(words)
        return tuple(scripts)

    def _node(self, index: int) -> Node:
        node = self.network.nodes[index]
        text = node.text
        head = NodeHead(
            priority=text.whole("node_map_rtos"),
            processor=text.whole("node_map_proc"),
            architecture=text.whole("node_map_arch"),
            script=text.whole("node_script"),
            arcs=node.arcs_in + node.arcs_out,
            node_idx=node.manifest.index,
        )
        key = text.find("node_user_key")
        tag, parameters = self._parameters(node)
        control = ParameterHead(
            tag=tag,
            preset=text.whole("node_preset"),
            trace_id=text.whole("node_trace_id"),
            length=len(parameters) + 1,
        )
        if not 0 <= head.script < max(len(self.network.scripts), 1):
            self.messages.error(text.place_of("node_script"), f"script {head.script} is not declared")
        self._fits(head, text, _NODE_TAGS)
        self._fits(control, text, _NODE_TAGS)
        return Node(
            head,
            tuple(self._node_arc(node, number, key is not None) for number in range(head.arcs)),
            tuple(self._segment(index, number) for number in range(len(self.segments[index]))),
            (int(key.values[0]) & 0xFFFFFFFF, int(key.values[1]) & 0xFFFFFFFF) if key else None,
            control,
            tuple(parameters),
        )

    def _node_arc(self, node: NodeUse, number: int, has_key: bool) -> NodeArc:
        arc = node.arcs[number].arc
        is_script = node.manifest.name == SCRIPT_NODE_NAME
        # The arc of a script node is its memory: the words have it as an input.
        tx = 0 if is_script else int(node.manifest.is_tx(number, node.arcs_in))
        page = 0 if self.compat else self.network.arcs[arc].text.whole("arc_debug_page")
        return NodeArc(key=int(has_key and number == 0), debug_page=page, tx=tx, arc=arc)

    def _segment(self, index: int, number: int) -> Segment:
        uses = self.segments[index]
        use = uses[number]
        segment = Segment(
            others=len(uses) - 1,
            bank=use.address.offset_id,
            offset=use.address.byte,
            any_clear_or_swap=int(any(each.clear or each.swap is not None for each in uses)),
            clear=int(use.clear),
            swap=int(use.swap is not None),
            size=use.size,
        )
        if self.compat and use.spec.type == WORKING:
            segment = scratch_of_the_public_compiler(segment, self._last_static(), self._key_before(index))
        self._fits(segment, self.network.nodes[index].text, {"size": "node_malloc_add"})
        return segment

    def _last_static(self) -> Segment | None:
        """The graph's last static segment."""
        for index, uses in reversed(list(enumerate(self.segments))):
            for number, use in reversed(list(enumerate(uses))):
                if use.spec.type != WORKING:
                    return self._segment(index, number)
        return None

    def _key_before(self, index: int) -> int | None:
        """The second word of the nearest user key before a node."""
        for node in reversed(self.network.nodes[:index]):
            key = node.text.find("node_user_key")
            if key is not None:
                return int(key.values[1]) & 0xFFFFFFFF
        return None

    def _parameters(self, node: NodeUse) -> tuple[int, list[int]]:
        """The tag and the words of a node's parameters; for a script node, its code."""
        blocks = node.text.blocks
        if node.manifest.name == SCRIPT_NODE_NAME:
            block = blocks.get("script_parameters")
            return block.tag if block else 0, self.codes[node.arcs[0].arc].all_words()
        block = blocks.get("node_parameters")
        if block is None:
            return 0, []
        items = [item for item in block.items if isinstance(item, Data)]
        tag = block.tag
        if not block.opening.values and items and len(items[0].value) == 1:
            tag = items.pop(0).value[0]
        value = b"".join(item.value for item in items)
        value += bytes(-len(value) % 4)
        return tag, [int.from_bytes(value[at : at + 4], "little") for at in range(0, len(value), 4)]

    def _resolve_nodes(self, nodes: list[Node]) -> None:
        """Write the positions of nodes where scripts ask for them."""
        scripts = sum(
            1 + len(self.codes[self.network.script_arcs[number]].all_words())
            for number in range(len(self.network.scripts))
        )
        position = 7 + 4 * len(self.network.ios) + scripts
        positions = {}
        for use, node in zip(self.network.nodes, nodes, strict=True):
            positions[use.name] = position
            position += node.word_count
        for arc, code in self.codes.items():
            for reference in code.nodes:
                name = _first_name(reference.name)
                inner = self.network.arcs[arc].text.prefix + name
                name = inner if inner in positions else name
                if name in positions:
                    code.words[reference.at] = positions[name]
                else:
                    self.messages.error(reference.place, f"the graph has no node {reference.name!r}")

    def _fits(self, record: WordRecord, text: TextSection, tags: dict[str, str]) -> bool:
        """Whether all fields of a record hold their values; else an error at the tag that gives the value."""
        try:
            record.words()
        except FieldError as error:
            tag = tags.get(error.field.partition(".")[2], "")
            self.messages.error(text.place_of(tag), f"{tag}: {error}" if tag else str(error))
            return False
        return True


def segment_size(spec: MemorySpec, formats: dict[int, Format]) -> int:
    """Bytes of a memory segment, for the formats of the node's arcs."""
    size = spec.alloc
    for (factor, number), name in (
        (spec.channels, "channels"),
        (spec.sampling_rate, "sampling_rate"),
        (spec.frame_size, "frame_bytes"),
    ):
        if factor and number in formats:
            size += _rounded(factor * getattr(formats[number], name))
    return round4(size)


def _first_name(name: str) -> str:
    """The name of a node and its instance, with a name of the first grammar replaced."""
    stem, _, instance = name.rpartition("_")
    return f"{node_name(stem)}_{instance}" if instance.isdigit() else node_name(name) + "_0"


def _rounded(size: float) -> int:
    """A size to the nearest byte; one far above any bit-field is cut."""
    return math.floor(0.5 + size) if size < _LARGEST_BYTES else _LARGEST_BYTES


_HEADER_TAGS: Final = {
    "debug_script_fields": "debug_script_fields",
    "scheduler_return": "scheduler_return",
    "allowed_processors": "allowed_processors",
}
_ARC_TAGS: Final = {
    "flow_error": "arc_flow_error",
    "flush": "arc_flush",
    "extension": "arc_extend_address",
    "size": "arc_jitter_ctrl",
}
_NODE_TAGS: Final = {
    "priority": "node_map_rtos",
    "processor": "node_map_proc",
    "architecture": "node_map_arch",
    "script": "node_script",
    "preset": "node_preset",
    "trace_id": "node_trace_id",
    "tag": "node_parameters",
    "length": "node_parameters",
}
