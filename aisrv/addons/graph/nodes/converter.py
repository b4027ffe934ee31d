"""`sigp_stream_converter` (4) and `arm_stream_format_converter` (2): from one format to another.

A time-stamp is stripped, then raw type, channels, rate and interleaving change, in this order. The rate
changes by straight lines between samples, at k*f_in/f_out in exact fractions, without a filter.
"""

from fractions import Fraction
from typing import ClassVar, Final

import numpy as np

from aisrv.addons.graph.nodes.frames import SampleNode, Samples
from aisrv.addons.graph.nodes.node import NodeError, NodeSetup, need_arcs
from aisrv.addons.graph.nodes.samples import convert

_MOST_RATIO: Final = 1 << 24
_MOST_MADE: Final = 1 << 22


class Converter(SampleNode):
    """Converts between the formats of its arcs."""

    takes_time_stamps: ClassVar[bool] = True

    def reset(self, setup: NodeSetup) -> None:
        need_arcs(setup, 1, 1)
        source, target = setup.inputs[0], setup.outputs[0]
        self.begin(source, target)
        self._target = self._writer.layout
        self._step = Fraction(1)
        if source.sampling_rate > 0 and target.sampling_rate > 0:
            self._step = Fraction(source.sampling_rate) / Fraction(target.sampling_rate)
        if max(self._step.numerator, self._step.denominator) > _MOST_RATIO:
            self._step = self._step.limit_denominator(1 << 16)
        if not self._step:
            raise NodeError(f"rates of {source.sampling_rate} and {target.sampling_rate} are too far apart")
        if self._reader.layout.instants / self._step > _MOST_MADE:
            raise NodeError(f"a frame would become more than {_MOST_MADE} samples")
        self._tail: Samples = np.empty((0, self._target.channels), self._target.dtype)
        """Instants that the next output still needs, from index `_first` on."""
        self._first = 0
        self._next = 0

    def set_parameter(self, tag: int, data: bytes) -> None:
        """Accept blocks, as the manifests have them; the formats say all."""
        del tag, data

    def takes(self, room: int) -> int:
        """Return how many instants become `room` of the output's rate; one becomes more than fit at times."""
        bound = (self._next + room) * self._step
        fitting = -(-bound.numerator // bound.denominator) - self._first - len(self._tail)
        return max(1, fitting) if room else 0

    def process(self, samples: Samples) -> Samples:
        return self._resample(self._mix(convert(samples, self._target.dtype)))

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
        """Return the outputs between the known instants, keeping those that the next one needs."""
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
