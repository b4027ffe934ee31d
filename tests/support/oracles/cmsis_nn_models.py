"""Sets of CMSIS-NN as models: of one operator, and of a whole network.

Models are values, not files: their scales have 53 bits, which a set's multipliers of 31 bits need.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from msgspec import structs

from aisrv.addons.kernels.backend import KernelBackend
from aisrv.addons.kernels.network.load import prepare_network
from aisrv.model import Model, Operator, Options, TensorType
from aisrv.model.dtypes import DTYPES
from aisrv.model.values import Quantization, Tensor
from tests.support.oracles.cmsis_nn import Unsuitable, Vectors
from tests.support.oracles.cmsis_nn_cases import OperatorSet, operator_set, real_multiplier

_FROM_ONE: Final = Quantization.per_tensor(1.0, 0)


@dataclass(frozen=True)
class ModelSet:
    """A model of one operator, its inputs, and the output that CMSIS-NN expects.

    Inputs that are longer than the model's are those of several runs, of which the last gives the output.
    """

    name: str
    model: Model
    inputs: tuple[list[int], ...]
    low: int
    high: int
    expected: list[int]

    def run(self, backend: KernelBackend) -> list[int]:
        """The output on a backend, clamped as the set wants it."""
        network = prepare_network(self.model, backend)
        arrays = [network.tensors[index].array.reshape(-1) for index in self.model.inputs]
        for run in range(len(self.inputs[0]) // len(arrays[0])):
            for array, data in zip(arrays, self.inputs, strict=True):
                array[:] = data[run * len(array) : (run + 1) * len(array)]
            network.invoke()
        output = network.tensors[self.model.outputs[0]].array.reshape(-1)
        return [max(self.low, min(self.high, value)) for value in output.tolist()]


@dataclass(frozen=True)
class NetworkSet:
    """Layers of which each reads the output of the one before it."""

    name: str
    layers: tuple[Vectors, ...]
    expected: list[int]

    def run(self, backend: KernelBackend) -> list[int]:
        """The output of the last layer on a backend."""
        values = self.layers[0].arrays["input"]
        for layer in self.layers:
            arrays = layer.arrays | {"input": values, "output_ref": [0] * layer.numbers["OUTPUTS"]}
            values = operator_set(replace(layer, arrays=arrays)).run(backend)
        return values


def model_set(vectors: Vectors) -> ModelSet | NetworkSet:
    """Make the operator that a set is about, by its name; raise Unsuitable for others."""
    make = next((make for prefix, make in _MAKERS.items() if vectors.name.startswith(prefix)), None)
    if make is None:
        raise Unsuitable(vectors.name)
    return make(vectors)


def _model(vectors: Vectors, operator: str, tensors: list[Tensor | None], **options: Any) -> ModelSet:
    """A model of one operator, whose last tensor is its output; None stands for one that is left out."""
    present = [each for each in tensors if each is not None]
    numbered = tuple(structs.replace(each, index=index) for index, each in enumerate(present))
    places = iter(range(len(numbered)))
    *inputs, output = (-1 if each is None else next(places) for each in tensors)
    given = tuple(each.index for each in numbered[:-1] if each.data is None and not each.is_variable)
    node = Operator(0, operator, tuple(inputs), (output,), Options(options))
    ends = np.iinfo(DTYPES[numbered[-1].type])
    low = vectors.numbers.get("OUT_ACTIVATION_MIN", int(ends.min))
    high = vectors.numbers.get("OUT_ACTIVATION_MAX", int(ends.max))
    names = ("input",) if len(given) == 1 else ("input1", "input2")
    return ModelSet(
        vectors.name,
        Model(3, "", numbered, (node,), given, (output,)),
        tuple(vectors.arrays[name] for name in names),
        low,
        high,
        vectors.arrays["output_ref"],
    )


def _activation(shape: tuple[int, ...], zero_point: int = 0, scale: float = 1.0) -> Tensor:
    return Tensor("", shape, TensorType.INT8, Quantization.per_tensor(scale, zero_point))


_CONSTANT_TYPES: Final[Mapping[Any, TensorType]] = {
    np.int8: TensorType.INT8,
    np.int16: TensorType.INT16,
    np.int32: TensorType.INT32,
    np.int64: TensorType.INT64,
}


def _constant(values: list[int], shape: tuple[int, ...], dtype: Any, quant: Quantization | None) -> Tensor:
    kind = _CONSTANT_TYPES[dtype]
    return Tensor("", shape, kind, quant, np.array(values, dtype).tobytes())


def _shape(vectors: Vectors, *keys: str) -> tuple[int, ...]:
    return tuple(vectors.numbers[key] for key in keys)


def _extremum(operator: str) -> Callable[[Vectors], ModelSet]:
    def make(vectors: Vectors) -> ModelSet:
        sides = ("BATCH", "HEIGHT", "WIDTH", "CHANNEL")
        one, two = (_shape(vectors, *(f"{side}_{number}" for side in sides)) for number in (1, 2))
        output = _shape(vectors, *(f"OUTPUT_{side}" for side in sides))
        return _model(vectors, operator, [_activation(each) for each in (one, two, output)])

    return make


_TENSOR_TYPES: Final = {"int8_t": TensorType.INT8, "int16_t": TensorType.INT16}


def _matmul(vectors: Vectors) -> ModelSet:
    numbers, kind = vectors.numbers, _TENSOR_TYPES[vectors.types["input1"]]
    one, two, output = (
        _shape(vectors, *(f"{which}_{side}" for side in ("BATCH", "HEIGHT", "ROWS", "COLS")))
        for which in ("LHS", "RHS", "OUTPUT")
    )
    scale = 1 / real_multiplier(numbers["OUTPUT_MULT"], numbers["OUTPUT_SHIFT"])
    tensors: list[Tensor | None] = [
        structs.replace(each, type=kind)
        for each in (
            _activation(one, -numbers["LHS_OFFSET"]),
            _activation(two, -numbers["RHS_OFFSET"]),
            _activation(output, numbers["OUTPUT_OFFSET"], scale),
        )
    ]
    return _model(vectors, "BATCH_MATMUL", tensors, adj_x=numbers["ADJ_X"], adj_y=numbers["ADJ_Y"])


def _pad(vectors: Vectors) -> ModelSet:
    before, after = ([vectors.numbers[f"{when}_PAD_{side}"] for side in "NHWC"] for when in ("PRE", "POST"))
    source = _shape(vectors, "INPUT_N", "INPUT_H", "INPUT_W", "INPUT_C")
    output = tuple(a + extent + b for a, extent, b in zip(before, source, after, strict=True))
    pairs = [amount for pair in zip(before, after, strict=True) for amount in pair]
    zero = vectors.numbers["PAD_VALUE"]
    amounts = _constant(pairs, (4, 2), np.int32, None)
    return _model(vectors, "PAD", [_activation(source, zero), amounts, _activation(output, zero)])


def _transpose(vectors: Vectors) -> ModelSet:
    rank = vectors.numbers["PERM_SIZE"]
    source, output = (tuple(vectors.dimensions[key][:rank]) for key in ("IN_DIM", "OUT_DIM"))
    permutation = _constant(vectors.dimensions["PERM"][:rank], (rank,), np.int32, None)
    return _model(vectors, "TRANSPOSE", [_activation(source), permutation, _activation(output)])


def _layer(vectors: Vectors, channels: int) -> tuple[Quantization, list[Tensor]]:
    """The quantization of weights, and the bias where there is one."""
    pairs = zip(vectors.arrays["output_mult"], vectors.arrays["output_shift"], strict=True)
    scales = tuple(real_multiplier(multiplier, shift) for multiplier, shift in pairs)
    quant = Quantization.per_channel(scales, 0)
    numbers = vectors.arrays.get("biases")
    return quant, [_constant(numbers, (channels,), np.int32, quant)] if numbers else []


def _grouped(vectors: Vectors) -> ModelSet:
    numbers, channels = vectors.numbers, vectors.numbers["OUTPUT_C"]
    quant, bias = _layer(vectors, channels)
    source, output = (_shape(vectors, "INPUT_N", *(f"{w}_{s}" for s in "HWC")) for w in ("INPUT", "OUTPUT"))
    weights = (channels, *_shape(vectors, "FILTER_H", "FILTER_W", "FILTER_CH"))
    tensors: list[Tensor | None] = [
        _activation(source, -numbers["INPUT_OFFSET"]),
        _constant(vectors.arrays["weights"], weights, np.int8, quant),
        *bias,
        _activation(output, numbers["OUTPUT_OFFSET"]),
    ]
    return _model(
        vectors,
        "CONV_2D",
        tensors,
        padding=_padding(numbers),
        stride_w=numbers["STRIDE_W"],
        stride_h=numbers["STRIDE_H"],
        dilation_w_factor=numbers["DILATION_W"],
        dilation_h_factor=numbers["DILATION_H"],
    )


def _padding(numbers: Mapping[str, int]) -> int:
    """SAME (0) where pixels are padded, else VALID (1)."""
    return int(not (numbers["PAD_W"] or numbers["PAD_H"]))


def _transpose_conv(vectors: Vectors) -> ModelSet:
    numbers, channels = vectors.numbers, vectors.numbers["OUTPUT_C"]
    quant, bias = _layer(vectors, channels)
    source, output = (_shape(vectors, "INPUT_N", *(f"{w}_{s}" for s in "HWC")) for w in ("INPUT", "OUTPUT"))
    weights = (channels, *_shape(vectors, "FILTER_H", "FILTER_W", "INPUT_C"))
    tensors: list[Tensor | None] = [
        _constant(list(output), (4,), np.int32, None),
        _constant(vectors.arrays["weights"], weights, np.int8, quant),
        _activation(source, -numbers["INPUT_OFFSET"]),
        *bias,
        _activation(output, numbers["OUTPUT_OFFSET"]),
    ]
    # With VALID, an output of (n - 1) * stride + taps; a smaller one is SAME.
    whole = [
        (numbers[f"INPUT_{side}"] - 1) * numbers[f"STRIDE_{side}"] + numbers[f"FILTER_{side}"]
        for side in "HW"
    ]
    is_valid = whole == [numbers["OUTPUT_H"], numbers["OUTPUT_W"]]
    return _model(
        vectors,
        "TRANSPOSE_CONV",
        tensors,
        padding=int(is_valid),
        stride_w=numbers["STRIDE_W"],
        stride_h=numbers["STRIDE_H"],
    )


_WORDS: Final = {"int8_t": np.int8, "int16_t": np.int16, "int32_t": np.int32, "int64_t": np.int64}


def _svdf(vectors: Vectors) -> ModelSet:
    """Inputs of several calls, one after the other; the output is the last one's."""
    numbers, arrays = vectors.numbers, vectors.arrays
    size, filters, memory = (numbers[key] for key in ("INPUT_SIZE", "FEATURE_BATCHES", "TIME_BATCHES"))
    batch, units = numbers["INPUT_N"], filters // numbers["RANK"]
    to_state = real_multiplier(numbers["MULTIPLIER_IN"], numbers["SHIFT_1"])
    to_output = real_multiplier(numbers["MULTIPLIER_OUT"], numbers["SHIFT_2"])
    time_type = _WORDS[vectors.types["weights_time"]]
    state_type = TensorType.INT16 if time_type is np.int16 else TensorType.INT8
    state = Tensor("", (batch, memory * filters), state_type, _FROM_ONE, is_variable=True)
    tensors: list[Tensor | None] = [
        _activation((batch, size), numbers["INPUT_OFFSET"]),  # its sign is that of a zero point
        _constant(arrays["weights_feature"], (filters, size), np.int8, Quantization.per_tensor(to_state, 0)),
        _constant(
            arrays["weights_time"], (filters, memory), time_type, Quantization.per_tensor(to_output, 0)
        ),
        _constant(arrays["biases"], (units,), np.int32, _FROM_ONE),
        state,
        _activation((batch, units), numbers["OUTPUT_OFFSET"]),
    ]
    calls = replace(vectors, arrays=arrays | {"input": arrays["input_sequence"]})
    return _model(calls, "SVDF", tensors, rank=numbers["RANK"])


