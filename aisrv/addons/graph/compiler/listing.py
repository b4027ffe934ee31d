"""The listing of a compiled graph, each word with its place and meaning; and the memory report."""

from collections.abc import Mapping

from aisrv.addons.graph.binary.model import Arc, Format, Graph, Node, ScriptArc
from aisrv.addons.graph.binary.tables import RAW_TYPES
from aisrv.addons.graph.binary.words import words_of
from aisrv.addons.graph.compiler.memory_plan import BankUse
from aisrv.addons.graph.script.disassembler import disassemble


def words_text(graph: Graph, names: Mapping[int, str] | None = None) -> str:
    """Return the words of a graph as text, with comments; `names` are those of nodes by NODE_IDX."""
    words = words_of(graph)
    notes = _notes(graph, names or {})
    flash = graph.ram_word
    lines = [f"0x{len(words):08X}, // words that follow: {flash} + {len(words) - flash} of the RAM part"]
    for index, word in enumerate(words):
        place = f"{4 * index:03X} {index:03X}"
        if index >= flash:
            place += f" {4 * (index - flash):03X} {index - flash:03X}"
        lines.append(f"0x{word:08X}, // {place} {notes.get(index, '')}".rstrip())
    return "\n".join(lines) + "\n"


def memory_text(memory: tuple[BankUse, ...]) -> str:
    """Return the use of each bank, as comment lines."""
    lines = ["// VID       size     static    working       free"]
    lines += [
        f"// {use.bank.vid:3d} {use.bank.size:10d} {use.static:10d} {use.working:10d} {use.free:10d}"
        for use in memory
    ]
    return "\n".join(lines) + "\n"


def _notes(graph: Graph, names: Mapping[int, str]) -> dict[int, str]:
    """Return the meaning of each word, by its index."""
    header = graph.header
    notes = {
        0: f"location {header.location}, destination {header.destination:#x}",
        1: f"{header.script_words} words of scripts, {header.ios} IOs, {header.formats} formats",
        2: f"{header.node_words} words of nodes, {header.arc_debug_words} of arc debug registers",
        3: f"{header.arcs} arcs, scheduler_return {header.scheduler_return}, "
        f"debug_script_fields {header.debug_script_fields}",
        4: f"allowed processors {header.allowed_processors:#x}",
        5: "static fill of offset ids 0 to 3",
        6: "static fill of offset ids 4 to 7",
    }
    at = 7
    for index, io in enumerate(graph.ios):
        notes[at] = (
            f"IO {index}: IO_AL_idx {io.hwid}, arc {io.arc}, {'copy' if io.copy else 'set'},"
            f" {'output' if io.tx else 'input'}, {'servant' if io.servant else 'commander'},"
            f" domain {io.domain}"
        )
        notes[at + 1] = "settings"
        at += 4
    at = _script_notes(graph, at, notes)
    positions = graph.node_positions()
    nodes = {
        position: f"{names.get(node.head.node_idx, 'node')}_{index}"
        for index, (position, node) in enumerate(zip(positions, graph.nodes, strict=True))
    }
    for position, node in zip(positions, graph.nodes, strict=True):
        _node_notes(node, position, names, nodes, notes)
    at = graph.ram_word
    notes[at - 1] = "end of the nodes"
    for index in range(len(graph.ongoing) // 4):
        notes[at + index] = "ongoing, a byte an IO"
    at += len(graph.ongoing) // 4
    for index in range(len(graph.arc_debug)):
        notes[at + index] = f"arc debug register {index // 2 % 16} of page {index // 32}"
    at += len(graph.arc_debug)
    for index, form in enumerate(graph.formats):
        _format_notes(form, index, at, notes)
        at += 4
    for index, arc in enumerate(graph.arcs):
        _arc_notes(arc, index, at, notes)
        at += 6
    notes |= {at + index: "fill pattern" for index in range(len(graph.fill))}
    return notes


def _script_notes(graph: Graph, at: int, notes: dict[int, str]) -> int:
    for index, script in enumerate(graph.scripts):
        entry = script.entry
        notes[at + index] = f"script {index}: arc {entry.arc}, format {entry.format}, shared {entry.shared}"
    at += len(graph.scripts)
    for script in graph.scripts:
        if not script.entry.format:
            _code_notes(script.code, at, {}, notes)
        at += len(script.code)
    return at


def _code_notes(words: tuple[int, ...], at: int, nodes: dict[int, str], notes: dict[int, str]) -> None:
    text = disassemble(words, heap_bytes=1 << 16, nodes=nodes)
    for index, line in text.code:
        there = notes.get(at + index)
        notes[at + index] = f"{there} {line}" if there else line


def _node_notes(
    node: Node, at: int, names: Mapping[int, str], nodes: dict[int, str], notes: dict[int, str]
) -> None:
    head = node.head
    name = names.get(head.node_idx, "")
    notes[at] = f"---- node {head.node_idx} {name} with {head.arcs} arcs, script {head.script}"
    for index in range((head.arcs + 1) // 2):
        pair = node.arcs[2 * index : 2 * index + 2]
        notes[at + 1 + index] = ", ".join(f"arc {arc.arc} {'out' if arc.tx else 'in'}" for arc in pair)
    at += 1 + (head.arcs + 1) // 2
    for index, segment in enumerate(node.segments):
        notes[at] = f"memory segment {index} at {segment.bank}:{segment.offset:#x}"
        notes[at + 1] = f"  {segment.size} bytes"
        at += 2
    if node.user_key:
        notes[at] = notes[at + 1] = "user key"
        at += 2
    control = node.control
    notes[at] = (
        f"preset {control.preset}, tag {control.tag}, trace {control.trace_id},"
        f" {control.length - 1} words of parameters"
    )
    if node.is_script:
        _code_notes(node.parameters, at + 1, nodes, notes)


def _format_notes(form: Format, index: int, at: int, notes: dict[int, str]) -> None:
    raw = RAW_TYPES[form.raw].name if form.raw < len(RAW_TYPES) else str(form.raw)
    notes[at] = f"format {index}: frames of {form.frame_bytes} bytes"
    notes[at + 1] = f"  {raw}, {form.channels} channels, domain {form.domain}"
    notes[at + 2] = f"  {form.sampling_rate:g} Hz"


def _arc_notes(arc: Arc | ScriptArc, index: int, at: int, notes: dict[int, str]) -> None:
    if isinstance(arc, ScriptArc):
        notes[at] = f"arc {index}: memory of a script at {arc.bank}:{arc.offset:#x}"
        notes[at + 1] = f"  {arc.code_words} words of code, {arc.size} bytes"
        notes[at + 4] = f"  {arc.registers} registers, stack of {arc.stack}, {arc.buffer_words} words"
        return
    notes[at] = f"arc {index} at {arc.bank}:{arc.offset:#x}"
    notes[at + 1] = f"  {arc.size} bytes"
    notes[at + 4] = f"  format {arc.producer_format} to {arc.consumer_format}"
