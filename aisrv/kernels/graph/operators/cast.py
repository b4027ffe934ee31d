"""CAST: the same numbers in another type. Source: `cast.cc` of TensorFlow Lite Micro."""

from typing import Final

import numpy as np

from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.operator_node import OperatorNode, same_shape
from aisrv.model import TensorType

_TYPES: Final = (TensorType.BOOL, TensorType.INT8, TensorType.INT16, TensorType.INT32, TensorType.FLOAT32)


def cast(node: OperatorNode) -> Kernel:
    """Prepare CAST, as C does: floats lose what is behind the point, integers their upper bits.

    What C leaves open, a float that is too large or no number, becomes the nearest integer of 64 bits first.
    """
    node.expect(1)
    source, output = node.input(0, *_TYPES), node.output(0, *_TYPES)
    same_shape(source, output)
    read, write = source.array, output.array

    def cast_all() -> None:
        write[...] = read.astype(write.dtype)

    def cast_floats() -> None:
        write[...] = (
            np.nan_to_num(read, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)
            .clip(-_LARGEST, _LARGEST)
            .astype(np.int64)
            .astype(write.dtype)
        )

    from_float = source.tensor.type is TensorType.FLOAT32
    to_integer = output.tensor.type not in (TensorType.FLOAT32, TensorType.BOOL)
    return cast_floats if from_float and to_integer else cast_all


_LARGEST: Final = 2.0**62