def _lstm(vectors: Vectors) -> ModelSet:
    """One sequence; states start as zeros. Gates' sums are worth 2**-12, their functions 2**-15."""
    kind, bias_type = _TENSOR_TYPES[vectors.types["input"]], _WORDS[vectors.types["cell_gate_bias"]]
    numbers, arrays = vectors.numbers, vectors.arrays
    batch, steps, size, units = (
        numbers[key] for key in ("INPUT_N", "TIME_STEPS", "INPUT_SIZE", "HIDDEN_SIZE")
    )
    hidden_scale = 2.0**-30 / real_multiplier(numbers["OUTPUT_MULT"], numbers["OUTPUT_SHIFT"])
    hidden = Quantization.per_tensor(hidden_scale, numbers["OUTPUT_ZERO_POINT"])
    # Not always the power of two next to it, which the set says, too.
    to_cell = real_multiplier(numbers["INPUT_TO_CELL_MULTIPLIER"], numbers["INPUT_TO_CELL_SHIFT"])
    cell = Quantization.per_tensor(2.0**-30 / to_cell, 0)
    gates = ("input", "forget", "cell", "output")

    def weights(gate: str, kind: str, columns: int, scale: float) -> Tensor:
        key = f"{gate.upper()}_GATE_{kind.upper()}"
        real = real_multiplier(numbers[f"{key}_MULTIPLIER"], numbers[f"{key}_SHIFT"])
        quant = Quantization.per_tensor(real * 2.0**-12 / scale, 0)
        return _constant(arrays[f"{gate}_gate_{kind}_weights"], (units, columns), np.int8, quant)

    biases = [_constant(arrays[f"{gate}_gate_bias"], (units,), bias_type, _FROM_ONE) for gate in gates]
    # Of one batch, which all sets have, time-major and batch-major lie alike.
    tensors: list[Tensor | None] = [
        structs.replace(_activation((batch, steps, size), -numbers["INPUT_ZERO_POINT"]), type=kind),
        *(weights(gate, "input", size, 1.0) for gate in gates),
        *(weights(gate, "hidden", units, hidden_scale) for gate in gates),
        *[None] * 3,
        *biases,
        *[None] * 2,
        Tensor("", (batch, units), kind, hidden, is_variable=True),
        Tensor("", (batch, units), TensorType.INT16, cell, is_variable=True),
        *[None] * 4,
        Tensor("", (batch, steps, units), kind, hidden),
    ]
    return _model(vectors, "UNIDIRECTIONAL_SEQUENCE_LSTM", tensors, fused_activation_function=4)


