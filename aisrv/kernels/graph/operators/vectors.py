"""The rescaling of whole tensors, for operators of the graph."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.kernels.arithmetic import INT32_MAX, INT32_MIN, Multiplier

Scale: TypeAlias = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]
"""Rescales values into a new array."""


def multiply(values: npt.NDArray[np.int64], multiplier: Multiplier) -> npt.NDArray[np.int64]:
    """M(x, m, s) of each value, with double rounding ("The INT8 kernel engine", section Arithmetic)."""
    left, right = max(multiplier.shift, 0), max(-multiplier.shift, 0)
    scaled: npt.NDArray[np.int64] = values << left
    # Large factors leave nothing of 8 bits unclamped; saturating keeps their products in 64 bits.
    np.clip(scaled, INT32_MIN, INT32_MAX, out=scaled)
    scaled *= multiplier.mantissa
    scaled += 1 << 30
    scaled >>= 31
    if right:
        less = scaled < 0
        scaled += 1 << (right - 1)
        scaled -= less
        scaled >>= right
    return scaled


def column_scale(multipliers: Sequence[Multiplier]) -> Scale:
    """M(x, m, s) with a multiplier for each index of the last dimension, as `multiply`."""
    mantissa = np.array([each.mantissa for each in multipliers], np.int64)
    shift = np.array([each.shift for each in multipliers], np.int64)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    half, is_rounded = (1 << right) >> 1, right > 0

    def scale(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        scaled: npt.NDArray[np.int64] = values << left
        np.clip(scaled, INT32_MIN, INT32_MAX, out=scaled)
        scaled *= mantissa
        scaled += 1 << 30
        scaled >>= 31
        less = (scaled < 0) & is_rounded
        scaled += half
        scaled -= less
        scaled >>= right
        return scaled

    return scale
