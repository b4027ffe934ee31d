"""CAST: the same numbers in another type. Source: `cast.cc` of TensorFlow Lite Micro."""

from typing import Final

import numpy as np

from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.operator_node import OperatorNode, same_shape
from aisrv.model import TensorType

_TYPES: Final = (TensorType.BOOL, TensorType.INT8, TensorType.INT16, TensorType.INT32, TensorType.FLOAT32)


def cast(node: OperatorNode) -> Kernel:
    """Prepare CAST: floats lose what is behind the point, and stop at the ends of a smaller type.

    What is no number becomes 0. Integers lose their upper bits, as in C.
    """
    node.expect(1)
    source, output = node.input(0, *_TYPES), node.output(0, *_TYPES)
    same_shape(source, output)
    read, write = source.array, output.array

    def cast_all() -> None:
        write[...] = read.astype(write.dtype)

    if source.tensor.type is not TensorType.FLOAT32 or write.dtype.kind != "i":
        return cast_all
    limits = np.iinfo(write.dtype)

    def cast_floats() -> None:
        # In float64, which has both ends of 32 bits.
        write[...] = np.nan_to_num(read.astype(np.float64)).clip(limits.min, limits.max)

    return cast_floats
