"""Samples of the raw types that nodes compute with, as NumPy types, and their conversion to each other."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.graph.binary.model import Format
from aisrv.addons.graph.nodes.node import NodeError

Samples = npt.NDArray[Any]

S8: Final = 11
U8: Final = 12
Q7: Final = 13
S16: Final = 17
U16: Final = 18
Q15: Final = 19
S32: Final = 24
U32: Final = 25
Q31: Final = 26
FP32: Final = 27
FP64: Final = 34

DTYPES: Final[dict[int, np.dtype[Any]]] = {
    S8: np.dtype("<i1"),
    U8: np.dtype("<u1"),
    Q7: np.dtype("<i1"),
    S16: np.dtype("<i2"),
    U16: np.dtype("<u2"),
    Q15: np.dtype("<i2"),
    S32: np.dtype("<i4"),
    U32: np.dtype("<u4"),
    Q31: np.dtype("<i4"),
    FP32: np.dtype("<f4"),
    FP64: np.dtype("<f8"),
}
"""NumPy types by the code of the raw type in the binary graph."""


def dtype_of(form: Format) -> np.dtype[Any]:
    """Return the NumPy type of a format's samples. Raises NodeError for a type that no node computes with."""
    try:
        return DTYPES[form.raw]
    except KeyError:
        raise NodeError(f"it does not compute with raw type {form.raw}") from None


def need_type(form: Format, *dtypes: str) -> np.dtype[Any]:
    """Return the NumPy type of a format. Raises NodeError unless it is one of the names `dtypes`."""
    dtype = dtype_of(form)
    if dtype.str not in dtypes:
        raise NodeError(f"it takes samples of {' or '.join(dtypes)}, not {dtype.str}")
    return dtype


def bits_of(dtype: np.dtype[Any]) -> int:
    """Return the bits of a sample."""
    return 8 * dtype.itemsize


def offset_of(dtype: np.dtype[Any]) -> int:
    """Return the value that stands for 0: half of the range if samples are unsigned."""
    return 1 << bits_of(dtype) - 1 if dtype.kind == "u" else 0


def to_signed(samples: Samples) -> Samples:
    """Return integer samples of any shape as int64, unsigned ones around 0."""
    return samples.astype(np.int64) - offset_of(samples.dtype)


def from_signed(values: Samples, dtype: np.dtype[Any]) -> Samples:
    """Saturate int64 values of any shape to an integer type, around half of its range if that is unsigned."""
    half = 1 << bits_of(dtype) - 1
    clipped: Samples = np.clip(values, -half, half - 1) + offset_of(dtype)
    return clipped.astype(dtype)


def convert(samples: Samples, dtype: np.dtype[Any]) -> Samples:
    """Convert samples of any shape to another type.

    Integers shift to the new width; narrowing gives floor(x/2^s + 0.5), saturated. Floats: full scale is 1.0.
    """
    source = samples.dtype
    if source == dtype:
        return samples
    if source.kind == "f":
        if dtype.kind == "f":
            return samples.astype(dtype)
        scaled = np.nan_to_num(samples.astype(np.float64), nan=0.0) * float(1 << bits_of(dtype) - 1)
        limit = float(1 << bits_of(dtype) - 1)
        rounded = np.floor(0.5 + np.clip(scaled, -limit, limit)).astype(np.int64)
        return from_signed(rounded, dtype)
    values = to_signed(samples)
    if dtype.kind == "f":
        return (values / float(1 << bits_of(source) - 1)).astype(dtype)
    shift = bits_of(source) - bits_of(dtype)
    values = values + (1 << shift - 1) >> shift if shift > 0 else values << -shift
    return from_signed(values, dtype)
