"""The tail of the tensor arena: an estimate of TFLM's own structures on the 32-bit device."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from aisrv.model.arena_plan import ALIGNMENT, round_up
from aisrv.model.values import Model, Operator


class TailLayout(Struct, frozen=True):
    """Sizes in bytes of the structures that TFLM keeps at the end of the arena, for one width of pointers."""

    fixed: int
    """Allocators, planner and list of subgraphs."""
    pointer: int
    eval_tensor: int
    """TfLiteEvalTensor: one for each tensor."""
    io_tensor: int
    """TfLiteTensor with its quantization of one channel: one for each input and output of the model."""
    node: int
    """NodeAndRegistration: one for each operator."""
    parameters: Mapping[str, int]
    """The operator's options in TFLM's form (`builtin_op_data.h`)."""
    state: Mapping[str, int]
    """State that the kernel computes once (OpData…), before rounding up to ALIGNMENT."""
    other_parameters: int = 16
    """Size for operators that `parameters` does not name: a guess."""
    other_state: int = 32
    """Size for operators that `state` does not name: a guess."""


DEVICE_TAIL: Final = TailLayout(
    fixed=248,
    pointer=4,
    eval_tensor=12,
    io_tensor=60,
    node=32,
    parameters=MappingProxyType(
        {
            "CONV_2D": 28,
            "DEPTHWISE_CONV_2D": 28,
            "FULLY_CONNECTED": 32,
            "AVERAGE_POOL_2D": 40,
            "MAX_POOL_2D": 40,
            "RESHAPE": 36,
            "ADD": 8,
            "SOFTMAX": 4,
        }
    ),
    state=MappingProxyType(
        {
            "CONV_2D": 56,
            "DEPTHWISE_CONV_2D": 56,
            "FULLY_CONNECTED": 48,
            "AVERAGE_POOL_2D": 32,
            "MAX_POOL_2D": 32,
            "RESHAPE": 0,
            "ADD": 60,
            "SOFTMAX": 56,
        }
    ),
)
"""Estimate for the device: TFLM's structures with 4-byte pointers; `fixed` is half of that with 8 bytes."""

_CONVOLUTIONS: Final = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})


def estimate_tail(model: Model, layout: TailLayout = DEVICE_TAIL) -> int:
    """Estimate the tail of the arena in bytes: TFLM's persistent structures, and the model's variables."""
    structures = (
        layout.fixed
        + layout.eval_tensor * len(model.tensors)
        + layout.io_tensor * (len(model.inputs) + len(model.outputs))
        + layout.node * len(model.operators)
        + sum(layout.parameters.get(operator.name, layout.other_parameters) for operator in model.operators)
    )
    persistent = [layout.pointer * len(model.inputs), layout.pointer * len(model.outputs)]
    for operator in model.operators:
        persistent.append(layout.state.get(operator.name, layout.other_state))
        # A multiplier and a shift, 4 bytes each, in two lists.
        persistent += [4 * _requantized_channels(model, operator)] * 2
    persistent += _variables(model)
    structures += sum(round_up(size, ALIGNMENT) for size in persistent)
    return round_up(structures, ALIGNMENT)


def _requantized_channels(model: Model, operator: Operator) -> int:
    """Count channels for which the kernel stores a multiplier each."""
    if operator.name in _CONVOLUTIONS and operator.outputs:
        return (model.tensors[operator.outputs[0]].shape or (0,))[-1]
    if operator.name == "FULLY_CONNECTED" and len(operator.inputs) > 1 and operator.inputs[1] >= 0:
        weights = model.tensors[operator.inputs[1]].quantization
        return len(weights.scales) if weights is not None and weights.is_per_channel else 0
    return 0


def _variables(model: Model) -> list[int]:
    """Return the sizes of the state that the model keeps from one invocation to the next."""
    resources = {
        operator.inputs[0]: model.tensors[operator.inputs[1]].nbytes
        for operator in model.operators
        if operator.name == "ASSIGN_VARIABLE" and len(operator.inputs) == 2 and min(operator.inputs) >= 0
    }
    tensors = [tensor.nbytes for tensor in model.tensors if tensor.is_variable and not tensor.is_constant]
    return [*tensors, *resources.values()]
