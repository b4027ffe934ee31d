"""Images as tensors: resized to the tensor's height and width, converted to its channels, then quantized.

An image's pixels, 0 to 255, first become the real numbers that the network was trained on, which is one of
the ranges in `RANGES`. With the range "auto" it is the one that the quantization covers, within a tenth of
its width; where none fits, or there is no quantization, pixels fill the whole type: int8 = pixel - 128,
uint8 = pixel. For the usual quantizations (scale 1/255, 2/255 or 1) both ways give the same integers or are
one step apart. A float32 tensor gets 0..1.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from aisrv.values.extras import import_failure
from aisrv.values.regular_file import opened_regular
from aisrv.values.untrusted_picture import FORMATS, opened_picture
from host_tools.errors import TensorError
from host_tools.tensors.tensor_spec import TensorSpec

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL.Image import Image as PillowImage

    from host_tools.tensors.tensor_spec import Array

    Pixels = npt.NDArray[np.uint8]

SUFFIXES: Final = frozenset(FORMATS)
"""Endings of file names that are images."""

_ORIENTATION: Final = 0x0112
"""Exif's tag of how a camera was held; 1 is upright."""

RANGES: Final[dict[str, tuple[float, float]]] = {
    "0..1": (0.0, 1.0),
    "-1..1": (-1.0, 1.0),
    "0..255": (0.0, 255.0),
}
"""Real numbers that black and white stand for, by the name of the convention."""

AUTO: Final = "auto"
FULL: Final = "full"
RANGE_NAMES: Final = (AUTO, *RANGES, FULL)

_CHANNEL_MODES: Final = {1: "L", 3: "RGB", 4: "RGBA"}


def read_image(path: Path, spec: TensorSpec, value_range: str = AUTO, invert: bool = False) -> bytes:
    """Return the bytes of the tensor `spec` for an image file; as `image_tensor`."""
    image_shape(spec)
    try:
        from PIL import ImageOps
    except ImportError as error:
        raise TensorError(import_failure("reading images needs Pillow", error, "images")) from error
    with opened_regular(path) as file, opened_picture(file, TensorError) as image:
        ImageOps.exif_transpose(image, in_place=True)
        return image_tensor(image, spec, value_range, invert)


def image_tensor(
    image: "PillowImage", spec: TensorSpec, value_range: str = AUTO, invert: bool = False
) -> bytes:
    """Return the bytes of the tensor `spec` for an image; `invert` swaps black and white; or TensorError."""
    import numpy as np
    from PIL import Image, ImageOps

    height, width, channels = image_shape(spec)
    if image.mode.startswith(("I", "F")):
        raise TensorError(f"the image has pixels of mode {image.mode}; save it with 8 bits a channel")
    mode = _CHANNEL_MODES[channels]
    upright = ImageOps.exif_transpose(image) if image.getexif().get(_ORIENTATION, 1) != 1 else image
    colored = upright if upright.mode == mode else upright.convert(mode)
    resized = colored.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(resized, dtype=np.uint8)
    elements = pixels_to_elements(~pixels if invert else pixels, spec, value_range)
    return elements.astype(np.dtype(spec.dtype).newbyteorder("<")).tobytes()


def image_shape(spec: TensorSpec) -> tuple[int, int, int]:
    """Height, width, channels of a tensor [1, H, W, C], [H, W, C], [1, H, W] or [H, W]; else TensorError."""
    shape = spec.shape
    if len(shape) == 4 and shape[0] == 1:
        shape = shape[1:]
    elif len(shape) == 3 and shape[0] == 1 and shape[2] not in _CHANNEL_MODES:
        shape = (*shape[1:], 1)
    elif len(shape) == 2 and min(shape) > 1:
        shape = (*shape, 1)
    if len(shape) != 3 or shape[2] not in _CHANNEL_MODES or min(shape) < 1:
        raise TensorError(f"the tensor is {spec}, which is not an image of 1, 3 or 4 channels")
    return shape[0], shape[1], shape[2]


def pixels_to_elements(pixels: "Pixels", spec: TensorSpec, value_range: str = AUTO) -> "Array":
    """Pixels as the tensor's elements, by a range of `RANGE_NAMES`; see the module for what "auto" does."""
    import numpy as np

    dtype = np.dtype(spec.dtype)
    if value_range == AUTO:
        value_range = covered_range(spec)
    if value_range == FULL:
        if dtype.kind not in "iu" or dtype.itemsize != 1:
            raise TensorError(f"the tensor is {spec}: only int8 and uint8 have a full range for pixels")
        return (pixels.astype(np.int16) + np.iinfo(dtype).min).astype(dtype)
    black, white = RANGES[value_range]
    return spec.quantize(black + pixels.astype(np.float64) * ((white - black) / 255))


def covered_range(spec: TensorSpec) -> str:
    """Return the range whose ends the quantization of `spec` meets within a tenth of its width, else FULL."""
    import numpy as np

    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return "0..1"
    if spec.scale is None or dtype.itemsize != 1:
        return FULL
    limits = np.iinfo(dtype)
    lowest = (limits.min - spec.zero_point) * spec.scale
    highest = (limits.max - spec.zero_point) * spec.scale
    for name, (black, white) in RANGES.items():
        tolerance = (white - black) / 10
        if abs(lowest - black) <= tolerance and abs(highest - white) <= tolerance:
            return name
    return FULL
