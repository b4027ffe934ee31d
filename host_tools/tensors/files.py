"""Whatever a program has as a tensor, and tensors as files: bytes, arrays, pictures, checked against it."""

import sys
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from aisrv.values.printable import printable
from aisrv.values.regular_file import check_regular, read_regular
from aisrv.values.whole_file import write_whole
from host_tools.errors import TensorError
from host_tools.tensors import images
from host_tools.tensors.npy import npy_file, read_npy
from host_tools.tensors.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

    from aisrv.model import Model
    from host_tools.tensors.tensor_spec import Array
    from host_tools.transports.transport import Buffer

    InputValue: TypeAlias = "Buffer | PillowImage | str | PathLike[str] | Any"
    """Bytes as they are; a picture; a file's path; anything else is what NumPy makes an array of."""


def input_tensor(value: "InputValue", spec: TensorSpec, value_range: str = images.AUTO) -> "Buffer":
    """Return the bytes of the tensor `spec` for a value; TensorError where it does not fit.

    Pictures are resized, and their pixels become numbers by `value_range`, one of `images.RANGE_NAMES`.
    Arrays have the tensor's shape and type, or hold real numbers, which are quantized.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        if memoryview(value).nbytes != spec.nbytes:
            raise TensorError(f"{memoryview(value).nbytes} bytes, the tensor has {spec.nbytes} ({spec})")
        return value
    if isinstance(value, str | PathLike):
        return read_tensor(Path(value), spec, value_range=value_range)
    pillow = sys.modules.get("PIL.Image")  # a program with a picture has imported it
    if pillow is not None and isinstance(value, pillow.Image):
        return images.image_tensor(value, spec, value_range)
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind not in "iufb":
        raise TensorError(
            f"{type(value).__name__} is not a tensor: give an array, a picture, a path or bytes"
        )
    return array_tensor(array, spec)


def read_model_file(path: Path) -> "Model":
    """Read a `.tflite` file; TensorError where it is not a model."""
    from aisrv.model import ModelFileError
    from aisrv.model.reader import read_model

    try:
        return read_model(read_regular(path))
    except (OSError, ModelFileError) as error:
        raise TensorError(f"{printable(str(path))}: {error}") from error


def read_tensor(
    path: Path,
    spec: TensorSpec | None = None,
    *,
    length: int | None = None,
    value_range: str = images.AUTO,
    invert: bool = False,
) -> bytes:
    """Return the bytes of a tensor from a file: an image or `.npy` by the name's ending, anything else raw.

    `spec` is needed for images and for arrays of real numbers. Without it, `length` in bytes is what is
    checked. `value_range` (of `images.RANGE_NAMES`) and `invert` are for images. Raises TensorError.
    """
    try:
        check_regular(path)
        suffix = path.suffix.lower()
        if suffix in images.SUFFIXES:
            if spec is None:
                raise TensorError("an image needs the model file or a shape, to know what it is resized to")
            data = images.read_image(path, spec, value_range, invert)
        elif suffix == ".npy":
            data = _array(path, spec, length)
        else:
            data = read_regular(path)
    except (OSError, TensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TensorError(f"{printable(str(path))}: {reason}") from error
    expected = spec.nbytes if spec else length
    if expected is not None and len(data) != expected:
        kind = f" ({spec})" if spec else ""
        raise TensorError(f"{printable(str(path))}: {len(data)} bytes, the tensor has {expected}{kind}")
    return data


def _array(path: Path, spec: TensorSpec | None, length: int | None) -> bytes:
    try:
        return array_tensor(read_npy(path), spec, length)
    except ValueError as error:
        raise TensorError(f"not a .npy file of numbers: {printable(str(error), 300)}") from error


def array_tensor(array: "Array", spec: TensorSpec | None, length: int | None = None) -> bytes:
    """Return an array as the bytes of a tensor, quantized where it is real; TensorError if it does not fit.

    Without `spec`, an array of integers is taken as it is.
    """
    import numpy as np

    if array.dtype.kind not in "iufb":
        raise TensorError(f"the array holds {array.dtype.name}, not numbers")
    if spec is None:
        if array.dtype.kind == "f" and length not in (None, array.nbytes):
            raise TensorError("an array of real numbers needs the model file, for its quantization")
        return array.astype(array.dtype.newbyteorder("<")).tobytes()
    if _without_ones(array.shape) != _without_ones(spec.shape):
        shapes = f"the array has shape {list(array.shape)}, the tensor {list(spec.shape)}"
        if array.ndim and _without_ones(array.shape[1:]) == _without_ones(spec.shape):
            raise TensorError(
                f"{shapes}: it holds {len(array)} examples, and an inference takes one; call run for each"
            )
        raise TensorError(shapes)
    dtype = np.dtype(spec.dtype)
    if array.dtype.kind == "f":
        array = spec.quantize(array)
    elif array.dtype.newbyteorder("=") != dtype:
        raise TensorError(
            f"the array is {array.dtype.name}, the tensor {spec.dtype}; convert it, or save real numbers"
        )
    return array.astype(dtype.newbyteorder("<")).tobytes()


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape as it matters for the order of its elements."""
    return tuple(extent for extent in shape if extent != 1)


def write_tensor(path: Path, data: bytes, spec: TensorSpec | None = None) -> None:
    """Write a tensor to a file: `.npy` with the shape and type of `spec`, or flat uint8; else raw bytes."""
    if path.suffix.lower() != ".npy":
        write_file(path, data)
        return
    import numpy as np

    write_file(path, npy_file(spec.elements(data) if spec else np.frombuffer(data, np.uint8)))


def write_file(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all; TensorError where that is not possible."""
    try:
        write_whole(path, [content])
    except OSError as error:
        raise TensorError(f"{path}: cannot be written: {error.strerror}") from error
