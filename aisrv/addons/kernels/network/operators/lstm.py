"""UNIDIRECTIONAL_SEQUENCE_LSTM of int8 or int16 with a cell state of int16.

Sources: `lstm_eval.h`, `lstm_eval_common.cc` of TensorFlow Lite Micro; `integer_ops/logistic.h` and
`integer_ops/tanh.h` of TensorFlow Lite.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np

from aisrv.addons.kernels import int16
from aisrv.addons.kernels.arithmetic import Multiplier, multiply_scales, quantized_multiplier
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.words import Scale, wide_scale, word_scale
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import OperatorNode, expect_shape, symmetric
from aisrv.addons.kernels.network.operators.sigmoid_tables import Argument, sigmoid_table, tanh_table
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.addons.kernels.recurrent import CellUpdate, LstmParams, Reals, RecurrentBackend, Words
from aisrv.model import Activation, TensorType

_INPUTS: Final = 24
_ABSENT: Final = {
    "peephole weights": range(9, 12),
    "a projection": range(16, 18),
    "a normalization of layers": range(20, 24),
}
_GATES: Final = (0, 1, 3, 2)
"""The gates by their places among an operator's weights: input, forget, output, and the cell's candidate.

All but the last have a sigmoid, which is so computed for all three at once.
"""

_GATE_SCALE: Final = 2.0**-12
"""The scale of a gate's sum, before its function."""
_FUNCTION_SCALE: Final = 2.0**-15
_LARGEST: Final = (1 << 15) - 1
_LEAST_SHIFT: Final = -15
_MOST_SHIFT: Final = 14


class _Sizes(NamedTuple):
    steps: int
    batch: int
    inputs: int
    units: int


def lstm(node: OperatorNode) -> Kernel:
    """Prepare UNIDIRECTIONAL_SEQUENCE_LSTM of int8 or int16: four gates, two states that are variables."""
    node.expect(_INPUTS)
    for name, numbers in _ABSENT.items():
        if any(node.inputs[number] is not None for number in numbers):
            raise NetworkError(f"has {name}, which TensorFlow Lite Micro does not know")
    if node.options.activation is not Activation.TANH:
        raise NetworkError(f"the activation is {node.options.activation.name}, must be TANH")
    source = node.input(0, TensorType.INT8, TensorType.INT16)
    kind = source.tensor.type
    output, hidden, cell = node.output(0, kind), node.input(18, kind), node.input(19, TensorType.INT16)
    is_time_major = bool(node.options.integer("time_major"))
    sizes = _sizes(source, hidden, cell, is_time_major=is_time_major)
    expect_shape(output, (*source.shape[:2], sizes.units))
    bias = _bias(node, sizes.units, TensorType.INT32 if kind is TensorType.INT8 else TensorType.INT64)
    weights, multipliers = _matrix(node, 1, source, (sizes.units, sizes.inputs))
    recurrent, state_multipliers = _matrix(node, 5, hidden, (sizes.units, sizes.units))
    scale_input = _scale(source, multipliers, bias)
    scale_state = _scale(hidden, state_multipliers, bias)
    update = _cell_update(node, hidden, cell)

    zero, state_zero = source.quantization.zero_point, hidden.quantization.zero_point
    read = source.array if is_time_major else source.array.swapaxes(0, 1)
    write = output.array if is_time_major else output.array.swapaxes(0, 1)
    state = hidden.array
    if kind is TensorType.INT8 and isinstance(node.backend, RecurrentBackend):
        params = LstmParams(
            input=read,
            output=write,
            state=state,
            input_zero=zero,
            state_zero=state_zero,
            weights=weights,
            recurrent=recurrent,
            bias=bias,
            input_multipliers=multipliers,
            state_multipliers=state_multipliers,
            update=update,
        )
        with suppress(NotImplementedError):
            return node.backend.lstm(params)
    bounds = _limits(hidden)
    scales = [word_scale((each,)) for each in (update.forget, update.remember, update.show)]

    def kernel() -> None:
        # What the gates have of the input, for all steps at once.
        sums = ((read.astype(np.float64) - zero) @ weights).astype(np.int64) + bias
        given = _saturated(scale_input(sums))
        for step in range(sizes.steps):
            past = (state.astype(np.float64) - state_zero) @ recurrent
            gates = _saturated(scale_state(past.astype(np.int64)))
            gates += given[step]
            values = _new_values(update, scales, _saturated(gates)) + state_zero
            np.clip(values, *bounds, out=state, casting="unsafe")
            write[step] = state

    return kernel


