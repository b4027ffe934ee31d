"""RESIZE_BILINEAR of float32. Source: `resize_bilinear.h` of TensorFlow Lite."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.network.operator_node import OperatorNode
from aisrv.addons.kernels.network.operators.floats.tensors import Floats, float_input, float_output, quiet
from aisrv.addons.kernels.network.operators.resampling import bilinear_sizes


class _Taps(NamedTuple):
    """For each output along one dimension: two inputs, and what each counts."""

    lower: npt.NDArray[np.intp]
    upper: npt.NDArray[np.intp]
    lower_weight: Floats
    upper_weight: Floats


def resize_bilinear(node: OperatorNode) -> Kernel:
    """Prepare RESIZE_BILINEAR."""
    node.expect(2)
    source, output = float_input(node), float_output(node)
    sizes, align, half = bilinear_sizes(node, source, output)
    rows, columns = (
        _taps(inputs, outputs, align_corners=align, half_pixel_centers=half)
        for inputs, outputs in zip(source.shape[1:3], sizes, strict=True)
    )
    top_weight, bottom_weight = (weight[:, None, None] for weight in rows[2:])
    left_weight, right_weight = (weight[:, None] for weight in columns[2:])
    read, write = source.array, output.array

    def kernel() -> None:
        top, bottom = read[:, rows.lower] * top_weight, read[:, rows.upper] * bottom_weight
        left = top[:, :, columns.lower] + bottom[:, :, columns.lower]
        right = top[:, :, columns.upper] + bottom[:, :, columns.upper]
        np.add(left * left_weight, right * right_weight, out=write)

    return quiet(kernel)


def _taps(inputs: int, outputs: int, *, align_corners: bool, half_pixel_centers: bool) -> _Taps:
    is_aligned = align_corners and outputs > 1
    scale = np.float32(inputs - is_aligned) / np.float32(outputs - is_aligned)
    places = np.arange(outputs, dtype=np.float32)
    half = np.float32(0.5)
    places = (places + half) * scale - half if half_pixel_centers else places * scale
    lower = np.maximum(np.floor(places).astype(np.intp), 0)
    upper = np.minimum(np.ceil(places).astype(np.intp), inputs - 1)
    weight = (places - lower).astype(np.float32)
    return _Taps(lower, upper, np.float32(1) - weight, weight)
