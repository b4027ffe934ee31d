"""The structures of `kernels.c`, field by field: what a step of the library works on.

Pointers are addresses; whoever fills a structure keeps what they point to.
"""

import ctypes
from typing import Final

_ADDRESS: Final = ctypes.c_void_p
_NUMBER: Final = ctypes.c_int64
_REAL: Final = ctypes.c_float


class StepStructure(ctypes.Structure):
    """A kind of step, where its arguments are, and its pieces that threads may share."""

    _fields_ = (("kind", _NUMBER), ("arguments", _ADDRESS), ("pieces", _NUMBER))


class Picture(ctypes.Structure):
    """A copy of an input with borders; without batches there is none."""

    _fields_ = (
        ("source", _ADDRESS),
        ("copy", _ADDRESS),
        ("batches", _NUMBER),
        ("height", _NUMBER),
        ("width", _NUMBER),
        ("line", _NUMBER),
        ("plane", _NUMBER),
        ("repeats", _NUMBER),
    )


class Convolution(ctypes.Structure):
    """Tiles of pixels and blocks of channels."""

    _fields_ = (
        ("picture", Picture),
        ("input", _ADDRESS),
        ("output", _ADDRESS),
        ("weights", _ADDRESS),
        ("rescaling", _ADDRESS),
        ("pixels", _ADDRESS),
        ("segments", _ADDRESS),
        ("groups", _ADDRESS),
        ("pixel_count", _NUMBER),
        ("segment_count", _NUMBER),
        ("group_count", _NUMBER),
        ("channels", _NUMBER),
        ("chunk", _NUMBER),
        ("plain", _NUMBER),
        ("low", _NUMBER),
        ("high", _NUMBER),
    )


class Depthwise(ctypes.Structure):
    """Windows of any form, one channel each."""

    _fields_ = (
        ("picture", Picture),
        ("input", _ADDRESS),
        ("output", _ADDRESS),
        ("weights", _ADDRESS),
        ("rescaling", _ADDRESS),
        ("pixels", _ADDRESS),
        ("taps", _ADDRESS),
        ("pixel_count", _NUMBER),
        ("tap_groups", _NUMBER),
        ("channels", _NUMBER),
        ("plain", _NUMBER),
        ("low", _NUMBER),
        ("high", _NUMBER),
    )


class Depthwise3x3(ctypes.Structure):
    """Windows of 3x3, one channel each, straight from the input."""

    _fields_ = (
        ("input", _ADDRESS),
        ("output", _ADDRESS),
        ("weights", _ADDRESS),
        ("rescaling", _ADDRESS),
        ("border", _ADDRESS),
        ("batches", _NUMBER),
        ("height", _NUMBER),
        ("width", _NUMBER),
        ("channels", _NUMBER),
        ("out_height", _NUMBER),
        ("out_width", _NUMBER),
        ("stride", _NUMBER),
        ("top", _NUMBER),
        ("left", _NUMBER),
        ("zero", _NUMBER),
        ("plain", _NUMBER),
        ("low", _NUMBER),
        ("high", _NUMBER),
    )


class Addition(ctypes.Structure):
    """first * factor1 + second * factor2 + offset, to the nearest integer."""

    _fields_ = (
        ("first", _ADDRESS),
        ("second", _ADDRESS),
        ("output", _ADDRESS),
        ("count", _NUMBER),
        ("low", _NUMBER),
        ("high", _NUMBER),
        ("factor1", _REAL),
        ("factor2", _REAL),
        ("offset", _REAL),
    )


class Pairs(ctypes.Structure):
    """A table of all pairs of bytes."""

    _fields_ = (
        ("first", _ADDRESS),
        ("second", _ADDRESS),
        ("output", _ADDRESS),
        ("table", _ADDRESS),
        ("first_count", _NUMBER),
        ("second_count", _NUMBER),
        ("count", _NUMBER),
    )


class Pool(ctypes.Structure):
    """Windows of a pool."""

    _fields_ = (
        ("input", _ADDRESS),
        ("output", _ADDRESS),
        ("batches", _NUMBER),
        ("height", _NUMBER),
        ("width", _NUMBER),
        ("channels", _NUMBER),
        ("out_height", _NUMBER),
        ("out_width", _NUMBER),
        ("filter_h", _NUMBER),
        ("filter_w", _NUMBER),
        ("stride_h", _NUMBER),
        ("stride_w", _NUMBER),
        ("top", _NUMBER),
        ("left", _NUMBER),
        ("low", _NUMBER),
        ("high", _NUMBER),
    )


class Softmax(ctypes.Structure):
    """Rows of classes, and the table of exponentials."""

    _fields_ = (
        ("input", _ADDRESS),
        ("output", _ADDRESS),
        ("exponentials", _ADDRESS),
        ("rounded", _ADDRESS),
        ("rows", _NUMBER),
        ("classes", _NUMBER),
    )


class Padding(ctypes.Structure):
    """Pictures that get a border."""

    _fields_ = (
        ("input", _ADDRESS),
        ("output", _ADDRESS),
        ("batches", _NUMBER),
        ("height", _NUMBER),
        ("width", _NUMBER),
        ("out_height", _NUMBER),
        ("out_width", _NUMBER),
        ("top", _NUMBER),
        ("left", _NUMBER),
        ("fill", _NUMBER),
    )


class Copy(ctypes.Structure):
    """Bytes that change their place."""

    _fields_ = (("input", _ADDRESS), ("output", _ADDRESS), ("count", _NUMBER))


class Lstm(ctypes.Structure):
    """All steps of an LSTM."""

    _fields_ = (
        ("input", _ADDRESS),
        ("output", _ADDRESS),
        ("state", _ADDRESS),
        ("cells", _ADDRESS),
        ("weights", _ADDRESS),
        ("recurrent", _ADDRESS),
        ("bias", _ADDRESS),
        ("input_factors", _ADDRESS),
        ("state_factors", _ADDRESS),
        ("factors", _ADDRESS),
        ("sigmoid", _ADDRESS),
        ("tanh", _ADDRESS),
        ("cell_tanh", _ADDRESS),
        ("row", _ADDRESS),
        ("gates", _ADDRESS),
        ("steps", _NUMBER),
        ("batch", _NUMBER),
        ("inputs", _NUMBER),
        ("units", _NUMBER),
        ("input_width", _NUMBER),
        ("state_width", _NUMBER),
        ("input_step", _NUMBER),
        ("input_batch", _NUMBER),
        ("output_step", _NUMBER),
        ("output_batch", _NUMBER),
        ("input_zero", _NUMBER),
        ("state_zero", _NUMBER),
        ("low", _NUMBER),
        ("high", _NUMBER),
    )


class Svdf(ctypes.Structure):
    """A step of an SVDF."""

    _fields_ = (
        ("input", _ADDRESS),
        ("output", _ADDRESS),
        ("state", _ADDRESS),
        ("features", _ADDRESS),
        ("times", _ADDRESS),
        ("bias", _ADDRESS),
        ("factors", _ADDRESS),
        ("row", _ADDRESS),
        ("batch", _NUMBER),
        ("inputs", _NUMBER),
        ("width", _NUMBER),
        ("units", _NUMBER),
        ("rank", _NUMBER),
        ("memory", _NUMBER),
        ("is_wide", _NUMBER),
        ("input_zero", _NUMBER),
        ("state_zero", _NUMBER),
        ("output_zero", _NUMBER),
    )