def _sizes(
    source: NetworkTensor, hidden: NetworkTensor, cell: NetworkTensor, *, is_time_major: bool
) -> _Sizes:
    if len(source.shape) != 3 or len(hidden.shape) != 2:
        raise NetworkError(
            f"the input has shape {list(source.shape)}, the hidden state {list(hidden.shape)}: "
            "must have three dimensions and two"
        )
    for name, tensor in (("hidden", hidden), ("cell", cell)):
        if not tensor.tensor.is_variable:
            raise NetworkError(f"the {name} state ({tensor}) must be a variable")
    steps, batch = source.shape[:2] if is_time_major else source.shape[1::-1]
    units = hidden.shape[1]
    expect_shape(hidden, (batch, units))
    expect_shape(cell, (batch, units))
    return _Sizes(steps, batch, source.shape[2], units)


def _matrix(
    node: OperatorNode, first: int, data: NetworkTensor, shape: tuple[int, int]
) -> tuple[Reals, tuple[Multiplier, ...]]:
    """The weights of all gates side by side, and the factors from their sums to steps of 2**-12."""
    columns, multipliers = [], []
    for gate in _GATES:
        weights = node.constant(first + gate, TensorType.INT8)
        expect_shape(weights, shape)
        quant = weights.quantization
        # Float64 holds every sum exactly, and is what BLAS multiplies.
        columns.append(weights.array.T.astype(np.float64) - quant.zero_point)
        product = multiply_scales(data.quantization.scale, quant.scale, node.scale_product)
        multiplier = quantized_multiplier(product / _GATE_SCALE)
        multipliers += [multiplier] * shape[0]
    return np.concatenate(columns, axis=1), tuple(multipliers)


def _scale(data: NetworkTensor, multipliers: tuple[Multiplier, ...], bias: Words) -> Scale:
    if data.tensor.type is TensorType.INT8:
        return word_scale(multipliers)
    symmetric(data)
    int16.check_wide(multipliers, bias.data)
    return wide_scale(multipliers)


def _bias(node: OperatorNode, units: int, kind: TensorType) -> Words:
    biases = [node.constant(12 + gate, kind) for gate in _GATES]
    for bias in biases:
        expect_shape(bias, (units,))
    joined: Words = np.concatenate([bias.array for bias in biases]).astype(np.int64)
    return joined


def _cell_update(node: OperatorNode, hidden: NetworkTensor, cell: NetworkTensor) -> CellUpdate:
    scale, quant = cell.quantization.scale, hidden.quantization
    clip = node.options.real("cell_clip")
    if not clip >= 0:
        raise NetworkError(f"cell_clip is {clip}, must not be negative")
    shift = 12 + round(math.log2(scale))
    if not _LEAST_SHIFT <= shift <= _MOST_SHIFT:
        raise NetworkError(f"the cell state ({cell}) has the scale {scale}: its tanh does not fit 32 bits")
    limit = int(min(clip / scale, _LARGEST)) if clip else None
    return CellUpdate(
        cells=cell.array,
        limits=(-_LARGEST - 1, _LARGEST) if limit is None else (-limit, limit),
        sigmoid=sigmoid_table(Argument.power(0)),
        tanh=tanh_table(Argument.power(0)),
        cell_tanh=tanh_table(Argument.power(shift)),
        forget=quantized_multiplier(_FUNCTION_SCALE * scale / scale),
        remember=quantized_multiplier(_FUNCTION_SCALE * _FUNCTION_SCALE / scale),
        show=quantized_multiplier(_FUNCTION_SCALE * _FUNCTION_SCALE / quant.scale),
    )


def _limits(tensor: NetworkTensor) -> tuple[int, int]:
    ends = np.iinfo(tensor.array.dtype)
    return int(ends.min), int(ends.max)


def _new_values(update: CellUpdate, scales: Sequence[Scale], gates: Words) -> Words:
    """Write the cell state; return the hidden one, without its zero point and its bounds."""
    forget, remember, show = scales
    units = update.cells.shape[1]
    places = gates & 0xFFFF
    opened = update.sigmoid[places[:, : 3 * units]]
    candidate = update.tanh[places[:, 3 * units :]]
    given, kept, shown = opened[:, :units], opened[:, units : 2 * units], opened[:, 2 * units :]
    cells = _saturated(forget(kept * update.cells))
    cells += _saturated(remember(given * candidate))
    np.clip(cells, *update.limits, out=cells)
    update.cells[...] = cells
    return show(shown * update.cell_tanh[cells & 0xFFFF])


def _saturated(values: Words) -> Words:
    return np.clip(values, -_LARGEST - 1, _LARGEST)
