"""A node of a graph in the scheduler: its object, its arcs, and its counters."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aisrv.addons.graph.binary.model import Node
from aisrv.addons.graph.nodes.node import Moved, NodeError, StreamNode
from aisrv.addons.graph.run.state import GraphState

logger = logging.getLogger(__name__)

MOST_CALLS: Final = 4
"""Calls of a node in one visit."""


@dataclass(slots=True)
class NodeCounts:
    """Counters of a node since RESET."""

    calls: int = 0
    consumed: int = 0
    produced: int = 0
    errors: int = 0


class NodeEntry:
    """A node of a graph in the scheduler."""

    __slots__ = (
        "counts",
        "failed",
        "inputs",
        "instance",
        "lock",
        "model",
        "name",
        "node",
        "ours",
        "outputs",
        "word",
    )

    def __init__(
        self,
        name: str,
        instance: int,
        word: int,
        model: Node,
        node: StreamNode | None,
        state: GraphState,
        *,
        ours: bool,
    ) -> None:
        self.name: Final = name
        self.instance: Final = instance
        self.word: Final = word
        """Index of its first word, by which scripts name it."""
        self.model: Final = model
        self.node: Final = node
        """None for a script node."""
        self.inputs: Final = state.buffers(model, outputs=False)
        self.outputs: Final = state.buffers(model, outputs=True)
        self.lock: Final = self.outputs[0] if self.outputs else None
        self.ours: Final = ours
        self.failed = False
        self.counts: Final = NodeCounts()

    @property
    def title(self) -> str:
        """Name and instance, for logs."""
        return f"{self.name} {self.instance}"

    @property
    def ready(self) -> bool:
        """Return whether each input has a frame, and each output has room for one."""
        for arc in self.inputs:
            if arc.write - arc.read < arc.consumer_frame:
                return False
        for arc in self.outputs:
            if arc.size - arc.write < arc.producer_frame:
                return False
        return not self.failed

    def call(self, node: StreamNode, log: Callable[[str], None]) -> int:
        """Call the node while it has more to do, never after an error; return the bytes that it moved."""
        total = 0
        counts = self.counts
        inputs, outputs = self.inputs, self.outputs
        for _ in range(MOST_CALLS):
            for arc in inputs:
                if arc.align and arc.read:
                    arc.realign()
            read = [arc.buffer[arc.read : arc.write] for arc in inputs]
            written = [arc.buffer[arc.write : arc.size] for arc in outputs]
            counts.calls += 1
            try:
                moved = node.run(read, written)
                self._check(moved)
            except Exception as error:  # whatever a node of the user's own raises
                self.failed = True
                counts.errors += 1
                log(f"{self.title} failed, it is not called again: {type(error).__name__}: {error}")
                logger.debug("%s failed", self.title, exc_info=True)
                return total
            count = 0
            for arc, size in zip(inputs, moved.consumed, strict=True):
                if size:
                    arc.consume(size)
                    counts.consumed += size
                    count += size
            for arc, size in zip(outputs, moved.produced, strict=True):
                if size:
                    arc.produce(size)
                    counts.produced += size
                    count += size
            total += count
            if not (moved.again and count):
                break
        return total

    def _check(self, moved: Moved) -> None:
        """Raise NodeError if the node says that it moved more than there was, or less than nothing."""
        inputs, outputs = self.inputs, self.outputs
        if len(moved.consumed) != len(inputs) or len(moved.produced) != len(outputs):
            raise NodeError(
                f"it says what it did with {len(moved.consumed)} inputs and {len(moved.produced)} outputs; "
                f"it has {len(inputs)} and {len(outputs)}"
            )
        for arc, size in zip(inputs, moved.consumed, strict=True):
            if not 0 <= size <= arc.write - arc.read:
                raise NodeError(f"it consumed {size} bytes of arc {arc.number}, which has {arc.filled}")
        for arc, size in zip(outputs, moved.produced, strict=True):
            if not 0 <= size <= arc.size - arc.write:
                raise NodeError(
                    f"it produced {size} bytes for arc {arc.number}, which has room for {arc.free}"
                )
