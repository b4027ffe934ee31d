"""Element types of tensors as NumPy knows them."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aisrv.model.values import TensorType

DTYPES: Final[Mapping[int, np.dtype[Any]]] = {
    TensorType.BOOL: np.dtype("?"),
    TensorType.INT8: np.dtype("i1"),
    TensorType.UINT8: np.dtype("u1"),
    TensorType.INT16: np.dtype("<i2"),
    TensorType.INT32: np.dtype("<i4"),
    TensorType.INT64: np.dtype("<i8"),
    TensorType.FLOAT32: np.dtype("<f4"),
}
"""NumPy types of the elements that can be written, and computed by kernels."""
