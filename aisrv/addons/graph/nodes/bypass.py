"""Node 0: passes its input on, byte for byte."""

from aisrv.addons.graph.nodes.frames import SampleNode, Samples, as_bytes
from aisrv.addons.graph.nodes.node import NodeSetup, need_arcs


class Bypass(SampleNode):
    """A copy."""

    def reset(self, setup: NodeSetup) -> None:
        need_arcs(setup, 1, 1)
        self.begin(as_bytes(setup.inputs[0]), as_bytes(setup.outputs[0]))

    def process(self, samples: Samples) -> Samples:
        return samples
