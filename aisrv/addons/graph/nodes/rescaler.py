"""`arm_stream_rescaler` (9): a curve through 2 to 32 points, straight between them, its ends held.

Integer samples count as fractions of full scale, floats as they are; it computes in float64.
"""

from typing import Final

import numpy as np

from aisrv.addons.graph.nodes.frames import SampleNode, Samples
from aisrv.addons.graph.nodes.node import NodeError, NodeSetup
from aisrv.addons.graph.nodes.samples import bits_of, from_signed, to_signed

MOST_POINTS: Final = 32


class Rescaler(SampleNode):
    """Parameters: pairs f32 x, v, x rising."""

    def reset(self, setup: NodeSetup) -> None:
        """Take the formats; without parameters the curve is the identity."""
        super().reset(setup)
        self._target = self._writer.layout.dtype
        self._x = np.array([-1.0, 1.0])
        self._v = np.array([-1.0, 1.0])

    def set_parameter(self, tag: int, data: bytes) -> None:
        if tag:
            raise NodeError(f"unknown parameter {tag}: the rescaler has the whole block, 0")
        points = len(data) // 8
        if not 2 <= points <= MOST_POINTS:
            raise NodeError(f"a curve has 2 to {MOST_POINTS} points of 8 bytes, not {len(data)} bytes")
        pairs = np.frombuffer(data[: 8 * points], "<f4").astype(np.float64).reshape(-1, 2)
        if not np.isfinite(pairs).all() or not (np.diff(pairs[:, 0]) > 0).all():
            raise NodeError("the points of the curve are not finite numbers with x rising")
        self._x, self._v = pairs[:, 0].copy(), pairs[:, 1].copy()

    def process(self, samples: Samples) -> Samples:
        if samples.dtype.kind == "f":
            x = np.nan_to_num(samples.astype(np.float64), nan=0.0)
        else:
            x = to_signed(samples) / float(1 << bits_of(samples.dtype) - 1)
        x = np.clip(x, self._x[0], self._x[-1])
        at = np.clip(np.searchsorted(self._x, x, side="right") - 1, 0, len(self._x) - 2)
        x0, v0 = self._x[at], self._v[at]
        v: Samples = v0 + (x - x0) * (self._v[at + 1] - v0) / (self._x[at + 1] - x0)
        if self._target.kind == "f":
            return v
        full = float(1 << bits_of(self._target) - 1)
        rounded = np.floor(0.5 + np.clip(v, -2.0, 2.0) * full).astype(np.int64)
        return from_signed(rounded, self._target)
