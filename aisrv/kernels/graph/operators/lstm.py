"""UNIDIRECTIONAL_SEQUENCE_LSTM of int8 with a cell state of int16.

Sources: `lstm_eval.h`, `lstm_eval_common.cc` of TensorFlow Lite Micro; `integer_ops/logistic.h` and
`integer_ops/tanh.h` of TensorFlow Lite.
"""

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aisrv.kernels.arithmetic import Multiplier, float32, quantized_multiplier
from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.operator_node import OperatorNode, expect_shape
from aisrv.kernels.graph.operators.vectors import multiply
from aisrv.kernels.graph.tensors import GraphTensor
from aisrv.model import Activation, TensorType

_INPUTS: Final = 24
_ABSENT: Final = {
    "peephole weights": range(9, 12),
    "a projection": range(16, 18),
    "a normalization of layers": range(20, 24),
}
_GATES: Final = ("input", "forget", "cell", "output")
"""The order of weights and biases among an operator's inputs."""

_GATE_SCALE: Final = 2.0**-12
"""What one step of a gate's sum is worth, before its function; after it, 2**-15."""
_FUNCTION_SCALE: Final = 2.0**-15
_LARGEST: Final = (1 << 15) - 1
_LEAST_SHIFT: Final = -15
_MOST_SHIFT: Final = 14

_Words = npt.NDArray[np.int64]


def _sigmoid_table() -> _Words:
    """1/(1 + exp(-x)) with 16 bits after the point, for x in steps of 1/24.

    An entry lies above its value by half of what a straight line to the next one is too low in the middle.
    """
    exact = [65536 / (1 + math.exp(-half / 48)) for half in range(2 * _STEPS + 1)]
    entries = [
        math.floor(low + (middle - (low + high) / 2) / 2 + 0.5)
        for low, middle, high in zip(exact[:-2:2], exact[1::2], exact[2::2], strict=True)
    ]
    return np.array([*entries[:-1], 65535], np.int64)


_STEPS: Final = 256
_SIGMOID: Final = _sigmoid_table()


class _Sizes(NamedTuple):
    steps: int
    batch: int
    inputs: int
    units: int


class _Gate(NamedTuple):
    """One gate: weights, bias, and the factors from their sums to steps of 2**-12."""

    weights: npt.NDArray[np.float64]
    recurrent: npt.NDArray[np.float64]
    bias: _Words
    from_input: Multiplier
    from_state: Multiplier


def lstm(node: OperatorNode) -> Kernel:
    """Prepare UNIDIRECTIONAL_SEQUENCE_LSTM: four gates, a hidden and a cell state that are variables."""
    node.expect(_INPUTS)
    for name, numbers in _ABSENT.items():
        if any(node.inputs[number] is not None for number in numbers):
            raise GraphError(f"has {name}, which TensorFlow Lite Micro does not know")
    if node.options.activation is not Activation.TANH:
        raise GraphError(f"the activation is {node.options.activation.name}, must be TANH")
    source, output = node.input(0, TensorType.INT8), node.output(0, TensorType.INT8)
    hidden, cell = node.input(18, TensorType.INT8), node.input(19, TensorType.INT16)
    is_time_major = bool(node.options.integer("time_major"))
    sizes = _sizes(source, hidden, cell, is_time_major=is_time_major)
    expect_shape(output, (*source.shape[:2], sizes.units))
    gates = [_gate(node, number, source, hidden, sizes) for number in range(len(_GATES))]
    update = _cell_update(node, hidden, cell)

    zero, state_zero = source.quantization.zero_point, hidden.quantization.zero_point
    read = source.array if is_time_major else source.array.swapaxes(0, 1)
    write = output.array if is_time_major else output.array.swapaxes(0, 1)
    state = hidden.array.reshape(sizes.batch, sizes.units)

    def kernel() -> None:
        data = read.astype(np.float64) - zero
        # What the gates have of the input, for all steps at once.
        given = [_scaled(data @ gate.weights, gate.bias, gate.from_input) for gate in gates]
        for step in range(sizes.steps):
            past = state.astype(np.float64) - state_zero
            sums = [
                _saturated(part[step] + _scaled(past @ gate.recurrent, 0, gate.from_state))
                for part, gate in zip(given, gates, strict=True)
            ]
            update(sums, state)
            write[step] = state

    return kernel


def _sizes(source: GraphTensor, hidden: GraphTensor, cell: GraphTensor, *, is_time_major: bool) -> _Sizes:
    if len(source.shape) != 3 or len(hidden.shape) != 2:
        raise GraphError(
            f"the input has shape {list(source.shape)}, the hidden state {list(hidden.shape)}: "
            "must have three dimensions and two"
        )
    for name, tensor in (("hidden", hidden), ("cell", cell)):
        if not tensor.tensor.is_variable:
            raise GraphError(f"the {name} state ({tensor}) must be a variable")
    steps, batch = source.shape[:2] if is_time_major else source.shape[1::-1]
    units = hidden.shape[1]
    expect_shape(hidden, (batch, units))
    expect_shape(cell, (batch, units))
    return _Sizes(steps, batch, source.shape[2], units)


