"""Frames of samples: read from an arc, and written to one in whole frames.

A node is called when each input has a frame and each output room for one. Part of a frame that is left in an
arc could keep the next one out for good. So a reader leaves a frame in its arc until all of it is used, and a
writer keeps what is not a whole frame yet for the node's next run.

Below, `form`, `source` and `target` are formats of arcs, `memory` is bytes of one, and `samples` or those
`made` have the shape (instants, channels); `instants`, or a `count` of them, are samples of all channels at
one time.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.graph.binary.model import Format
from aisrv.addons.graph.nodes.arcs import Bytes
from aisrv.addons.graph.nodes.node import Moved, NodeError, NodeSetup, StreamNode, need_arcs
from aisrv.addons.graph.nodes.samples import U8, dtype_of

Samples = npt.NDArray[Any]

_STAMP_BYTES: Final = (2, 4, 8, 8)


class Layout:
    """Order of samples in the frames of an arc. Raises NodeError if a frame is no whole number of them."""

    def __init__(self, form: Format) -> None:
        self.dtype = dtype_of(form)
        self.channels = form.channels
        self.instant = self.dtype.itemsize * form.channels
        """Bytes of a sample of each channel."""
        self.frame = form.frame_bytes
        self._stamp = _STAMP_BYTES[form.time_stamp_size] if form.time_stamp else 0
        self._planes = bool(form.deinterleaved) and form.channels > 1
        self.instants, odd = divmod(self.frame - self._stamp, self.instant)
        """Instants of a frame."""
        if odd or self.instants < 1:
            raise NodeError(
                f"a frame of {self.frame} bytes is not a whole number of samples of {self.instant} bytes"
            )
        self._framed = self._planes or self._stamp > 0

    def read(self, memory: Bytes) -> Samples:
        """Return the samples: whole frames if these have a structure, else instants."""
        if not self._framed:
            return (
                memory[: len(memory) // self.instant * self.instant]
                .view(self.dtype)
                .reshape(-1, self.channels)
            )
        frames = memory[: len(memory) // self.frame * self.frame].reshape(-1, self.frame)
        samples = np.ascontiguousarray(frames[:, self._stamp :]).view(self.dtype)
        if self._planes:
            samples = samples.reshape(-1, self.channels, self.instants).transpose(0, 2, 1)
        return samples.reshape(-1, self.channels)

    def size(self, instants: int) -> int:
        """Return the bytes of instants: of whole frames if these have a structure."""
        return instants // self.instants * self.frame if self._framed else instants * self.instant

    def write(self, samples: Samples, memory: Bytes) -> None:
        """Put the samples of whole frames into memory of their size."""
        if self._planes:
            samples = samples.reshape(-1, self.instants, self.channels).transpose(0, 2, 1)
        memory[:] = np.ascontiguousarray(samples, self.dtype).reshape(-1).view(np.uint8)


class FrameReader:
    """The samples of an input. A frame stays in the arc until all of it is used."""

    def __init__(self, form: Format) -> None:
        """Begin anew. Raises NodeError for a format that has no whole samples."""
        self.layout: Final = Layout(form)
        self._used = 0
        self._there = 0

    def read(self, memory: Bytes) -> Samples:
        """Return the samples in the arc that are not used yet."""
        samples = self.layout.read(memory)
        self._there = len(samples)
        self._used = min(self._used, self._there)
        return samples[self._used :]

    def use(self, count: int, *, hold: bool = False) -> int:
        """Use the first instants of the last `read`; return the bytes that leave the arc, 0 with `hold`."""
        self._used += count
        if hold:
            return 0
        frames = self.layout.instants
        leaving = self._used if self._used == self._there else self._used // frames * frames
        self._used -= leaving
        return self.layout.size(leaving)


class FrameWriter:
    """The samples of an output. A rest that is not a whole frame waits for the next run."""

    def __init__(self, form: Format) -> None:
        """Begin anew. Raises NodeError for a format that has no whole samples, or time-stamps."""
        self.layout: Final = Layout(form)
        if form.time_stamp:
            raise NodeError("its output has time-stamps, which it does not make")
        self._rest: Samples = np.empty((0, form.channels), self.layout.dtype)

    @property
    def full(self) -> bool:
        """Return whether a whole frame waits."""
        return len(self._rest) >= self.layout.instants

    def room(self, memory: Bytes) -> int:
        """Return how many instants, besides those that wait, fill the whole frames of the memory."""
        return max(0, len(memory) // self.layout.frame * self.layout.instants - len(self._rest))

    def write(self, made: Samples, memory: Bytes) -> int:
        """Write the whole frames that fit, of the rest and of `made`; return their bytes."""
        layout = self.layout
        samples = np.concatenate([self._rest, made]) if len(self._rest) else made
        frames = min(len(samples) // layout.instants, len(memory) // layout.frame)
        whole, size = frames * layout.instants, frames * layout.frame
        layout.write(samples[:whole], memory[:size])
        self._rest = samples[whole:].astype(layout.dtype)
        return size


class SampleNode(StreamNode):
    """Base of nodes that make samples of samples, one input and one output: see `process`."""

    def reset(self, setup: NodeSetup) -> None:
        """Take the formats, of equal channels. Raises NodeError."""
        need_arcs(setup, 1, 1)
        source, target = setup.inputs[0], setup.outputs[0]
        if source.channels != target.channels:
            raise NodeError("input and output differ in channels: put a converter before it")
        self.begin(source, target)

    def begin(self, source: Format, target: Format) -> None:
        """Begin anew with these formats."""
        self._reader, self._writer = FrameReader(source), FrameWriter(target)

    def takes(self, room: int) -> int:
        """Return how many instants to read if the output has room for `room`."""
        return room

    def process(self, samples: Samples) -> Samples:
        """Process samples, a view of the arc's memory: (instants, channels) of the arcs' raw types."""
        raise NotImplementedError

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        samples = self._reader.read(inputs[0])
        count = min(len(samples), self.takes(self._writer.room(outputs[0])))
        produced = self._writer.write(self.process(samples[:count]), outputs[0])
        return Moved((self._reader.use(count, hold=self._writer.full),), (produced,))


def as_bytes(form: Format) -> Format:
    """Return the format of frames whose content does not matter."""
    return replace(form, raw=U8, other_channels=0, deinterleaved=0, time_stamp=0)


def as_stream(form: Format) -> Format:
    """Return the format of frames whose samples are taken one after the other, whatever their channel."""
    return replace(form, other_channels=0, deinterleaved=0)
