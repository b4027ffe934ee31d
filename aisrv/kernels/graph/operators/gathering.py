"""GATHER: parts of a tensor by indices that may be computed. Source: `gather.cc` of TensorFlow Lite Micro."""

import numpy as np

from aisrv.kernels.backend import Kernel
from aisrv.kernels.errors import KernelError
from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.operator_node import OperatorNode, expect_shape, same_type
from aisrv.kernels.graph.operators.layout import dimension
from aisrv.model import TensorType


def gather(node: OperatorNode) -> Kernel:
    """Prepare GATHER along a dimension, with the first `batch_dims` dimensions in common.

    An index that is not in the dimension is a KernelError: at load where indices are constants, in a run
    otherwise.
    """
    node.expect(2)
    source, indices, output = node.input(0), node.input(1, TensorType.INT32, TensorType.INT64), node.output()
    same_type(source, output)
    axis = dimension(node.options.integer("axis"), source)
    batch = node.options.integer("batch_dims")
    batch += len(indices.shape) if batch < 0 else 0
    if not 0 <= batch <= min(axis, len(indices.shape)) or indices.shape[:batch] != source.shape[:batch]:
        raise GraphError(
            f"batch_dims is {node.options.integer('batch_dims')} for shapes {list(source.shape)} and "
            f"{list(indices.shape)} and axis {axis}"
        )
    outer, extent, inner = source.shape[batch:axis], source.shape[axis], source.shape[axis + 1 :]
    expect_shape(output, (*source.shape[:axis], *indices.shape[batch:], *inner))
    # One batch, and between it and the indexed dimension whatever there is.
    batches = int(np.prod(source.shape[:batch], dtype=np.int64))
    between = int(np.prod(outer, dtype=np.int64))
    read = source.array.reshape(batches, between, extent, -1)
    places = indices.array.reshape(batches, -1)
    write = output.array.reshape(batches, between, places.shape[1], -1)
    rows = np.arange(batches)[:, None]

    def check() -> None:
        if places.min() < 0 or places.max() >= extent:
            raise KernelError(f"GATHER has indices from {places.min()} to {places.max()}, there are {extent}")

    if indices.tensor.is_constant:
        check()

    def kernel() -> None:
        check()
        write[...] = read[rows, :, places].swapaxes(1, 2)

    return kernel
