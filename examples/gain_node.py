"""A node of your own for graphs: it multiplies samples of 16 bits by a factor, in the memory of the arcs.

A package makes it known to `aisrv` in its pyproject.toml, by the name in the node's manifest:

    [project.entry-points."aisrv.graph_nodes"]
    example_gain = "gain_node:Gain"
"""

import struct
from collections.abc import Sequence

import numpy as np

from aisrv.graph.arcs import Bytes
from aisrv.graph.nodes.node import Moved, NodeError, NodeSetup, StreamNode, need_arcs, need_bytes
from aisrv.graph.nodes.samples import need_type


class Gain(StreamNode):
    """Parameters: s16 factor."""

    def reset(self, setup: NodeSetup) -> None:
        """Check the arcs; the factor is 1 until there are parameters."""
        need_arcs(setup, 1, 1)
        need_type(setup.inputs[0], "<i2")
        need_type(setup.outputs[0], "<i2")
        self._factor = 1

    def set_parameter(self, tag: int, data: bytes) -> None:
        """Take the factor."""
        if tag:
            raise NodeError(f"there is no parameter {tag}: the gain has the whole block, 0")
        need_bytes(data, 2, "the parameters of a gain")
        (self._factor,) = struct.unpack_from("<h", data)

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        """Multiply as many samples as are there and fit; the views are the arcs' own memory."""
        size = min(len(inputs[0]), len(outputs[0])) & ~1
        source, target = inputs[0][:size].view("<i2"), outputs[0][:size].view("<i2")
        np.clip(source.astype(np.int32) * self._factor, -32768, 32767, out=target, casting="unsafe")
        return Moved((size,), (size,))
