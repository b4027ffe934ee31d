"""The decompiler: from the words of a graph and its platform to a text that compiles to the same words."""

from collections import defaultdict

from aisrv.addons.graph.binary.model import Arc, Format, Graph, IoEntry, Node, ScriptArc, Segment
from aisrv.addons.graph.binary.tables import RAW_TYPES
from aisrv.addons.graph.compiler.arc_records import ARC
from aisrv.addons.graph.compiler.dialect import OURS, Dialect
from aisrv.addons.graph.compiler.memory_plan import round4
from aisrv.addons.graph.compiler.node_records import CONTROL, HEAD
from aisrv.addons.graph.compiler.segments import WORKING, segment_size
from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.platform.manifests import Platform
from aisrv.addons.graph.platform.values import Bank, NodeManifest
from aisrv.addons.graph.script.disassembler import disassemble


class DecompileError(GraphError):
    """Words that no text gives, or that are of another platform."""


def decompile(graph: Graph, platform: Platform, dialect: Dialect = OURS) -> str:
    """Return the text of a graph in a compiler's `dialect`. Raises DecompileError."""
    return "\n".join(_Decompiler(graph, platform, dialect).lines()) + "\n"


class _Banks:
    """Finds the VID of each block: the bank whose next free byte is the block's address."""

    def __init__(self, banks: list[Bank]) -> None:
        self.banks = banks
        self.static: dict[int, int] = defaultdict(int)

    def take(self, offset_id: int, offset: int, size: int, alignment: int = 4) -> int:
        """Return the VID of a static block, whose bytes are taken."""
        vid = self.find(offset_id, offset, alignment)
        self.static[vid] = offset + round4(size)
        return vid

    def find(self, offset_id: int, offset: int, alignment: int = 4) -> int:
        """Return the VID of a block at an address."""
        for bank in self.banks:
            free = -(-self.static[bank.vid] // alignment) * alignment
            if bank.offset_id == offset_id and free == offset:
                return bank.vid
        raise DecompileError(f"no memory bank of the platform has a block at {offset_id}:{offset:#x}")


class _Decompiler:
    def __init__(self, graph: Graph, platform: Platform, dialect: Dialect) -> None:
        self.graph = graph
        self.platform = platform
        self.dialect = dialect
        self.banks = _Banks(platform.banks)
        self.manifests = [self._manifest(node) for node in graph.nodes]
        counts: dict[str, int] = defaultdict(int)
        self.names: list[tuple[str, int]] = []
        for manifest in self.manifests:
            self.names.append((manifest.name, counts[manifest.name]))
            counts[manifest.name] += 1
        self.ends: dict[tuple[int, bool], tuple[int, int]] = {}
        for index, node in enumerate(graph.nodes):
            for number, half in enumerate(node.arcs):
                self.ends[half.arc, bool(half.tx)] = (index, number)
        self.pages = {half.arc: half.debug_page for node in graph.nodes for half in node.arcs}

    def lines(self) -> list[str]:
        graph = self.graph
        lines = self._control()
        for index, form in enumerate(graph.formats):
            lines += self._format(index, form)
        for index, io in enumerate(graph.ios):
            if io.arc != index:
                raise DecompileError(f"IO {index} has arc {io.arc}: texts number the arcs of IOs first")
            lines += self._io(index, io)
        self._find_banks()
        scripts = {script.entry.arc: index for index, script in enumerate(graph.scripts)}
        script_nodes = {node.arcs[0].arc: index for index, node in enumerate(graph.nodes) if node.is_script}
        written = 0
        connections: list[str] = []
        for index, io in enumerate(graph.ios):
            connections += self._io_arc(index, io)
        for number in range(len(graph.ios), len(graph.arcs)):
            if number in script_nodes:
                if script_nodes[number] < written:
                    raise DecompileError(f"arc {number} comes behind the node that has it")
                while written <= script_nodes[number]:
                    lines += self._node(written)
                    written += 1
            elif number in scripts:
                lines += self._script(scripts[number])
            else:
                lines += self._all_nodes(written)
                written = len(graph.nodes)
                lines += self._arc(number)
        return [*lines, *self._all_nodes(written), *connections, "end"]

    def _all_nodes(self, written: int) -> list[str]:
        return [line for index in range(written, len(self.graph.nodes)) for line in self._node(index)]

    def _manifest(self, node: Node) -> NodeManifest:
        name = self.platform.node_names.get(node.head.node_idx)
        if name is None:
            raise DecompileError(f"the platform has no node {node.head.node_idx}")
        manifest = self.platform.nodes[name]
        if node.is_script and not node.arcs:
            raise DecompileError("a script node has no arc for its memory")
        if len(node.segments) != max(len(manifest.segments), 1):
            raise DecompileError(
                f"{name} has {len(manifest.segments)} memory segments, not {len(node.segments)}"
            )
        return manifest

    def _control(self) -> list[str]:
        header = self.graph.header
        values = [
            ("graph_location", header.location, 0),
            ("graph_location_offset", header.destination & 0x3FFFFF, 0),
            ("debug_script_fields", header.debug_script_fields, 0),
            ("scheduler_return", header.scheduler_return, 0),
            ("allowed_processors", header.allowed_processors, 1),
        ]
        lines = [f"{tag} {value}" for tag, value, default in values if value != default]
        vid = next(
            (bank.vid for bank in self.platform.banks if bank.offset_id == header.destination >> 22), 0
        )
        lines += [f"graph_memory_bank {vid}"] if vid else []
        count = 0
        for index, word in enumerate(self.graph.fill):
            count += 1
            if index + 1 == len(self.graph.fill) or self.graph.fill[index + 1] != word:
                lines.append(f"mem_fill_pattern {count} h{word:08X}")
                count = 0
        graph_bytes = self.graph.loaded_bytes
        self.banks.static[vid] = round4(header.destination & 0x3FFFFF) + graph_bytes
        return lines

    def _format(self, index: int, form: Format) -> list[str]:
        if not any(form.words()):
            return []
        lines = [f"format_index {index}", f"format_frame_length {form.frame_bytes}"]
        if form.raw >= len(RAW_TYPES):
            raise DecompileError(f"format {index} has raw type {form.raw}")
        values = [
            ("raw_data", form.raw, 17),
            ("nbchan", form.channels, 1),
            ("interleaving", form.deinterleaved, 0),
            ("time_stamp", form.time_stamp, 0),
            ("domain", form.domain, 0),
            ("sdomain", form.subtype, 0),
        ]
        lines += [f"format_{tag} {value}" for tag, value, default in values if value != default]
        if form.rate_bits:
            lines.append(f"format_sampling_rate {form.sampling_rate!r}")
        if form.mapping:
            lines += self._mapping(form)
        return lines

    def _mapping(self, form: Format) -> list[str]:
        if form.domain not in (6, 7):
            return [f"format_audio_mapping {form.mapping}"]
        small, ratio = form.mapping & 0xFFF, form.mapping >> 12 & 7
        factors = {1: (1, 1), 2: (4, 3), 3: (16, 9), 4: (3, 2)}
        if ratio not in factors:
            raise DecompileError("an image without a ratio has no text")
        over, under = factors[ratio]
        large = small * over // under
        height, width = (large, small) if form.mapping >> 15 & 1 else (small, large)
        border = form.mapping >> 16 & 3
        return [f"format_2d_height {height}", f"format_2d_width {width}", f"format_2d_border {border}"]

    def _io(self, index: int, io: IoEntry) -> list[str]:
        lines = [f"stream_io {index}", f"stream_io_hwid {io.hwid}"]
        if io.setting1 or io.setting2 or io.setting3:
            lines.append(f"stream_io_setting {io.setting1} {io.setting2} {io.setting3}")
        return lines

    def _find_banks(self) -> None:
        """Follow the order of the memory plan, so that each block's bank is known."""
        graph = self.graph
        shared = {script.entry.arc for script in graph.scripts if script.entry.shared}
        sets = {io.arc for io in graph.ios if not io.copy}
        self.arc_banks: dict[int, int] = {}
        self.segment_banks: dict[tuple[int, int], int] = {}
        for number, arc in enumerate(graph.arcs):
            if number not in shared:
                size = 0 if number in sets else arc.size
                self.arc_banks[number] = self.banks.take(arc.bank, arc.offset, size)
        for is_working in (False, True):
            for index, node in enumerate(graph.nodes):
                for number, segment in enumerate(node.segments):
                    if self._is_working(index, number) == is_working:
                        self._segment_bank(index, number, segment, is_working)
        for number in shared:
            self.arc_banks[number] = self.banks.find(graph.arcs[number].bank, graph.arcs[number].offset)

    def _segment_bank(self, index: int, number: int, segment: Segment, is_working: bool) -> None:
        specs = self.manifests[index].segments
        alignment = specs[number].alignment if specs else 4
        if is_working:
            vid = self.banks.find(segment.bank, segment.offset, alignment)
        else:
            vid = self.banks.take(segment.bank, segment.offset, segment.size, alignment)
        self.segment_banks[index, number] = vid

    def _is_working(self, index: int, number: int) -> bool:
        specs = self.manifests[index].segments
        return bool(specs) and specs[number].type == WORKING

    def _node(self, index: int) -> list[str]:
        node = self.graph.nodes[index]
        name, instance = self.names[index]
        manifest = self.manifests[index]
        control = node.control
        lines = [f"node {name} {instance}"]
        arcs_in = sum(not arc.tx for arc in node.arcs)
        if not node.is_script and (arcs_in, len(node.arcs) - arcs_in) != (
            manifest.arcs_in,
            manifest.arcs_out,
        ):
            lines.append(f"node_nb_arcs {arcs_in} {len(node.arcs) - arcs_in}")
        values = [(tag, getattr(control, name)) for name, tag in CONTROL.items()]
        values += [(tag, getattr(node.head, name)) for name, tag in HEAD.items()]
        lines += [f"{tag} {value}" for tag, value in values if value]
        for number, segment in enumerate(node.segments):
            lines += self._segment(index, number, segment)
        working = [each for each in range(len(node.segments)) if self._is_working(index, each)]
        lines += self.dialect.lost_flags(node, working)
        if node.user_key:
            lines.append(f"node_user_key {node.user_key[0]} {node.user_key[1]}")
        if node.is_script:
            arc = self.graph.arcs[node.arcs[0].arc]
            lines += self._code(node.arcs[0].arc, arc, node.parameters, control.tag, is_node=True)
        elif node.parameters or control.tag:
            lines.append(f"node_parameters {control.tag}")
            lines += [f"1 h32; {word:08X}" for word in node.parameters]
            lines.append("end")
        return [*lines, "end"]

    def _segment(self, index: int, number: int, segment: Segment) -> list[str]:
        lines = []
        vid = self.segment_banks[index, number]
        if vid:
            lines.append(f"node_map_hwblock {number} {vid}")
        added = segment.size - self._base_size(index, number)
        if added < 0:
            raise DecompileError(f"segment {number} of node {index} is smaller than its manifest says")
        if added:
            lines.append(f"node_malloc_add {added} {number}")
        if segment.clear:
            lines.append(f"node_memory_clear {number}")
        if segment.swap:
            lines.append(f"node_map_swap {number} {vid}")
        return lines

    def _base_size(self, index: int, number: int) -> int:
        specs = self.manifests[index].segments
        if not specs:
            return 0
        node = self.graph.nodes[index]
        formats = {}
        for place, half in enumerate(node.arcs):
            arc = self.graph.arcs[half.arc]
            if isinstance(arc, Arc):
                formats[place] = self.graph.formats[arc.producer_format if half.tx else arc.consumer_format]
        return segment_size(specs[number], formats)

    def _script(self, index: int) -> list[str]:
        script = self.graph.scripts[index]
        arc = self.graph.arcs[script.entry.arc]
        lines = [f"script {index}"]
        if script.entry.shared:
            lines.append("script_mem_shared 1")
        if script.entry.format:
            lines += [
                "script_code",
                *(f"2 h16; {word & 0xFFFF:04X} {word >> 16:04X}" for word in script.code),
            ]
            return [*lines, *self._memory(script.entry.arc, arc, is_node=False), "end"]
        return [*lines, *self._code(script.entry.arc, arc, script.code, 0, is_node=False), "end"]

    def _memory(self, number: int, arc: Arc | ScriptArc, *, is_node: bool) -> list[str]:
        if not isinstance(arc, ScriptArc):
            raise DecompileError(f"arc {number} is not the memory of a script")
        # Values that a text need not say are left out: the public compiler gives those of a script to a node.
        lines = []
        if arc.registers != (6 if is_node else 7):
            lines.append(f"script_register {arc.registers - 1}")
        if arc.stack != 6:
            lines.append(f"script_stack {arc.stack}")
        vid = self.arc_banks[number]
        return [*lines, f"script_mem_map {vid}"] if vid else lines

    def _code(
        self, number: int, arc: Arc | ScriptArc, words: tuple[int, ...], tag: int, *, is_node: bool
    ) -> list[str]:
        lines = self._memory(number, arc, is_node=is_node)
        if not isinstance(arc, ScriptArc):
            raise DecompileError(f"arc {number} is not the memory of a script")
        heap = arc.buffer_words - 2 * arc.registers - 2 * arc.stack
        if heap < 0:
            raise DecompileError(f"the memory of arc {number} is too small for its registers and stack")
        nodes = {
            position: f"{name}_{instance}"
            for position, (name, instance) in zip(self.graph.node_positions(), self.names, strict=True)
        }
        text = disassemble(
            words, heap_bytes=self.dialect.heap_unit * heap, nodes=nodes, line=self.dialect.line
        )
        code = text.lines(tag)
        if tag and not text.parameters:
            code.append(f"script_parameters {tag}")
        return [*lines, *code, "end"]

    def _io_arc(self, index: int, io: IoEntry) -> list[str]:
        arc = self.graph.arcs[io.arc]
        end = self.ends.get((io.arc, bool(io.tx)))
        if end is None or not isinstance(arc, Arc):
            raise DecompileError(f"IO {index} is not connected")
        name, instance = self.names[end[0]]
        io_format, node_format = arc.producer_format, arc.consumer_format
        if io.tx:
            io_format, node_format = node_format, io_format
        tag = "arc_output" if io.tx else "arc_input"
        line = f"{tag} {index} {io.copy} {io_format} {name} {instance} {end[1]} {node_format}"
        return [line, *self._options(io.arc, arc)]

    def _arc(self, number: int) -> list[str]:
        arc = self.graph.arcs[number]
        producer, consumer = self.ends.get((number, True)), self.ends.get((number, False))
        if producer is None or consumer is None or not isinstance(arc, Arc):
            raise DecompileError(f"arc {number} does not join two nodes")
        ends = [
            f"{self.names[index][0]} {self.names[index][1]} {place} {form}"
            for (index, place), form in ((producer, arc.producer_format), (consumer, arc.consumer_format))
        ]
        return [f"arc {' '.join(ends)}", *self._options(number, arc)]

    def _options(self, number: int, arc: Arc) -> list[str]:
        values = [(tag, getattr(arc, name)) for name, tag in ARC.items()]
        values += [("arc_debug_page", self.pages.get(number, 0)), ("arc_map_hwblock", self.arc_banks[number])]
        lines = [f"{tag} {value}" for tag, value in values if value]
        formats = self.graph.formats
        frame = max(formats[arc.producer_format].frame_bytes, formats[arc.consumer_format].frame_bytes)
        if arc.size != frame and frame:
            lines.append(f"arc_jitter_ctrl {arc.size / frame!r}")
        return lines
