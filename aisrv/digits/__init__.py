"""The digits network: a small int8 classifier of handwritten digits, with its test images.

The network takes one 8x8 image as 64 int8 values in row-major order and gives 10 int8 scores, one for each
digit. An image's pixels are 0 (paper) to 16 (ink); the network's input has scale 1/240 and zero point -128,
so that a pixel p is the real value p/16 and the int8 value 15p - 128, without rounding. The shipped files are
made by `python -m benchmarks.train.digits` in a checkout; docs/guides/digits.md says how. The images are from
the UCI repository (LICENSE-DATA.md).
"""

import functools
import struct
from typing import Final, NamedTuple

IMAGE_SIDE: Final = 8
"""Height and width of an image in pixels."""
INK: Final = 16
"""The largest value of a pixel."""
CLASSES: Final = 10
"""Scores in the first output tensor: one for each digit, 0 to 9."""
FEATURES: Final = 128
"""Bytes in the second output tensor of the two-output network: the pooled features, 2x2x32."""
INT8_STEP: Final = 15
"""Step of the int8 value for one step of a pixel."""
INT8_PAPER: Final = -128
"""The int8 value of pixel 0."""

IDX_IMAGES: Final = 0x0803  # unsigned bytes in three dimensions
IDX_LABELS: Final = 0x0801  # unsigned bytes in one dimension
MODEL_FILE: Final = "digits.tflite"
FLOAT_MODEL_FILE: Final = "digits_float.tflite"
TWO_OUTPUT_MODEL_FILE: Final = "digits_two_outputs.tflite"
IMAGES_FILE: Final = "digits_test_images.idx"
LABELS_FILE: Final = "digits_test_labels.idx"
TRAINING_IMAGES_FILE: Final = "digits_training_images.idx"
TRAINING_LABELS_FILE: Final = "digits_training_labels.idx"

_INT8_OF_PIXEL: Final = bytes((INT8_STEP * pixel + INT8_PAPER) & 0xFF for pixel in range(INK + 1))
_PIXEL_OF_INT8: Final = {value: pixel for pixel, value in enumerate(_INT8_OF_PIXEL)}
_INT8_TABLE: Final = _INT8_OF_PIXEL.ljust(256, b"\0")


class Digit(NamedTuple):
    """An image: the network's input tensor, 64 bytes of int8, and the digit it shows."""

    image: bytes
    label: int


def model_bytes() -> bytes:
    """Return the network as a `.tflite` file: input int8 [1, 8, 8, 1], output the softmax's int8 [1, 10]."""
    return _read(MODEL_FILE)


def float_model_bytes() -> bytes:
    """Return the same network before its quantization: float32 [1, 8, 8, 1] of 0 to 1, and [1, 10]."""
    return _read(FLOAT_MODEL_FILE)


def two_output_model_bytes() -> bytes:
    """Return the same network with a second output, its pooled features, int8 [1, 2, 2, 32]."""
    return _read(TWO_OUTPUT_MODEL_FILE)


@functools.cache
def test_images() -> tuple[Digit, ...]:
    """Return the images that the network was not trained on, in their file's order. Raises ValueError."""
    return _images(IMAGES_FILE, LABELS_FILE)


@functools.cache
def training_images() -> tuple[Digit, ...]:
    """Return the 1,400 images that the network was trained on, in their file's order. Raises ValueError."""
    return _images(TRAINING_IMAGES_FILE, TRAINING_LABELS_FILE)


def _images(images_file: str, labels_file: str) -> tuple[Digit, ...]:
    images, labels = _read(images_file), _read(labels_file)
    magic, count, height, width = struct.unpack_from(">4I", images)
    if (magic, height, width) != (IDX_IMAGES, IMAGE_SIDE, IMAGE_SIDE):
        raise ValueError(f"{images_file} holds no {IMAGE_SIDE}x{IMAGE_SIDE} images; install aisrv again")
    if struct.unpack_from(">2I", labels) != (IDX_LABELS, count):
        raise ValueError(f"{labels_file} does not hold {count} labels; install aisrv again")
    size = height * width
    pixels = struct.iter_unpack(f"{size}s", images[16:])
    return tuple(
        Digit(quantize_pixels(image), label) for (image,), label in zip(pixels, labels[8:], strict=True)
    )


# The name is a test's to pytest, which would collect it wherever a test module imports it.
test_images.__test__ = False  # type: ignore[attr-defined]


def quantize_pixels(pixels: bytes) -> bytes:
    """Turn pixels of 0 to 16 into the int8 input, 15p - 128; raise ValueError for a larger pixel."""
    if pixels and max(pixels) > INK:
        raise ValueError(f"pixel {max(pixels)} is out of range: the digits' pixels are 0 to {INK}")
    return pixels.translate(_INT8_TABLE)


def pixels_of(image: bytes) -> bytes:
    """Turn `image`, the network's int8 input, back into pixels; ValueError for a byte of no pixel."""
    try:
        return bytes(_PIXEL_OF_INT8[value] for value in image)
    except KeyError as unknown:
        wrong = unknown.args[0]
        raise ValueError(
            f"byte {wrong:#04x} is not a quantized pixel: those are 15p - 128, p of 0 to {INK}"
        ) from None


def _read(name: str) -> bytes:
    from importlib.resources import files

    return files(__name__).joinpath(name).read_bytes()