def _gate(node: OperatorNode, number: int, source: GraphTensor, hidden: GraphTensor, sizes: _Sizes) -> _Gate:
    weights = node.constant(1 + number, TensorType.INT8)
    recurrent = node.constant(5 + number, TensorType.INT8)
    bias = node.constant(12 + number, TensorType.INT32)
    expect_shape(weights, (sizes.units, sizes.inputs))
    expect_shape(recurrent, (sizes.units, sizes.units))
    expect_shape(bias, (sizes.units,))
    return _Gate(
        _matrix(weights),
        _matrix(recurrent),
        bias.array.astype(np.int64),
        _to_gate(source, weights),
        _to_gate(hidden, recurrent),
    )


def _matrix(weights: GraphTensor) -> npt.NDArray[np.float64]:
    # Float64 holds every sum exactly, and is what BLAS multiplies.
    return weights.array.T.astype(np.float64) - weights.quantization.zero_point


def _to_gate(data: GraphTensor, weights: GraphTensor) -> Multiplier:
    return quantized_multiplier(float32(data.quantization.scale * weights.quantization.scale) / _GATE_SCALE)


def _scaled(sums: npt.NDArray[np.float64], bias: _Words | int, multiplier: Multiplier) -> _Words:
    return _saturated(multiply(sums.astype(np.int64) + bias, multiplier))


def _cell_update(node: OperatorNode, hidden: GraphTensor, cell: GraphTensor) -> "_CellUpdate":
    scale, quant = cell.quantization.scale, hidden.quantization
    clip = node.options.real("cell_clip")
    if not clip >= 0:
        raise GraphError(f"cell_clip is {clip}, must not be negative")
    shift = 12 + round(math.log2(scale))
    if not _LEAST_SHIFT <= shift <= _MOST_SHIFT:
        raise GraphError(f"the cell state ({cell}) has the scale {scale}: its tanh does not fit 32 bits")
    return _CellUpdate(
        cells=cell.array.reshape(hidden.shape),
        shift=shift,
        forget=quantized_multiplier(_FUNCTION_SCALE * scale / scale),
        remember=quantized_multiplier(_FUNCTION_SCALE * _FUNCTION_SCALE / scale),
        show=quantized_multiplier(_FUNCTION_SCALE * _FUNCTION_SCALE / quant.scale),
        zero=quant.zero_point,
        clip=int(min(clip / scale, _LARGEST)) if clip else None,
    )


class _CellUpdate(NamedTuple):
    """The step from the sums of the gates to new states."""

    cells: npt.NDArray[np.int16]
    shift: int
    """Bits by which a cell state is below the steps that tanh takes."""
    forget: Multiplier
    remember: Multiplier
    show: Multiplier
    zero: int
    clip: int | None
    """The largest cell state; None for no bound but the type's."""

    def __call__(self, sums: list[_Words], state: npt.NDArray[np.int8]) -> None:
        """Write the cell state and the hidden one."""
        given, kept, candidate, shown = sums
        old = multiply(_sigmoid(kept) * self.cells, self.forget)
        new = multiply(_sigmoid(given) * _tanh(candidate, 0), self.remember)
        cells = _saturated(_saturated(old) + _saturated(new))
        if self.clip is not None:
            cells = np.clip(cells, -self.clip, self.clip)
        self.cells[...] = cells
        values = multiply(_sigmoid(shown) * _tanh(cells, self.shift), self.show) + self.zero
        np.clip(values, -128, 127, out=state, casting="unsafe")


def _saturated(values: _Words) -> _Words:
    return np.clip(values, -_LARGEST - 1, _LARGEST)


def _sigmoid(values: _Words) -> _Words:
    """1/(1 + exp(-x)) of steps of 2**-12; 15 bits after the point."""
    arguments = values * 3
    sizes = np.abs(arguments)
    places = np.minimum(sizes >> 9, 254)
    low, high = _SIGMOID[places], _SIGMOID[places + 1]
    positive = np.where(sizes >> 9 >= 255, 0x7FFF << 10, (low << 9) + (sizes & 0x1FF) * (high - low))
    rounded = np.where(arguments >= 0, positive + (1 << 9), (1 << 25) - positive + (1 << 9) - 1)
    return rounded >> 10


def _tanh(values: _Words, shift: int) -> _Words:
    """Tanh of steps of 2**(shift - 12); 15 bits after the point."""
    arguments = values * (3 << shift) if shift >= 0 else (values * 3 + (1 << (-shift - 1))) >> -shift
    sizes = np.abs(arguments)
    places = np.minimum(sizes >> 8, 254)
    low, high = _SIGMOID[places], _SIGMOID[places + 1]
    positive = np.where(sizes >> 8 >= 255, 0xFFFF << 8, (low << 8) + (sizes & 0xFF) * (high - low))
    rounded = np.where(arguments >= 0, positive - (1 << 23) + (1 << 7), -positive + (1 << 23) + (1 << 7) - 1)
    return rounded >> 8
