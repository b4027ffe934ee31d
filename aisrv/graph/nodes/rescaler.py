"""`arm_stream_rescaler` (9): a curve through 2 to 32 points, straight between them, its ends held.

Integer samples count as fractions of full scale, floats as they are; it computes in float64.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from aisrv.graph.arcs import Bytes
from aisrv.graph.nodes.node import Moved, NodeError, NodeSetup, StreamNode, need_arcs
from aisrv.graph.nodes.samples import bits_of, dtype_of, from_signed, to_signed

MOST_POINTS: Final = 32


class Rescaler(StreamNode):
    """Parameters: pairs f32 x, v, x rising."""

    def reset(self, setup: NodeSetup) -> None:
        """Take the formats; without parameters the curve is the identity."""
        need_arcs(setup, 1, 1)
        self._source, self._target = dtype_of(setup.inputs[0]), dtype_of(setup.outputs[0])
        self._x = np.array([-1.0, 1.0])
        self._v = np.array([-1.0, 1.0])

    def set_parameter(self, tag: int, data: bytes) -> None:
        """Take the points."""
        if tag:
            raise NodeError(f"there is no parameter {tag}: the rescaler has the whole block, 0")
        points = len(data) // 8
        if not 2 <= points <= MOST_POINTS:
            raise NodeError(f"a curve has 2 to {MOST_POINTS} points of 8 bytes, not {len(data)} bytes")
        pairs = np.frombuffer(data[: 8 * points], "<f4").astype(np.float64).reshape(-1, 2)
        if not np.isfinite(pairs).all() or not (np.diff(pairs[:, 0]) > 0).all():
            raise NodeError("the points of the curve are not finite numbers with x rising")
        self._x, self._v = pairs[:, 0].copy(), pairs[:, 1].copy()

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        """Rescale as many samples as are there and fit."""
        count = min(len(inputs[0]) // self._source.itemsize, len(outputs[0]) // self._target.itemsize)
        consumed, produced = count * self._source.itemsize, count * self._target.itemsize
        samples = inputs[0][:consumed].view(self._source)
        if self._source.kind == "f":
            x = np.nan_to_num(samples.astype(np.float64), nan=0.0)
        else:
            x = to_signed(samples) / float(1 << bits_of(self._source) - 1)
        x = np.clip(x, self._x[0], self._x[-1])
        at = np.clip(np.searchsorted(self._x, x, side="right") - 1, 0, len(self._x) - 2)
        x0, v0 = self._x[at], self._v[at]
        v = v0 + (x - x0) * (self._v[at + 1] - v0) / (self._x[at + 1] - x0)
        target = outputs[0][:produced].view(self._target)
        if self._target.kind == "f":
            target[:] = v
        else:
            full = float(1 << bits_of(self._target) - 1)
            rounded = np.floor(0.5 + np.clip(v, -2.0, 2.0) * full).astype(np.int64)
            target[:] = from_signed(rounded, self._target)
        return Moved((consumed,), (produced,))
