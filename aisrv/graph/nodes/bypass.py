"""Node 0: passes its input on, byte for byte."""

from collections.abc import Sequence

from aisrv.graph.arcs import Bytes
from aisrv.graph.nodes.node import Moved, NodeSetup, StreamNode, need_arcs


class Bypass(StreamNode):
    """A copy."""

    def reset(self, setup: NodeSetup) -> None:
        """Check the arcs."""
        need_arcs(setup, 1, 1)

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        """Copy what is there and fits."""
        size = min(len(inputs[0]), len(outputs[0]))
        outputs[0][:size] = inputs[0][:size]
        return Moved((size,), (size,))
