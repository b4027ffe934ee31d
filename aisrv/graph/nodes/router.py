"""`arm_stream_router` (3): sends channels of its inputs to channels of its outputs.

Parameters: i8 inputs, i8 outputs, then four i16 for each connection: input arc, channel, output arc, channel.
Arcs are numbered inputs first. Channels that no connection names are 0.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aisrv.graph.arcs import Bytes
from aisrv.graph.model import Format
from aisrv.graph.nodes.node import Moved, NodeError, NodeSetup, StreamNode, need_bytes
from aisrv.graph.nodes.samples import dtype_of

_CONNECTION = struct.Struct("<4h")


class _Side:
    """How samples lie in an arc."""

    def __init__(self, form: Format) -> None:
        self.dtype = dtype_of(form)
        self.channels = form.channels
        self.instant = self.dtype.itemsize * form.channels
        self.frame = form.frame_bytes // self.instant if form.deinterleaved and form.channels > 1 else 1
        """Instants that can only be moved together."""
        if self.frame < 1:
            raise NodeError(f"a frame of {form.frame_bytes} bytes has no sample of {form.channels} channels")

    def view(self, memory: Bytes, count: int) -> npt.NDArray[Any]:
        """Return samples as (frames, instants, channels)."""
        samples = memory[: count * self.instant].view(self.dtype)
        if self.frame == 1:
            return samples.reshape(count, 1, self.channels)
        return samples.reshape(-1, self.channels, self.frame).transpose(0, 2, 1)


class Router(StreamNode):
    """Channels to channels; it moves the least of what its arcs have and take."""

    def reset(self, setup: NodeSetup) -> None:
        """Take the formats, all of one raw width."""
        if not setup.inputs or not setup.outputs:
            raise NodeError("a router has at least an input and an output")
        self._inputs = [_Side(form) for form in setup.inputs]
        self._outputs = [_Side(form) for form in setup.outputs]
        sides = [*self._inputs, *self._outputs]
        if len({side.dtype.itemsize for side in sides}) > 1:
            raise NodeError("its arcs have samples of several widths: put converters before it")
        self._unit = int(np.lcm.reduce([side.frame for side in sides]))
        self._connections: list[tuple[int, int, int, int]] = []

    def set_parameter(self, tag: int, data: bytes) -> None:
        """Take the connections."""
        if tag:
            raise NodeError(f"there is no parameter {tag}: the router has the whole block, 0")
        need_bytes(data, 2, "the parameters of a router")
        inputs, outputs = struct.unpack_from("<2b", data)
        if (inputs, outputs) != (len(self._inputs), len(self._outputs)):
            raise NodeError(
                f"its parameters have {inputs} inputs and {outputs} outputs, "
                f"its arcs are {len(self._inputs)} and {len(self._outputs)}"
            )
        end = 2 + (len(data) - 2) // _CONNECTION.size * _CONNECTION.size
        connections = []
        for source, channel, target, to_channel in _CONNECTION.iter_unpack(data[2:end]):
            if not 0 <= source < inputs or not 0 <= channel < self._inputs[source].channels:
                raise NodeError(f"there is no channel {channel} of an input {source}")
            if not inputs <= target < inputs + outputs:
                raise NodeError(f"arc {target} is not an output, they are {inputs} to {inputs + outputs - 1}")
            if not 0 <= to_channel < self._outputs[target - inputs].channels:
                raise NodeError(f"there is no channel {to_channel} of the output {target}")
            connections.append((source, channel, target - inputs, to_channel))
        self._connections = connections

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        """Move as many instants as all arcs have or take."""
        sides = [*zip(self._inputs, inputs, strict=True), *zip(self._outputs, outputs, strict=True)]
        count = min(len(memory) // side.instant for side, memory in sides)
        count -= count % self._unit
        sources = [side.view(memory, count) for side, memory in zip(self._inputs, inputs, strict=True)]
        flat = [side.view(memory, count) for side, memory in zip(self._outputs, outputs, strict=True)]
        for target in flat:
            target[...] = 0
        for source, channel, to, to_channel in self._connections:
            values = np.ascontiguousarray(sources[source][:, :, channel]).reshape(-1)
            out = flat[to]
            out[:, :, to_channel] = values.view(out.dtype).reshape(out.shape[:2])
        return Moved(
            [count * side.instant for side in self._inputs], [count * side.instant for side in self._outputs]
        )
