"""The words of a graph, read as values and written: one is the inverse of the other."""

import re
import struct
from collections.abc import Iterable, Sequence
from typing import TypeVar

from aisrv.addons.graph.binary.bitfields import WORD, WordRecord
from aisrv.addons.graph.binary.model import (
    END_OF_NODES,
    SCRIPT_NODE,
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
from aisrv.addons.graph.errors import WordsError

RecordType = TypeVar("RecordType", bound=WordRecord)


class _Reader:
    """A position in the words."""

    def __init__(self, words: Sequence[int]) -> None:
        self.words = words
        self.at = 0

    def take(self, count: int, what: str) -> tuple[int, ...]:
        end = self.at + count
        if end > len(self.words):
            raise WordsError(
                len(self.words), f"{what} needs words {self.at} to {end - 1}: there are {len(self.words)}"
            )
        taken = tuple(self.words[self.at : end])
        self.at = end
        return taken

    def record(self, kind: type[RecordType], what: str) -> RecordType:
        return kind.from_words(self.take(kind.WORDS, what))


def read_words(words: Sequence[int]) -> Graph:
    """Read the words of a graph, without the count that leads its text. Raises WordsError."""
    for index, word in enumerate(words):
        if not 0 <= word <= WORD:
            raise WordsError(index, f"{word} is not a 32-bit word")
    reader = _Reader(words)
    header = reader.record(Header, "the header")
    ios_at = reader.at
    ios = tuple(reader.record(IoEntry, f"IO {index}") for index in range(header.ios))
    scripts_at = reader.at
    scripts = _read_scripts(reader, header.script_words)
    nodes = _read_nodes(reader, header.node_words)
    ongoing = struct.pack(f"<{(header.ios + 3) // 4}I", *reader.take((header.ios + 3) // 4, "ongoing"))
    arc_debug = reader.take(header.arc_debug_words, "the arc debug registers")
    formats = tuple(reader.record(Format, f"format {index}") for index in range(header.formats))
    arcs_at = reader.at
    script_arcs = {script.entry.arc for script in scripts}
    script_arcs |= {arc.arc for node in nodes if node.is_script for arc in node.arcs}
    arcs: list[Arc | ScriptArc] = []
    for index in range(header.arcs):
        kind: type[Arc | ScriptArc] = ScriptArc if index in script_arcs else Arc
        arcs.append(reader.record(kind, f"arc {index}"))
    fill = reader.take(len(words) - reader.at, "the fill pattern")
    graph = Graph(header, ios, scripts, nodes, ongoing, arc_debug, formats, tuple(arcs), fill)
    _check_ios(graph, ios_at)
    _check_scripts(graph, scripts_at)
    _check_nodes(graph)
    _check_arcs(graph, arcs_at)
    return graph


def words_of(graph: Graph) -> list[int]:
    """Return a graph as words, without the leading count. Raises FieldError."""
    words = [*graph.header.words()]
    _extend(words, graph.ios)
    _extend(words, (script.entry for script in graph.scripts))
    for script in graph.scripts:
        words += script.code
    for node in graph.nodes:
        words += node_words(node)
    words.append(END_OF_NODES)
    words += struct.unpack(f"<{len(graph.ongoing) // 4}I", graph.ongoing)
    words += graph.arc_debug
    _extend(words, graph.formats)
    _extend(words, graph.arcs)
    words += graph.fill
    return words


def node_words(node: Node) -> list[int]:
    words = [*node.head.words()]
    halves = [arc.words()[0] for arc in node.arcs]
    halves += [0] * (len(halves) % 2)
    words += [low | high << 16 for low, high in zip(halves[::2], halves[1::2], strict=True)]
    _extend(words, node.segments)
    words += node.user_key or ()
    words += node.control.words()
    words += node.parameters
    return words


def parse_words(text: str) -> list[int]:
    """Return the words of a `0x…,` text, without the count that leads it. Raises WordsError."""
    words: list[int] = []
    for line in text.splitlines():
        for item in line.partition("//")[0].replace(",", " ").split():
            if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,8}", item):
                raise WordsError(len(words) - 1, f"{item[:40]!r} is not a word such as 0x0000002E")
            words.append(int(item, 16))
    if not words:
        raise WordsError(0, "the file has no words")
    count, *rest = words
    if count != len(rest):
        raise WordsError(len(rest), f"the first value says {count} words: there are {len(rest)}")
    return rest


def _extend(words: list[int], records: Iterable[WordRecord]) -> None:
    for record in records:
        words += record.words()


def _read_scripts(reader: _Reader, count: int) -> tuple[Script, ...]:
    """Read the table of scripts and their codes. The first script's offset is the table's length."""
    start = reader.at
    section = reader.take(count, "the scripts")
    if not section:
        return ()
    length = ScriptEntry.from_words(section[:1]).offset
    if not 1 <= length <= count:
        raise WordsError(start, f"the first script starts at word {length} of a section of {count}")
    entries = [ScriptEntry.from_words((word,)) for word in section[:length]]
    ends = [*(entry.offset for entry in entries[1:]), count]
    scripts = []
    for index, (entry, end) in enumerate(zip(entries, ends, strict=True)):
        if not entry.offset <= end <= count:
            raise WordsError(start + index, f"script {index} has words {entry.offset} to {end} of {count}")
        scripts.append(Script(entry, section[entry.offset : end]))
    return tuple(scripts)


def _read_nodes(reader: _Reader, count: int) -> tuple[Node, ...]:
    start = reader.at
    if count < 1:
        raise WordsError(2, "the list of nodes has no words, not even its end")
    nodes = _Reader(reader.words[: start + count])
    nodes.at = start
    reader.take(count, "the list of nodes")
    found = []
    while nodes.at < start + count - 1:
        if nodes.words[nodes.at] & END_OF_NODES == END_OF_NODES:
            raise WordsError(nodes.at, f"the list of nodes ends here, not at word {start + count - 1}")
        found.append(_read_node(nodes))
    if nodes.at != start + count - 1 or nodes.words[-1] != END_OF_NODES:
        raise WordsError(start + count - 1, "the list of nodes does not end with 0x000003FF")
    return tuple(found)


def _read_node(reader: _Reader) -> Node:
    at = reader.at
    head = reader.record(NodeHead, "a node")
    arcs_at = reader.at
    words = reader.take((head.arcs + 1) // 2, "the arcs of a node")
    halves = [half for word in words for half in (word & 0xFFFF, word >> 16)]
    if len(halves) > head.arcs and halves.pop():
        raise WordsError(arcs_at + len(words) - 1, f"the node has {head.arcs} arcs, and one more is given")
    arcs = tuple(NodeArc.from_words((half,)) for half in halves)
    first = reader.record(Segment, "a memory segment")
    segments = (first, *(reader.record(Segment, "a memory segment") for _ in range(first.others)))
    has_key = bool(arcs and arcs[0].key)
    key = reader.take(2, "the user key") if has_key else None
    control_at = reader.at
    control = reader.record(ParameterHead, "the parameters of a node")
    if control.length < 1:
        raise WordsError(control_at, f"the node at word {at} has 0 words of parameters: its own word is one")
    parameters = reader.take(control.length - 1, "the parameters of a node")
    return Node(head, arcs, segments, (key[0], key[1]) if key else None, control, parameters)


def _check_ios(graph: Graph, at: int) -> None:
    for index, io in enumerate(graph.ios):
        _check_data_arc(graph, io.arc, at + 4 * index, f"IO {index}")


def _check_scripts(graph: Graph, at: int) -> None:
    for index, script in enumerate(graph.scripts):
        arc = _arc(graph, script.entry.arc, at + index, f"script {index}")
        if isinstance(arc, ScriptArc) and arc.code_words != len(script.code):
            raise WordsError(
                at + index, f"script {index} has {len(script.code)} words: its arc says {arc.code_words}"
            )


def _check_nodes(graph: Graph) -> None:
    for index, (node, position) in enumerate(zip(graph.nodes, graph.node_positions(), strict=True)):
        what = f"node {index}"
        for place, half in enumerate(node.arcs):
            word = position + 1 + place // 2
            if node.head.node_idx == SCRIPT_NODE:
                _arc(graph, half.arc, word, what)
            else:
                _check_data_arc(graph, half.arc, word, what)
        if node.head.script and node.head.script >= len(graph.scripts):
            raise WordsError(
                position, f"{what} has script {node.head.script}: there are {len(graph.scripts)}"
            )


def _check_arcs(graph: Graph, at: int) -> None:
    for index, arc in enumerate(graph.arcs):
        if isinstance(arc, ScriptArc):
            continue
        word = at + 6 * index
        for number in (arc.producer_format, arc.consumer_format):
            if number >= len(graph.formats):
                raise WordsError(word + 4, f"arc {index} has format {number}: there are {len(graph.formats)}")
        if not arc.read <= arc.write <= arc.size:
            raise WordsError(
                word + 2, f"arc {index} reads at {arc.read}, writes at {arc.write} of {arc.size} bytes"
            )


def _arc(graph: Graph, number: int, word: int, what: str) -> Arc | ScriptArc:
    if number >= len(graph.arcs):
        raise WordsError(word, f"{what} has arc {number}: there are {len(graph.arcs)}")
    return graph.arcs[number]


def _check_data_arc(graph: Graph, number: int, word: int, what: str) -> None:
    if isinstance(_arc(graph, number, word, what), ScriptArc):
        raise WordsError(word, f"{what} has arc {number}, which is the memory of a script")
