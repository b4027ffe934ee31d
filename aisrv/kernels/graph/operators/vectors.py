"""The rescaling of whole tensors, for operators of the graph."""

import numpy as np
import numpy.typing as npt

from aisrv.kernels.arithmetic import Multiplier


def multiply(values: npt.NDArray[np.int64], multiplier: Multiplier) -> npt.NDArray[np.int64]:
    """M(x, m, s) of each value, with double rounding ("The INT8 kernel engine", section Arithmetic)."""
    left, right = max(multiplier.shift, 0), max(-multiplier.shift, 0)
    # Large factors leave nothing of 8 bits unclamped; saturating keeps their products in 64 bits.
    widened = np.clip(values << left, -(1 << 31), (1 << 31) - 1)
    product = (widened * multiplier.mantissa + (1 << 30)) >> 31
    if not right:
        return product
    shifted: npt.NDArray[np.int64] = (product + (1 << (right - 1)) - (product < 0)) >> right
    return shifted
