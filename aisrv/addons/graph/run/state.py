"""State of a running graph: its memory by bank, its arcs and its IOs. Interpreters share it."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from aisrv.addons.graph.binary.model import Arc, Format, Graph, Node, Segment
from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.arcs import ArcBuffer, Bytes
from aisrv.addons.graph.nodes.samples import DTYPES
from aisrv.addons.graph.run.arc_debug import ArcDebug, Callback
from aisrv.addons.graph.run.io import IoPort

_SAMPLE: Final = np.dtype("<i2")
MOST_MEMORY: Final = 64 << 20
"""Bytes of memory that a graph may have: words can ask for more than any tile has."""


class GraphState:
    """The memory of a graph and its contents.

    `retained` is the memory of a graph that ran before, bank by bank, for a warm boot. Raises GraphError if
    the words want more memory than `MOST_MEMORY`.
    """

    def __init__(self, graph: Graph, retained: Mapping[int, bytes] | None = None) -> None:
        self.graph: Final = graph
        lent = {io.arc for io in graph.ios if not io.copy}
        extents: dict[int, int] = {}
        for number, arc in enumerate(graph.arcs):
            if number not in lent:
                extents[arc.bank] = max(extents.get(arc.bank, 0), arc.offset + arc.size)
        for node in graph.nodes:
            for segment in node.segments:
                extents[segment.bank] = max(extents.get(segment.bank, 0), segment.offset + segment.size)
        total = sum(extents.values()) + sum(graph.arcs[number].size for number in lent)
        if total > MOST_MEMORY:
            raise GraphError(f"the graph wants {total} bytes of memory, at most {MOST_MEMORY} are available")
        self.memory: Final = {bank: np.zeros(size, np.uint8) for bank, size in extents.items()}
        for bank, kept in (retained or {}).items():
            if bank in self.memory:
                target = self.memory[bank]
                size = min(len(target), len(kept))
                target[:size] = np.frombuffer(kept, np.uint8)[:size]
        self.arcs: Final = tuple(
            self._arc_buffer(number, arc, number in lent) for number, arc in enumerate(graph.arcs)
        )
        """Buffer of each arc; None for the memory of a script."""
        self.debug_registers: Final = [0] * (graph.header.arc_debug_words // 2)
        """Registers of 64 bits each, 16 a page."""
        self.ports: Final = tuple(self._port(number) for number in range(len(graph.ios)))

    def watch_arcs(self, callbacks: Mapping[int, Callback], clock: Callable[[], float]) -> None:
        """Clear the debug registers; arcs use them and `callbacks` as the words say. Raises GraphError."""
        self.debug_registers[:] = [0] * len(self.debug_registers)
        debug = ArcDebug(self.debug_registers, self.arcs, callbacks, clock)
        for arc, buffer in zip(self.graph.arcs, self.arcs, strict=True):
            if buffer is not None and isinstance(arc, Arc):
                raw = self.graph.formats[arc.producer_format].raw
                debug.watch(buffer, arc.debug_command, arc.debug_register, DTYPES.get(raw, _SAMPLE))

    def retained(self) -> dict[int, bytes]:
        """Return the memory, for a warm boot of a later graph."""
        return {bank: memory.tobytes() for bank, memory in self.memory.items()}

    def segments(self, node: Node) -> tuple[Bytes, ...]:
        """Return the memory segments of a node."""
        return tuple(self.segment(segment) for segment in node.segments)

    def segment(self, segment: Segment) -> Bytes:
        """Return the memory of a segment."""
        return self.memory[segment.bank][segment.offset : segment.offset + segment.size]

    def formats(self, node: Node, *, outputs: bool) -> tuple[Format, ...]:
        """Return the formats of a node's inputs, or of its outputs, as the node sees them."""
        found = []
        for half in node.arcs:
            arc = self.graph.arcs[half.arc]
            if bool(half.tx) == outputs and isinstance(arc, Arc):
                number = arc.producer_format if outputs else arc.consumer_format
                found.append(self.graph.formats[number])
        return tuple(found)

    def buffers(self, node: Node, *, outputs: bool) -> tuple[ArcBuffer, ...]:
        """Return the buffers of a node's inputs, or of its outputs."""
        buffers = (self.arcs[half.arc] for half in node.arcs if bool(half.tx) == outputs)
        return tuple(buffer for buffer in buffers if buffer is not None)

    def _arc_buffer(self, number: int, arc: object, lent: bool) -> ArcBuffer | None:
        if not isinstance(arc, Arc):
            return None
        memory = np.zeros(arc.size, np.uint8) if lent else self.memory[arc.bank]
        start = 0 if lent else arc.offset
        formats = self.graph.formats
        return ArcBuffer(
            number,
            memory[start : start + arc.size],
            formats[arc.producer_format].frame_bytes,
            formats[arc.consumer_format].frame_bytes,
            arc.bank << 22 | arc.offset,
        )

    def _port(self, number: int) -> IoPort:
        io = self.graph.ios[number]
        arc, buffer = self.graph.arcs[io.arc], self.arcs[io.arc]
        if buffer is None or not isinstance(arc, Arc):
            raise GraphError(f"IO {number} has arc {io.arc}, which is the memory of a script")
        form = self.graph.formats[arc.consumer_format if io.tx else arc.producer_format]
        dtype = DTYPES.get(form.raw)
        return IoPort(
            number,
            buffer,
            hwid=io.hwid,
            domain=io.domain or form.domain,
            transmits=bool(io.tx),
            copies=bool(io.copy),
            servant=bool(io.servant),
            fills_gaps=bool(arc.flow_error),
            sample_bytes=form.channels * (dtype.itemsize if dtype else 1),
            settings=(io.setting1, io.setting2, io.setting3),
        )
