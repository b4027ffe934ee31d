"""`arm_stream_split` (16): copies its input to every output, as many frames as all of them take."""

from collections.abc import Sequence

from aisrv.graph.arcs import Bytes
from aisrv.graph.nodes.node import Moved, NodeError, NodeSetup, StreamNode


class Split(StreamNode):
    """A copy for each output."""

    def reset(self, setup: NodeSetup) -> None:
        """Take the frame of the input."""
        if len(setup.inputs) != 1 or not setup.outputs:
            raise NodeError(
                f"it has {len(setup.inputs)} inputs and {len(setup.outputs)} outputs, it takes 1 and more"
            )
        self._frame = max(1, setup.inputs[0].frame_bytes)

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        """Copy whole frames."""
        source = inputs[0]
        size = min(len(source), *map(len, outputs)) // self._frame * self._frame
        for target in outputs:
            target[:size] = source[:size]
        return Moved((size,), (size,) * len(outputs))
