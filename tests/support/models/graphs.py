"""Graphs built from values, drivers that answer in given ways, and where golden data lie."""

import wave
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from aisrv.addons.graph.binary.model import (
    Arc,
    Format,
    Graph,
    Header,
    IoEntry,
    Node,
    NodeArc,
    NodeHead,
    ParameterHead,
    Segment,
)
from aisrv.addons.graph.binary.words import parse_words, read_words, words_of
from aisrv.addons.graph.nodes.registry import STANDARD_NODES, NodeFactory, Registry
from aisrv.addons.graph.run.io import IoPort
from aisrv.addons.graph.run.scheduler import Interpreter
from aisrv.addons.graph.run.state import GraphState
from tests.support.paths import ROOT

GOLDEN: Final = ROOT / "tests" / "golden" / "graph"
STREAM: Final = GOLDEN / "streams" / "filter_detector_gpio"

S8, U8, S16, S32, FP32 = 11, 12, 17, 24, 27

HIGH_PASS: Final = (16019, -16019, 0, 15455, 0, 16019, -32034, 16019, 32219, -15869)
"""The coefficients of the golden stream, after two stages and a postShift of 1."""


def high_pass() -> bytes:
    """Parameters of the filter before the golden detector."""
    return bytes([2, 1]) + b"".join(value.to_bytes(2, "little", signed=True) for value in HIGH_PASS)


def golden_graph(name: str) -> Graph:
    """Read the golden words of a graph."""
    return read_words(parse_words((GOLDEN / "oracle" / "words" / f"{name}_bin.txt").read_text()))


def form(frame_bytes: int, raw: int = S16, channels: int = 1, *, planes: bool = False, **more: int) -> Format:
    """Make a format."""
    return Format(
        frame_bytes=frame_bytes, raw=raw, other_channels=channels - 1, deinterleaved=int(planes), **more
    )


def rate_bits(hertz: float) -> int:
    """The field of a format for a sampling rate."""
    import struct

    bits: int = struct.unpack("<I", struct.pack("<f", hertz))[0]
    return bits >> 8


@dataclass
class GraphBuilder:
    """Collects IOs, nodes and arcs, and makes a graph that is the same when read from its words."""

    formats: list[Format] = field(default_factory=list)
    ios: list[IoEntry] = field(default_factory=list)
    arcs: list[Arc] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    mode: int = 3
    processors: int = 1
    _memory: int = 0

    def arc(self, producer: Format, consumer: Format, jitter: float = 1.0, **more: int) -> int:
        """Add an arc; return its number."""
        size = int(0.5 + jitter * max(producer.frame_bytes, consumer.frame_bytes))
        self.arcs.append(
            Arc(
                offset=self._memory,
                size=size,
                producer_format=self._format(producer),
                consumer_format=self._format(consumer),
                **more,
            )
        )
        self._memory += size + 3 & ~3
        return len(self.arcs) - 1

    def io(
        self,
        hwid: int,
        arc: int,
        *,
        tx: bool = False,
        copy: bool = True,
        servant: bool = True,
        domain: int = 0,
    ) -> None:
        """Add an IO at an arc."""
        self.ios.append(
            IoEntry(hwid=hwid, arc=arc, tx=int(tx), copy=int(copy), servant=int(servant), domain=domain)
        )

    def node(
        self,
        name: str,
        inputs: Iterable[int],
        outputs: Iterable[int],
        parameters: bytes = b"",
        *,
        preset: int = 0,
        tag: int = 0,
        segments: Sequence[int] = (0,),
        names: Sequence[str] = STANDARD_NODES,
        **head: int,
    ) -> None:
        """Add a node."""
        arcs = (
            *(NodeArc(arc=number) for number in inputs),
            *(NodeArc(arc=number, tx=1) for number in outputs),
        )
        padded = parameters + bytes(-len(parameters) % 4)
        words = tuple(int.from_bytes(padded[at : at + 4], "little") for at in range(0, len(padded), 4))
        made = []
        for size in segments:
            made.append(Segment(others=len(segments) - 1, offset=self._memory, size=size))
            self._memory += size + 3 & ~3
        self.nodes.append(
            Node(
                NodeHead(arcs=len(arcs), node_idx=names.index(name), **head),
                arcs,
                tuple(made),
                None,
                ParameterHead(preset=preset, tag=tag, length=len(words) + 1),
                words,
            )
        )

    def build(self) -> Graph:
        """Make the graph."""
        header = Header(
            ios=len(self.ios),
            formats=len(self.formats),
            arcs=len(self.arcs),
            node_words=1 + sum(node.word_count for node in self.nodes),
            scheduler_return=self.mode,
            allowed_processors=self.processors,
        )
        ongoing = b"\xfe" * len(self.ios) + b"\xff" * (-len(self.ios) % 4)
        graph = Graph(
            header, tuple(self.ios), (), tuple(self.nodes), ongoing, (), tuple(self.formats), tuple(self.arcs)
        )
        read = read_words(words_of(graph))
        assert replace(read, header=header) == graph
        return read

    def interpreter(self, factories: dict[str, NodeFactory] | None = None, **more: object) -> Interpreter:
        """Make a graph, and an interpreter of it that has been reset."""
        names = more.pop("names", STANDARD_NODES)
        state = GraphState(self.build())
        interpreter = Interpreter(state, Registry(names, factories), **more)  # type: ignore[arg-type]
        interpreter.reset()
        return interpreter

    def _format(self, wanted: Format) -> int:
        if wanted not in self.formats:
            self.formats.append(wanted)
        return self.formats.index(wanted)


