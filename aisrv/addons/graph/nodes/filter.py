"""`arm_stream_filter` (7): one or two biquads in a row, for each channel.

In 16 bits: acc = b0*x + b1*x1 + b2*x2 + a1*y1 + a2*y2 in 32 bits with wrap, the coefficients a added;
y = sat16(acc >> (15 - postShift)). Without parameters samples pass through.
"""

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from aisrv.addons.graph.nodes.frames import SampleNode
from aisrv.addons.graph.nodes.node import NodeError, NodeSetup, need_bytes
from aisrv.addons.graph.nodes.samples import Samples, need_type

MOST_STAGES: Final = 2
_COEFFICIENTS: Final = 5
_WRAP: Final = 1 << 31
_MASK: Final = (1 << 32) - 1


class Biquad:
    """One stage for one channel of 16-bit samples."""

    def __init__(self, coefficients: Sequence[int], shift: int) -> None:
        self._coefficients = tuple(coefficients)
        self._shift = shift
        self.state = (0, 0, 0, 0)
        """x1, x2, y1, y2."""

    def __call__(self, samples: list[int]) -> list[int]:
        b0, b1, b2, a1, a2 = self._coefficients
        x1, x2, y1, y2 = self.state
        shift = self._shift
        out: list[int] = []
        append = out.append
        for x in samples:
            acc = b0 * x + b1 * x1 + b2 * x2 + a1 * y1 + a2 * y2
            if not -_WRAP <= acc < _WRAP:
                acc = (acc + _WRAP & _MASK) - _WRAP
            y = acc >> shift
            if y > 32767:
                y = 32767
            elif y < -32768:
                y = -32768
            append(y)
            x2 = x1
            x1 = x
            y2 = y1
            y1 = y
        self.state = x1, x2, y1, y2
        return out


class FloatBiquad:
    """One stage for one channel of float32 samples; each operation rounds to float32."""

    def __init__(self, coefficients: Sequence[float]) -> None:
        self._coefficients = tuple(np.float32(value) for value in coefficients)
        zero = np.float32(0)
        self.state = (zero, zero, zero, zero)

    def __call__(self, samples: Samples) -> Samples:
        b0, b1, b2, a1, a2 = self._coefficients
        x1, x2, y1, y2 = self.state
        out = np.empty(len(samples), np.float32)
        with np.errstate(all="ignore"):
            for index, x in enumerate(samples):
                y = b0 * x + b1 * x1 + b2 * x2 + a1 * y1 + a2 * y2
                out[index] = y
                x2, x1, y2, y1 = x1, x, y1, y
        self.state = x1, x2, y1, y2
        return out


class Filter(SampleNode):
    """Biquads for each channel; RESET clears their state, SET_PARAMETER keeps it."""

    def reset(self, setup: NodeSetup) -> None:
        """Take the formats, which must be equal in raw type and channels."""
        super().reset(setup)
        self._dtype = need_type(setup.inputs[0], "<i2", "<f4")
        need_type(setup.outputs[0], self._dtype.str)
        self._channels = setup.inputs[0].channels
        self._stages: list[list[Biquad]] = []
        self._float_stages: list[list[FloatBiquad]] = []

    def set_parameter(self, tag: int, data: bytes) -> None:
        """Take stages, postShift and the coefficients: s16, or f32 if samples are floats."""
        if tag:
            raise NodeError(f"unknown parameter {tag}: the filter has the whole block, 0")
        need_bytes(data, 2, "the parameters of a filter")
        stages, post_shift = data[0], data[1]
        if not 1 <= stages <= MOST_STAGES:
            raise NodeError(f"a filter has 1 to {MOST_STAGES} stages, not {stages}")
        if post_shift > 15:
            raise NodeError(f"a postShift of {post_shift}, at most 15")
        floats = self._dtype.kind == "f"
        size = stages * _COEFFICIENTS * (4 if floats else 2)
        need_bytes(data, 2 + size, f"the parameters of {stages} stages")
        values = struct.unpack_from(f"<{stages * _COEFFICIENTS}{'f' if floats else 'h'}", data, 2)
        sets = [values[n * _COEFFICIENTS : (n + 1) * _COEFFICIENTS] for n in range(stages)]
        if floats:
            fresh = [[FloatBiquad(each) for each in sets] for _ in range(self._channels)]
            _keep_state(self._float_stages, fresh)
            self._float_stages = fresh
        else:
            new = [[Biquad(each, 15 - post_shift) for each in sets] for _ in range(self._channels)]
            _keep_state(self._stages, new)
            self._stages = new

    def process(self, samples: Samples) -> Samples:
        if not self._stages and not self._float_stages:
            return samples
        columns = [self._filter(channel, samples[:, channel]) for channel in range(self._channels)]
        return np.stack(columns, axis=1)

    def _filter(self, channel: int, samples: Samples) -> Samples:
        if self._float_stages:
            for stage in self._float_stages[channel]:
                samples = stage(samples)
            return samples
        values: list[int] = samples.tolist()
        for each in self._stages[channel]:
            values = each(values)
        return np.array(values, np.int16)


def _keep_state(
    old: Sequence[Sequence[Biquad | FloatBiquad]], new: Sequence[Sequence[Biquad | FloatBiquad]]
) -> None:
    for channel, fresh in zip(old, new, strict=False):
        for stage, fresh_stage in zip(channel, fresh, strict=False):
            fresh_stage.state = stage.state
