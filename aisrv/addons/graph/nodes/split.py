"""`arm_stream_split` (16): copies its input to each of its outputs, as many bytes as all of them take."""

from collections.abc import Sequence

from aisrv.addons.graph.nodes.arcs import Bytes
from aisrv.addons.graph.nodes.frames import FrameReader, FrameWriter, as_bytes
from aisrv.addons.graph.nodes.node import Moved, NodeError, NodeSetup, StreamNode


class Split(StreamNode):
    """Copies of one input."""

    def reset(self, setup: NodeSetup) -> None:
        if len(setup.inputs) != 1 or not setup.outputs:
            raise NodeError("a split has one input, and outputs")
        self._reader = FrameReader(as_bytes(setup.inputs[0]))
        self._writers = [FrameWriter(as_bytes(form)) for form in setup.outputs]

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        source = self._reader.read(inputs[0])
        targets = [*zip(self._writers, outputs, strict=True)]
        count = min(len(source), *(writer.room(memory) for writer, memory in targets))
        produced = tuple(writer.write(source[:count], memory) for writer, memory in targets)
        return Moved((self._reader.use(count),), produced)
