"""`arm_stream_router` (3): sends channels of its inputs to channels of its outputs.

Parameters: i8 inputs, i8 outputs, then four i16 for each connection: input arc, channel, output arc, channel.
Arcs are numbered inputs first. Channels that no connection names are 0.
"""

import struct
from collections.abc import Sequence

import numpy as np

from aisrv.addons.graph.nodes.arcs import Bytes
from aisrv.addons.graph.nodes.frames import FrameReader, FrameWriter
from aisrv.addons.graph.nodes.node import Moved, NodeError, NodeSetup, StreamNode, need_bytes

_CONNECTION = struct.Struct("<4h")


class Router(StreamNode):
    """Channels to channels; it moves the least of what its arcs have and take."""

    def reset(self, setup: NodeSetup) -> None:
        """Take the formats, all of one raw width."""
        if not setup.inputs or not setup.outputs:
            raise NodeError("a router has at least an input and an output")
        self._readers = [FrameReader(form) for form in setup.inputs]
        self._writers = [FrameWriter(form) for form in setup.outputs]
        layouts = [each.layout for each in self._readers] + [each.layout for each in self._writers]
        if len({layout.dtype.itemsize for layout in layouts}) > 1:
            raise NodeError("its arcs have samples of several widths: put converters before it")
        self._connections: list[tuple[int, int, int, int]] = []

    def set_parameter(self, tag: int, data: bytes) -> None:
        if tag:
            raise NodeError(f"unknown parameter {tag}: the router has the whole block, 0")
        need_bytes(data, 2, "the parameters of a router")
        inputs, outputs = struct.unpack_from("<2b", data)
        if (inputs, outputs) != (len(self._readers), len(self._writers)):
            raise NodeError(
                f"its parameters have {inputs} inputs and {outputs} outputs, "
                f"its arcs are {len(self._readers)} and {len(self._writers)}"
            )
        end = 2 + (len(data) - 2) // _CONNECTION.size * _CONNECTION.size
        connections = []
        for source, channel, target, to_channel in _CONNECTION.iter_unpack(data[2:end]):
            if not 0 <= source < inputs or not 0 <= channel < self._readers[source].layout.channels:
                raise NodeError(f"unknown channel {channel} of an input {source}")
            if not inputs <= target < inputs + outputs:
                raise NodeError(f"arc {target} is not an output, they are {inputs} to {inputs + outputs - 1}")
            if not 0 <= to_channel < self._writers[target - inputs].layout.channels:
                raise NodeError(f"unknown channel {to_channel} of the output {target}")
            connections.append((source, channel, target - inputs, to_channel))
        self._connections = connections

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        sources = [reader.read(memory) for reader, memory in zip(self._readers, inputs, strict=True)]
        rooms = [writer.room(memory) for writer, memory in zip(self._writers, outputs, strict=True)]
        count = min(*map(len, sources), *rooms)
        layouts = [writer.layout for writer in self._writers]
        made = [np.zeros((count, layout.channels), layout.dtype) for layout in layouts]
        for source, channel, to, to_channel in self._connections:
            values = np.ascontiguousarray(sources[source][:count, channel])
            made[to][:, to_channel] = values.view(made[to].dtype)
        return Moved(
            [reader.use(count) for reader in self._readers],
            [
                writer.write(samples, memory)
                for writer, samples, memory in zip(self._writers, made, outputs, strict=True)
            ],
        )