def chain(
    hwids: tuple[int, int], formats: Sequence[Format], nodes: Sequence[tuple[str, bytes, int]], **more: Any
) -> GraphBuilder:
    """A chain: input, nodes as (name, parameters, preset), output; `formats` lie before and behind each."""
    builder = GraphBuilder(**more)
    arcs = [builder.arc(each, each) for each in formats]
    builder.io(hwids[0], arcs[0])
    builder.io(hwids[1], arcs[-1], tx=True)
    for (name, parameters, preset), before, behind in zip(nodes, arcs, arcs[1:], strict=False):
        builder.node(name, [before], [behind], parameters, preset=preset)
    return builder


class Source:
    """An input that answers at once, a frame a request, until its bytes are used up; `cuts` divide it."""

    def __init__(self, data: bytes, cuts: Callable[[int], Sequence[int]] = lambda size: [size]) -> None:
        self._data = data
        self._cuts = cuts
        self._at = 0

    def request(self, port: IoPort) -> None:
        size = port.arc.producer_frame
        if self._at + size <= len(self._data):
            for part in self._cuts(size):
                assert port.acknowledge(self._data[self._at : self._at + part]) == part
                self._at += part


class Sink:
    """An output that takes a frame at once, in parts."""

    def __init__(self, cuts: Callable[[int], Sequence[int]] = lambda size: [size]) -> None:
        self.data = bytearray()
        self._cuts = cuts

    def request(self, port: IoPort) -> None:
        for part in self._cuts(port.arc.consumer_frame):
            taken = bytearray(part)
            assert port.acknowledge(taken) == part
            self.data += taken


def golden_audio() -> bytes:
    """The 100 frames that are the input of the golden streams."""
    return (STREAM / "audio_in_100frames.raw").read_bytes()


def golden_runtime(name: str) -> Path:
    """A file of the public scheduler's runs."""
    return GOLDEN / "oracle" / "runtime" / name


def write_words(graph: Graph, path: Path) -> Path:
    """Write a graph as a file of words."""
    words = words_of(graph)
    path.write_text("\n".join(f"0x{word:08X}," for word in (len(words), *words)))
    return path


def write_wav(data: bytes, path: Path, rate: int = 16000) -> Path:
    """Write 16-bit mono samples as a WAV file."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(data)
    return path


def word_graph() -> Graph:
    """Microphone (IO 4) -> filter -> detector -> converter -> engine 0 -> GPIO of two channels (IO 8)."""
    builder = GraphBuilder()
    audio = form(640, rate_bits=rate_bits(16000.0))
    decision, small, window, scores = form(2), form(1, S8), form(16, S8), form(2, S8, 2)
    arcs = [
        builder.arc(audio, audio),
        builder.arc(audio, audio),
        builder.arc(decision, decision),
        builder.arc(small, window),
        builder.arc(scores, scores),
    ]
    builder.io(4, arcs[0])
    builder.io(8, arcs[4], tx=True)
    builder.node("arm_stream_filter", arcs[0:1], arcs[1:2], high_pass(), preset=1)
    builder.node("sigp_stream_detector", arcs[1:2], arcs[2:3], preset=5)
    builder.node("sigp_stream_converter", arcs[2:3], arcs[3:4])
    builder.node("aisrv_stream_inference", arcs[3:4], arcs[4:5], bytes([0, 0, 0, 0]))
    return builder.build()


def digit_graph(jitter: float = 1.0) -> Graph:
    """Camera (IO 5), 8x8 bytes -> converter -> engine 0, the digits -> GPIO of ten channels (IO 7)."""
    builder = GraphBuilder()
    arcs = [
        builder.arc(form(64, U8), form(64, U8)),
        builder.arc(form(64, S8), form(64, S8), jitter),
        builder.arc(form(10, S8, 10), form(10, S8, 10)),
    ]
    builder.io(5, arcs[0])
    builder.io(7, arcs[2], tx=True)
    builder.node("sigp_stream_converter", arcs[0:1], arcs[1:2])
    builder.node("aisrv_stream_inference", arcs[1:2], arcs[2:3], bytes([0, 0, 0, 0]))
    return builder.build()
