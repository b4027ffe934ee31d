"""Places of the tensors and scratch buffers of a network in the arena.

`plan_network` is TFLM's greedy plan with the scratch of TFLM's own kernels, save that of a backend for its
operators; `plan_apart` gives every buffer a place of its own, so that all tensors can be
read after a run. Source: "The INT8 kernel engine", section Arena plan.
"""

from collections.abc import Iterable
from typing import Final

from aisrv.addons.kernels.backend import KernelBackend
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.model import Model, ModelFileError, Operator, Subgraph, TensorType
from aisrv.model.arena_plan import (
    Allocation,
    ArenaPlan,
    Scratch,
    arena_requests,
    plan_arena,
)
from aisrv.model.arena_scratch import operator_scratch
from aisrv.model.control_flow import subgraphs

_OF_THE_BACKEND: Final = {
    "CONV_2D": "conv2d_scratch_size",
    "DEPTHWISE_CONV_2D": "depthwise_conv2d_scratch_size",
    "SOFTMAX": "softmax_scratch_size",
}
"""Operators whose scratch the backend names, each with the method that does."""


def plan_network(model: Model, backend: KernelBackend) -> ArenaPlan:
    """Plan as TFLM does, with the scratch that the backend wants; NetworkError."""
    try:
        return plan_arena(model, scratch_buffers(model, backend))
    except ModelFileError as error:
        raise NetworkError(str(error)) from None


def plan_apart(model: Model, backend: KernelBackend) -> ArenaPlan:
    """Place all buffers one after the other; NetworkError."""
    try:
        requests = arena_requests(model, scratch_buffers(model, backend))
    except ModelFileError as error:
        raise NetworkError(str(error)) from None
    allocations = []
    head = 0
    for tensor, size, first, last, _ in requests:
        allocations.append(Allocation(tensor, size, first, last, head))
        head += size
    return ArenaPlan(tuple(allocations), head)


def scratch_buffers(model: Model, backend: KernelBackend) -> list[Scratch]:
    """The scratch that operators want, none of size 0; NetworkError for bad shapes."""
    return [
        Scratch(operator.index, size, number)
        for number, subgraph in enumerate(subgraphs(model))
        for operator in subgraph.operators
        for size in _scratch_sizes(subgraph, operator, backend)
        if size
    ]


def _scratch_sizes(model: Subgraph, operator: Operator, backend: KernelBackend) -> list[int]:
    # Of the backend's operators, TFLM's own scratch is for weights of 4 bits, which it unpacks for each run.
    sizes = operator_scratch(model, operator)
    if not operator.is_custom and operator.name in _OF_THE_BACKEND and not _is_float(model, operator):
        sizes.append(_scratch_size(model, operator, backend))
    return sizes


def _is_float(model: Subgraph, operator: Operator) -> bool:
    return any(model.tensors[index].type is TensorType.FLOAT32 for index in operator.outputs[:1])


def _scratch_size(model: Subgraph, operator: Operator, backend: KernelBackend) -> int:
    query = getattr(backend, _OF_THE_BACKEND[operator.name])
    if operator.name != "SOFTMAX":
        return int(query(*_convolution_shapes(model, operator)))
    shapes = _shapes(model, (*operator.inputs[:1], *operator.outputs[:1]))
    if not shapes or not shapes[0]:
        raise NetworkError(f"operator {operator.index} (SOFTMAX) has no rows")
    return int(query(shapes[0][-1]))


def _convolution_shapes(model: Subgraph, operator: Operator) -> list[tuple[int, ...]]:
    shapes = _shapes(model, (*operator.inputs[:2], *operator.outputs[:1]))
    if [len(shape) for shape in shapes] != [4, 4, 4]:
        raise NetworkError(
            f"operator {operator.index} ({operator.name}) needs input, weights and output of four dimensions"
        )
    return shapes


def _shapes(model: Subgraph, tensors: Iterable[int]) -> list[tuple[int, ...]]:
    return [model.tensors[index].shape for index in tensors if index >= 0]
