"""Tensors as the float32 numbers that cross the bus, and back.

A quantized element q stands for (q - zero point) * scale; halves round away from zero, and NaN is 0.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from aisrv.model.values import TensorType
from aisrv.protocol.tensor_descriptions import TensorDescription

FLOAT_BYTES: Final = 4

DTYPES: Final[dict[int, np.dtype[np.generic]]] = {
    TensorType.FLOAT32: np.dtype("<f4"),
    TensorType.FLOAT16: np.dtype("<f2"),
    TensorType.FLOAT64: np.dtype("<f8"),
    TensorType.INT8: np.dtype("i1"),
    TensorType.UINT8: np.dtype("u1"),
    TensorType.INT16: np.dtype("<i2"),
    TensorType.UINT16: np.dtype("<u2"),
    TensorType.INT32: np.dtype("<i4"),
    TensorType.UINT32: np.dtype("<u4"),
    TensorType.INT64: np.dtype("<i8"),
    TensorType.BOOL: np.dtype("u1"),
}
"""Tensor types that can be converted to and from float32."""


def is_convertible(tensor: TensorDescription) -> bool:
    return tensor.type in DTYPES


def to_tensor(floats: bytes, tensor: TensorDescription) -> bytes:
    """Check whether the tensor's elements can be converted to float32."""
    values: NDArray[np.float64] = np.frombuffer(floats, "<f4").astype(np.float64)
    dtype = DTYPES[tensor.type]
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return values.astype(dtype).tobytes()
    values[np.isnan(values)] = 0.0
    if tensor.scale:
        values /= tensor.scale
    rounded = np.copysign(np.floor(np.abs(values) + 0.5), values)
    rounded += tensor.zero_point if tensor.scale else 0
    lowest, highest = (0, 1) if tensor.type == TensorType.BOOL else _limits(dtype)
    return _clamped(rounded, lowest, highest, dtype).tobytes()


def to_floats(data: bytes, tensor: TensorDescription) -> bytes:
    """Convert a tensor's bytes to float32 numbers."""
    dtype = DTYPES[tensor.type]
    values: NDArray[np.float64] = np.frombuffer(data, dtype).astype(np.float64)
    if dtype.kind != "f" and tensor.scale:
        values = (values - tensor.zero_point) * np.float64(tensor.scale)
    with np.errstate(over="ignore"):
        return values.astype("<f4").tobytes()


def _limits(dtype: np.dtype[np.generic]) -> tuple[int, int]:
    bits = 8 * dtype.itemsize
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)


def _clamped(
    values: NDArray[np.float64], lowest: int, highest: int, dtype: np.dtype[np.generic]
) -> NDArray[np.generic]:
    # The highest int64 is not a float64: what reaches it is set apart.
    above = values >= float(highest)
    clamped = np.where(above, 0.0, np.maximum(values, float(lowest))).astype(dtype)
    clamped[above] = highest
    return clamped
