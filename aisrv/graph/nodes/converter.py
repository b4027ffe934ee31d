"""`sigp_stream_converter` (4) and `arm_stream_format_converter` (2): from one format to another.

A time-stamp is stripped, then raw type, channels, rate and interleaving change, in this order. The rate
changes by straight lines between samples, at k*f_in/f_out in exact fractions, without a filter.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from aisrv.graph.arcs import Bytes
from aisrv.graph.model import Format
from aisrv.graph.nodes.node import Moved, NodeError, NodeSetup, StreamNode, need_arcs
from aisrv.graph.nodes.samples import convert, dtype_of

Samples = npt.NDArray[Any]

_STAMP_BYTES: Final = (2, 4, 8, 8)
_MOST_RATIO: Final = 1 << 24
_MOST_MADE: Final = 1 << 22


class _Layout:
    """How samples lie in the frames of an arc."""

    def __init__(self, form: Format) -> None:
        self.dtype = dtype_of(form)
        self.channels = form.channels
        self.instant = self.dtype.itemsize * form.channels
        self.stamp = _STAMP_BYTES[form.time_stamp_size] if form.time_stamp else 0
        self.planes = bool(form.deinterleaved) and form.channels > 1
        framed = self.planes or self.stamp
        self.unit = form.frame_bytes if framed else self.instant
        """Bytes that can only be moved together: a frame, or an instant."""
        self.instants, odd = divmod(self.unit - self.stamp, self.instant)
        """Instants of a unit."""
        if odd or self.instants < 1:
            raise NodeError(
                f"a frame of {form.frame_bytes} bytes is not a whole number of samples, "
                f"{form.channels} channels"
            )

    def read(self, memory: Bytes) -> Samples:
        """Return whole units as (instants, channels)."""
        units = memory.reshape(-1, self.unit)[:, self.stamp :]
        samples = np.ascontiguousarray(units).view(self.dtype)
        if not self.planes:
            return samples.reshape(-1, self.channels)
        return samples.reshape(-1, self.channels, self.instants).transpose(0, 2, 1).reshape(-1, self.channels)

    def write(self, samples: Samples, memory: Bytes) -> None:
        """Put (instants, channels), whole units of them, into memory."""
        if self.planes:
            samples = samples.reshape(-1, self.instants, self.channels).transpose(0, 2, 1)
        memory[:] = np.ascontiguousarray(samples, self.dtype).reshape(-1).view(np.uint8)


class Converter(StreamNode):
    """Converts between the formats of its arcs."""

    takes_time_stamps: ClassVar[bool] = True

    def reset(self, setup: NodeSetup) -> None:
        """Take the formats."""
        need_arcs(setup, 1, 1)
        source, target = setup.inputs[0], setup.outputs[0]
        self._source, self._target = _Layout(source), _Layout(target)
        if target.time_stamp:
            raise NodeError("its output has time-stamps, which it does not make")
        self._step = Fraction(1)
        if source.sampling_rate > 0 and target.sampling_rate > 0:
            self._step = Fraction(source.sampling_rate) / Fraction(target.sampling_rate)
        if max(self._step.numerator, self._step.denominator) > _MOST_RATIO:
            self._step = self._step.limit_denominator(1 << 16)
        if not self._step:
            raise NodeError(f"rates of {source.sampling_rate} and {target.sampling_rate} are too far apart")
        if self._source.instants / self._step > _MOST_MADE:
            raise NodeError(f"a frame would become more than {_MOST_MADE} samples")
        self._tail = np.empty((0, self._target.channels), self._target.dtype)
        """Instants that the next output still needs, from index `_first` on."""
        self._first = 0
        self._next = 0
        """Number of the next output."""
        self._pending = self._tail
        """Outputs that are not a whole unit yet."""

    def set_parameter(self, tag: int, data: bytes) -> None:
        """Take nothing: the formats say all. Blocks are accepted, as the manifests have them."""
        del tag, data

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        """Convert as much as is there and fits."""
        source, target = self._source, self._target
        units = len(inputs[0]) // source.unit
        room = len(outputs[0]) // target.unit * target.instants - len(self._pending)
        fitting = self._acceptable(max(0, room)) // source.instants
        if len(self._pending) < target.instants:
            fitting = max(1, fitting)  # what it makes and does not fit waits for the next call
        units = max(0, min(units, fitting))
        consumed = units * source.unit
        made = self._resample(self._mix(convert(source.read(inputs[0][:consumed]), target.dtype)))
        ready = np.concatenate([self._pending, made]) if len(self._pending) else made
        whole = min(len(ready), len(outputs[0]) // target.unit * target.instants)
        whole -= whole % target.instants
        produced = whole * target.instant
        target.write(ready[:whole], outputs[0][:produced])
        self._pending = ready[whole:].copy()
        return Moved((consumed,), (produced,))

    def _acceptable(self, room: int) -> int:
        """Count the instants whose outputs fit into the room for `room`."""
        bound = (self._next + room) * self._step
        return -(-bound.numerator // bound.denominator) - self._first - len(self._tail)

    def _mix(self, samples: Samples) -> Samples:
        """Change the number of channels: to one their mean, from one copies, else missing ones are 0."""
        channels = self._target.channels
        if samples.shape[1] == channels:
            return samples
        if channels == 1:
            if samples.dtype.kind == "f":
                mean: Samples = samples.mean(axis=1, keepdims=True)
                return mean.astype(samples.dtype)
            total: Samples = samples.astype(np.int64).sum(axis=1, keepdims=True)
            floor: Samples = (total // samples.shape[1]).astype(samples.dtype)
            return floor
        if samples.shape[1] == 1:
            return np.repeat(samples, channels, axis=1)
        zero = 1 << 8 * samples.dtype.itemsize - 1 if samples.dtype.kind == "u" else 0
        mixed = np.full((len(samples), channels), zero, samples.dtype)
        kept = min(channels, samples.shape[1])
        mixed[:, :kept] = samples[:, :kept]
        return mixed

    def _resample(self, samples: Samples) -> Samples:
        """Return the outputs that lie between the instants known, keeping those that the next one needs."""
        if self._step == 1:
            self._next += len(samples)
            self._first += len(samples)
            return samples
        known = np.concatenate([self._tail, samples])
        last = self._first + len(known) - 1
        p, q = self._step.numerator, self._step.denominator
        end = max(self._next, last * q // p + 1)
        at = np.arange(self._next, end, dtype=np.int64) * p
        index, part = at // q - self._first, (at % q)[:, None]
        made: Samples
        low, high = known[index], known[np.minimum(index + 1, len(known) - 1)]
        if known.dtype.kind == "f":
            made = (low + (high.astype(np.float64) - low) * (part / q)).astype(known.dtype)
        else:
            exact = low.astype(np.int64) * (q - part) + high.astype(np.int64) * part
            made = ((2 * exact + q) // (2 * q)).astype(known.dtype)
        self._next = end
        needed = min(max(end * p // q - self._first, 0), len(known))
        self._tail = known[needed:].copy()
        self._first += needed
        return made
