"""Small pictures of a sensor's frames and of input tensors, as the page's binary messages.

A message is u8 kind (1 frame, 2 tensor), u8 engine, u16 width, u16 height, u16 0, then RGB; little-endian.
"""

import struct
from typing import TYPE_CHECKING, Final

from aisrv.model import Tensor, TensorType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Pixels = npt.NDArray[np.uint8]

FRAME: Final = 1
TENSOR: Final = 2
WIDEST: Final = 160
HIGHEST: Final = 120
LARGEST_TENSOR: Final = 1 << 18
"""Bytes of a tensor past which it is not drawn."""
_HEADER: Final = struct.Struct("<BBHHH")
_COLORS: Final = (1, 3)
"""Channels of pictures: gray, and red, green, blue."""


def is_picture(tensor: Tensor) -> bool:
    """Check whether an input is one picture of bytes, gray or in colors, that is small enough to draw."""
    return (
        len(tensor.shape) == 4
        and tensor.shape[0] == 1
        and tensor.shape[3] in _COLORS
        and tensor.type in (TensorType.INT8, TensorType.UINT8)
        and 0 < tensor.nbytes <= LARGEST_TENSOR
    )


def tensor_picture(engine: int, tensor: Tensor, data: bytes) -> bytes:
    """Return the message of an input tensor of an engine; see `is_picture`. int8 is shown as 0 to 255."""
    import numpy as np

    pixels = np.frombuffer(data, np.uint8).reshape(tensor.shape[1:])
    if tensor.type is TensorType.INT8:
        pixels = pixels ^ np.uint8(0x80)
    return picture_message(TENSOR, engine, np.repeat(pixels, 3, 2) if tensor.shape[3] == 1 else pixels)


def picture_message(kind: int, engine: int, pixels: "Pixels") -> bytes:
    """Return the message of an array [height, width, 3], made small by leaving out pixels."""
    import numpy as np

    step = max(1, -(-pixels.shape[1] // WIDEST), -(-pixels.shape[0] // HIGHEST))
    small = np.ascontiguousarray(pixels[::step, ::step])
    return _HEADER.pack(kind, engine, small.shape[1], small.shape[0], 0) + small.tobytes()
