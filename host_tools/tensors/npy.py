"""`.npy` files: arrays of numbers, read within the bytes that are there."""

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from aisrv.values.parser_errors import parser_errors
from aisrv.values.regular_file import read_regular

if TYPE_CHECKING:
    import numpy as np

    from host_tools.tensors.tensor_spec import Array


def read_npy(path: Path) -> "Array":
    """Read the array of a file, which cannot be written to.

    Raises OSError, and ValueError for what is not an array of numbers or has more elements than the file.
    """
    return parse_npy(read_regular(path))


def parse_npy(data: bytes) -> "Array":
    """Return the array of a file's `data`; ValueError as `read_npy`."""
    import numpy as np

    file = io.BytesIO(data)
    shape, in_columns, dtype = npy_header(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if math.prod(shape) * dtype.itemsize > len(data) - file.tell():
        raise ValueError(f"{len(data) - file.tell()} bytes are fewer than {shape} of {dtype} takes")
    with parser_errors("a shape that NumPy does not know", ValueError):
        # NumPy's own reader takes memory for the shape that a header names before it looks for the elements.
        return np.ndarray(shape, dtype, data, file.tell(), order="F" if in_columns else "C")


def npy_header(file: BinaryIO) -> "tuple[tuple[int, ...], bool, np.dtype[np.generic]]":
    """Return shape, whether the elements are in the order of Fortran, and their type; ValueError.

    `file` is left at the first element.
    """
    from numpy.lib import format as npy

    with parser_errors("its header", ValueError):
        version = npy.read_magic(file)  # type: ignore[no-untyped-call]
        if version == (1, 0):
            return npy.read_array_header_1_0(file)  # type: ignore[no-untyped-call,no-any-return]
        if version == (2, 0):
            return npy.read_array_header_2_0(file)  # type: ignore[no-untyped-call,no-any-return]
    raise ValueError(f"version {version[0]}.{version[1]}, which is not for numbers")


def npy_file(array: "Array") -> bytes:
    """Return the content of a file."""
    import numpy as np

    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()
