"""Operators from two int8 values to one of 8 bits: a table of all 65,536 pairs, made once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.operator_node import OperatorNode, broadcast_view
from aisrv.kernels.graph.tensors import GraphTensor

Table = npt.NDArray[Any]


def pair_table(function: Callable[[Table, Table], Table], first: Table, second: Table) -> Table:
    """What a function makes of each pair of bytes, [256 * first + second], of what each byte stands for."""
    return function(first[:, None], second[None, :]).reshape(-1)


def by_pairs(
    node: OperatorNode, one: GraphTensor, two: GraphTensor, output: GraphTensor, table: Table
) -> Kernel:
    """A kernel that looks each pair up, of inputs that broadcast; the table is of the output's type."""
    write = output.array.reshape(-1)
    pairs = node.workspace.array("pairs", write.size, "<u2")
    index = node.workspace.array("index", write.size, np.intp)
    halves = pairs.view(np.uint8).reshape(*output.shape, 2)
    high, low = halves[..., 1], halves[..., 0]
    first, second = (broadcast_view(each, output).view(np.uint8) for each in (one, two))
    take = table.take

    def kernel() -> None:
        high[...] = first
        low[...] = second
        index[...] = pairs
        take(index, None, write, "wrap")  # which does not check, and never meets another index

    return kernel
