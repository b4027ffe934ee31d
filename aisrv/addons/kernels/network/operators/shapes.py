"""Operators that make shapes and give elements another one: SHAPE, BROADCAST_TO, PACK, UNPACK."""

import numpy as np

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import (
    OperatorNode,
    broadcast_view,
    copies,
    expect_shape,
    same_type,
)
from aisrv.addons.kernels.network.operators.layout import dimension
from aisrv.model import TensorType


def shape(node: OperatorNode) -> Kernel:
    """Prepare SHAPE: the extents of the input, which the file knows; int32, as in TFLM."""
    node.expect(1)
    source, output = node.input(0), node.output(0, TensorType.INT32)
    expect_shape(output, (len(source.shape),))
    return copies((output.array, np.array(source.shape, np.int32)))


def broadcast_to(node: OperatorNode) -> Kernel:
    """Prepare BROADCAST_TO a shape that is known at load."""
    node.expect(2)
    source, output = node.input(0), node.output()
    same_type(source, output)
    expect_shape(output, tuple(node.integers(1)))
    return copies((output.array, broadcast_view(source, output)))


def pack(node: OperatorNode) -> Kernel:
    """Prepare PACK: inputs of one shape, side by side along a new dimension."""
    if not node.inputs or len(node.outputs) != 1:
        raise NetworkError(f"has {len(node.inputs)} inputs and {len(node.outputs)} outputs")
    output, first = node.output(), node.input(0)
    axis = dimension(node.options.integer("axis"), output)
    expect_shape(output, (*first.shape[:axis], len(node.inputs), *first.shape[axis:]))
    whole, parts = output.array, []
    for number in range(len(node.inputs)):
        source = node.input(number)
        same_type(source, output)
        expect_shape(source, first.shape)
        place = (slice(None),) * axis + (slice(number, number + 1),)
        parts.append((whole[place], np.expand_dims(source.array, axis)))
    return copies(*parts)


def unpack(node: OperatorNode) -> Kernel:
    """Prepare UNPACK: an output for each index of a dimension, which vanishes."""
    if len(node.inputs) != 1 or not node.outputs:
        raise NetworkError(f"has {len(node.inputs)} inputs and {len(node.outputs)} outputs")
    source = node.input(0)
    axis = dimension(node.options.integer("axis"), source)
    if source.shape[axis] != len(node.outputs):
        raise NetworkError(
            f"{source.shape[axis]} elements along {axis} do not make {len(node.outputs)} outputs"
        )
    whole, parts = source.array, []
    for number in range(len(node.outputs)):
        output = node.output(number)
        same_type(source, output)
        expect_shape(output, source.shape[:axis] + source.shape[axis + 1 :])
        place = (slice(None),) * axis + (slice(number, number + 1),)
        parts.append((np.expand_dims(output.array, axis), whole[place]))
    return copies(*parts)