def _network(vectors: Vectors) -> NetworkSet:
    """Layers are numbered; keys begin with a layer's kind and number, names with "layer", number and kind."""
    kinds = {int(number): kind for kind, number in _LAYERS.findall("\n".join(vectors.numbers))}
    layers = []
    for number, kind in sorted(kinds.items()):
        layer = vectors.part(f"{kind}_{number}_", f"layer_{number}_{kind.lower()}_")
        numbers = layer.numbers
        outputs = numbers.get("OUTPUT_H", 1) * numbers.get("OUTPUT_W", 1) * numbers["OUTPUT_C"]
        changes = {"OUTPUTS": outputs}
        match kind:
            case "DEPTHWISE_CONV_2D":
                changes["DEPTH_MULTIPLIER"] = 1
            case "FULLY_CONNECTED":
                # Its keys have inputs and outputs the wrong way round, and a window.
                depth = numbers["OUTPUT_C"]
                changes |= {"ACCUMULATION_DEPTH": depth, "OUTPUT_C": numbers["INPUT_C"]}
                changes["OUTPUTS"] = numbers["INPUT_C"]
                numbers = {key: value for key, value in numbers.items() if not key.startswith("FILTER")}
            case "SOFTMAX":
                changes |= {"INPUT_MULT": numbers["MULT"], "INPUT_LEFT_SHIFT": numbers["SHIFT"]}
                changes["OUTPUTS"] = numbers["ROW_SIZE"]
        name = "avgpool" if kind == "AVERAGE_POOL_2D" else kind.lower()
        types = layer.types | {"input": "int8_t", "output_ref": "int8_t"}
        layers.append(replace(layer, name=name, numbers=numbers | changes, types=types))
    first = replace(layers[0], arrays=layers[0].arrays | {"input": vectors.arrays["input"]})
    return NetworkSet(vectors.name, (first, *layers[1:]), vectors.arrays["output_ref"])


_LAYERS: Final = re.compile(r"^([A-Z][A-Z0-9_]*?)_(\d+)_INPUT_W$", re.MULTILINE)

_MAKERS: Final[Mapping[str, Callable[[Vectors], ModelSet | NetworkSet]]] = MappingProxyType(
    {
        "maximum_": _extremum("MAXIMUM"),
        "minimum_": _extremum("MINIMUM"),
        "batch_matmul_": _matmul,
        "pad_": _pad,
        "transpose_conv_": _transpose_conv,
        "reverse_transpose_conv_": _transpose_conv,
        "transpose_": _transpose,
        "grouped_conv_": _grouped,
        "svdf": _svdf,
        "lstm_": _lstm,
        "ds_cnn_": _network,
    }
)
"""By the beginning of a set's name; the first that fits."""


def any_set(vectors: Vectors) -> OperatorSet | ModelSet | NetworkSet:
    """Make the operator or network of a set; raise Unsuitable for one that there is no code for."""
    try:
        return model_set(vectors)
    except Unsuitable:
        if any(vectors.name.startswith(prefix) for prefix in _MAKERS):
            raise
    return operator_set(vectors)
