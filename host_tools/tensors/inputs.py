"""Whatever a program has as an input tensor: bytes, an array, a picture, or the path of a file."""

import sys
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from host_tools.errors import TensorError
from host_tools.tensors.images import AUTO

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

    from host_tools.tensors.tensor_spec import TensorSpec
    from host_tools.transports.transport import Buffer

    InputValue: TypeAlias = "Buffer | PillowImage | str | PathLike[str] | Any"
    """Bytes as they are; a picture; a file's path; anything else is what NumPy makes an array of."""


def input_tensor(value: "InputValue", spec: "TensorSpec", value_range: str = AUTO) -> "Buffer":
    """Return the bytes of the tensor `spec` for a value; TensorError where it does not fit.

    Pictures are resized, and their pixels become numbers by `value_range`, one of `images.RANGE_NAMES`.
    Arrays have the tensor's shape and type, or hold real numbers, which are quantized.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        if memoryview(value).nbytes != spec.nbytes:
            raise TensorError(f"{memoryview(value).nbytes} bytes, the tensor has {spec.nbytes} ({spec})")
        return value
    if isinstance(value, str | PathLike):
        from host_tools.tensors.files import read_tensor

        return read_tensor(Path(value), spec, value_range=value_range)
    pillow = sys.modules.get("PIL.Image")  # who has a picture of its has imported it
    if pillow is not None and isinstance(value, pillow.Image):
        from host_tools.tensors.images import image_tensor

        return image_tensor(value, spec, value_range)
    import numpy as np

    from host_tools.tensors.files import array_tensor

    array = np.asarray(value)
    if array.dtype.kind not in "iufb":
        raise TensorError(
            f"{type(value).__name__} is not a tensor: give an array, a picture, a path or bytes"
        )
    return array_tensor(array, spec)
