"""A node of your own for graphs: it multiplies samples of 16 bits by a factor.

A package makes it known to `aisrv` in its pyproject.toml, by the name in the node's manifest:

    [project.entry-points."aisrv.graph_nodes"]
    example_gain = "gain_node:Gain"
"""

import struct

import numpy as np

from aisrv.addons.graph.nodes.frames import SampleNode, Samples
from aisrv.addons.graph.nodes.node import NodeError, NodeSetup, need_bytes
from aisrv.addons.graph.nodes.samples import need_type


class Gain(SampleNode):
    """Parameters: s16 factor."""

    def reset(self, setup: NodeSetup) -> None:
        """Take the formats; the factor is 1 until there are parameters."""
        super().reset(setup)
        need_type(setup.inputs[0], "<i2")
        need_type(setup.outputs[0], "<i2")
        self._factor = 1

    def set_parameter(self, tag: int, data: bytes) -> None:
        """Take the factor."""
        if tag:
            raise NodeError(f"unknown parameter {tag}: the gain has the whole block, 0")
        need_bytes(data, 2, "the parameters of a gain")
        (self._factor,) = struct.unpack_from("<h", data)

    def process(self, samples: Samples) -> Samples:
        """Multiply samples; they are a view of the arc's own memory."""
        return np.clip(samples.astype(np.int32) * self._factor, -32768, 32767)
