"""A compiled graph as values: the meaning of the words of the binary.

Records of fixed size declare their bit-fields here, each once; `aisrv.addons.graph.binary.words` reads and
writes the sequence.
"""

import struct
from dataclasses import dataclass
from typing import Annotated, Final

from aisrv.addons.graph.binary.bitfields import Bits, WordRecord

END_OF_NODES: Final = 0x3FF
"""NODE_IDX of the word that ends the list of nodes."""
SCRIPT_NODE: Final = 1
"""NODE_IDX of `arm_stream_script`, whose parameters are code."""
IDLE: Final = 0xFE
"""The byte of `ongoing` of an IO without a transfer."""
TRANSFER_RUNS: Final = 0xFF
"""The byte of `ongoing` of an IO whose transfer runs; also what fills the last word."""
NO_REGISTER: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Header(WordRecord, words=7):
    """Words G0 to G6."""

    location: Annotated[int, Bits(0, 29, 28)] = 0
    destination: Annotated[int, Bits(0, 27, 0)] = 0
    script_words: Annotated[int, Bits(1, 31, 12)] = 0
    ios: Annotated[int, Bits(1, 11, 5)] = 0
    formats: Annotated[int, Bits(1, 4, 0)] = 0
    arc_debug_words: Annotated[int, Bits(2, 31, 22)] = 0
    node_words: Annotated[int, Bits(2, 21, 0)] = 1
    debug_script_fields: Annotated[int, Bits(3, 19, 14)] = 0
    scheduler_return: Annotated[int, Bits(3, 13, 11)] = 0
    arcs: Annotated[int, Bits(3, 10, 0)] = 0
    allowed_processors: Annotated[int, Bits(4, 7, 0)] = 1
    fill_low: Annotated[int, Bits(5, 31, 0)] = 0
    fill_high: Annotated[int, Bits(6, 31, 0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IoEntry(WordRecord, words=4):
    """An IO: its place in the platform, its arc, and its settings."""

    hwid: Annotated[int, Bits(0, 24, 18)] = 0
    """IO_AL_idx, the IO's number in the platform."""
    domain: Annotated[int, Bits(0, 17, 14)] = 0
    copy: Annotated[int, Bits(0, 13, 13)] = 0
    """set0copy1."""
    servant: Annotated[int, Bits(0, 12, 12)] = 0
    tx: Annotated[int, Bits(0, 11, 11)] = 0
    arc: Annotated[int, Bits(0, 10, 0)] = 0
    setting1: Annotated[int, Bits(1, 31, 0)] = 0
    setting2: Annotated[int, Bits(2, 31, 0)] = 0
    setting3: Annotated[int, Bits(3, 31, 0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEntry(WordRecord, words=1):
    """A line of the table of scripts."""

    arc: Annotated[int, Bits(0, 31, 21)] = 0
    format: Annotated[int, Bits(0, 20, 19)] = 0
    """0: 32-bit instructions; 1: opaque 16-bit codes of the first text grammar."""
    shared: Annotated[int, Bits(0, 18, 18)] = 0
    offset: Annotated[int, Bits(0, 17, 0)] = 0
    """Words from the start of the table."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script of the table, with its code and the parameters behind it."""

    entry: ScriptEntry
    code: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHead(WordRecord, words=1):
    """Word LW0 of a node."""

    priority: Annotated[int, Bits(0, 31, 30)] = 0
    processor: Annotated[int, Bits(0, 29, 27)] = 0
    architecture: Annotated[int, Bits(0, 26, 24)] = 0
    script: Annotated[int, Bits(0, 23, 17)] = 0
    arcs: Annotated[int, Bits(0, 16, 13)] = 0
    node_idx: Annotated[int, Bits(0, 9, 0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeArc(WordRecord, words=1):
    """A half word: an arc of a node as the node sees it. The first one says whether there is a user key."""

    key: Annotated[int, Bits(0, 14, 14)] = 0
    debug_page: Annotated[int, Bits(0, 13, 12)] = 0
    tx: Annotated[int, Bits(0, 11, 11)] = 0
    arc: Annotated[int, Bits(0, 10, 0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment(WordRecord, words=2):
    """A memory segment of a node: words ADDR and SIZE."""

    others: Annotated[int, Bits(0, 31, 29)] = 0
    """Segments of the node, minus 1."""
    bank: Annotated[int, Bits(0, 27, 22)] = 0
    """Offset id of the address."""
    offset: Annotated[int, Bits(0, 21, 0)] = 0
    """Byte index of the address."""
    any_clear_or_swap: Annotated[int, Bits(1, 24, 24)] = 0
    clear: Annotated[int, Bits(1, 23, 23)] = 0
    swap: Annotated[int, Bits(1, 22, 22)] = 0
    extension: Annotated[int, Bits(1, 21, 20)] = 0
    size: Annotated[int, Bits(1, 19, 0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterHead(WordRecord, words=1):
    """Word LW4 of a node."""

    tag: Annotated[int, Bits(0, 31, 28)] = 0
    preset: Annotated[int, Bits(0, 27, 24)] = 0
    trace_id: Annotated[int, Bits(0, 23, 16)] = 0
    length: Annotated[int, Bits(0, 15, 0)] = 1
    """Words of parameters, and this one."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the list. A script node's parameters are its code, then its parameters."""

    head: NodeHead
    arcs: tuple[NodeArc, ...]
    segments: tuple[Segment, ...]
    user_key: tuple[int, int] | None
    control: ParameterHead
    parameters: tuple[int, ...] = ()

    @property
    def is_script(self) -> bool:
        """Return whether this is `arm_stream_script`."""
        return self.head.node_idx == SCRIPT_NODE

    @property
    def word_count(self) -> int:
        """Words of the node in the list."""
        keys = 2 if self.user_key else 0
        return 1 + (len(self.arcs) + 1) // 2 + 2 * len(self.segments) + keys + 1 + len(self.parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format(WordRecord, words=4):
    """A stream format."""

    frame_bytes: Annotated[int, Bits(0, 21, 0)] = 0
    subtype: Annotated[int, Bits(1, 29, 23)] = 0
    extension: Annotated[int, Bits(1, 22, 20)] = 0
    domain: Annotated[int, Bits(1, 19, 16)] = 0
    raw: Annotated[int, Bits(1, 15, 10)] = 0
    """Code of the raw type, as in `aisrv.addons.graph.binary.tables`."""
    time_stamp_size: Annotated[int, Bits(1, 9, 8)] = 0
    time_stamp: Annotated[int, Bits(1, 7, 6)] = 0
    deinterleaved: Annotated[int, Bits(1, 5, 5)] = 0
    other_channels: Annotated[int, Bits(1, 4, 0)] = 0
    """Channels, minus 1."""
    rate_bits: Annotated[int, Bits(2, 31, 8)] = 0
    """The upper 24 bits of the sampling rate as a float32 number."""
    level: Annotated[int, Bits(2, 7, 0)] = 0
    mapping: Annotated[int, Bits(3, 31, 0)] = 0
    """Meaning by domain: audio channels, motion code, or the size of an image."""

    @property
    def channels(self) -> int:
        return self.other_channels + 1

    @property
    def sampling_rate(self) -> float:
        """Sampling rate in Hz; 0 for a stream without."""
        rate: float = struct.unpack("<f", struct.pack("<I", self.rate_bits << 8))[0]
        return rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Arc(WordRecord, words=6):
    """A buffer between two nodes, or between an IO and a node."""

    bank: Annotated[int, Bits(0, 27, 22)] = 0
    offset: Annotated[int, Bits(0, 21, 0)] = 0
    size: Annotated[int, Bits(1, 21, 0)] = 0
    extension: Annotated[int, Bits(2, 31, 29)] = 0
    flush: Annotated[int, Bits(2, 23, 23)] = 0
    flow_error: Annotated[int, Bits(2, 22, 22)] = 0
    read: Annotated[int, Bits(2, 21, 0)] = 0
    collision: Annotated[int, Bits(3, 31, 24)] = 0
    align: Annotated[int, Bits(3, 22, 22)] = 0
    write: Annotated[int, Bits(3, 21, 0)] = 0
    debug_command: Annotated[int, Bits(4, 31, 27)] = 0
    debug_register: Annotated[int, Bits(4, 23, 16)] = 0
    consumer_format: Annotated[int, Bits(4, 15, 8)] = 0
    producer_format: Annotated[int, Bits(4, 7, 0)] = 0
    trace: Annotated[int, Bits(5, 31, 0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptArc(WordRecord, words=6):
    """Registers, stack and heap of a script."""

    bank: Annotated[int, Bits(0, 27, 22)] = 0
    offset: Annotated[int, Bits(0, 21, 0)] = 0
    code_words: Annotated[int, Bits(1, 31, 22)] = 0
    """Words of code and parameters."""
    size: Annotated[int, Bits(1, 21, 0)] = 0
    collision: Annotated[int, Bits(3, 31, 24)] = 0
    buffer_words: Annotated[int, Bits(4, 23, 11)] = 0
    registers: Annotated[int, Bits(4, 10, 7)] = 0
    """Registers of two words each, the hidden r12 included."""
    stack: Annotated[int, Bits(4, 6, 0)] = 0
    """Places of the stack, of two words each."""


@dataclass(frozen=True, slots=True)
class Graph:
    """All of a compiled graph. `words_of` in `aisrv.addons.graph.binary.words` writes it."""

    header: Header
    ios: tuple[IoEntry, ...] = ()
    scripts: tuple[Script, ...] = ()
    nodes: tuple[Node, ...] = ()
    ongoing: bytes = b""
    """A byte for each IO, padded to words with 0xFF."""
    arc_debug: tuple[int, ...] = ()
    formats: tuple[Format, ...] = ()
    arcs: tuple[Arc | ScriptArc, ...] = ()
    fill: tuple[int, ...] = ()

    @property
    def node_list_word(self) -> int:
        """Index of the first node's LW0."""
        return 7 + 4 * len(self.ios) + self.header.script_words

    @property
    def ram_word(self) -> int:
        """Index of the first word of the RAM part: that of `ongoing`."""
        return self.node_list_word + self.header.node_words

    @property
    def loaded_bytes(self) -> int:
        """Bytes of the graph itself in memory: its RAM part, or all of it."""
        words = len(self.ongoing) // 4 + len(self.arc_debug) + 4 * len(self.formats) + len(self.fill)
        words += 6 * self.header.arcs
        return 4 * (words if self.header.location == 1 else self.ram_word + words)

    def node_positions(self) -> tuple[int, ...]:
        """Index of each node's LW0."""
        positions, position = [], self.node_list_word
        for node in self.nodes:
            positions.append(position)
            position += node.word_count
        return tuple(positions)
