"""Sets of CMSIS-NN as operators of a kernel backend, with the outputs that CMSIS-NN expects.

A set states multipliers and shifts instead of scales: scales are chosen here that give exactly those. It may
clamp to any bounds: they are applied to the output, which comes to the same.
"""

import math
from array import array
from dataclasses import dataclass, replace
from typing import Any, Final

from tflite import BuiltinOperator

from aisrv.addons.kernels import int16
from aisrv.addons.kernels.arithmetic import ADD_LEFT_SHIFT
from aisrv.addons.kernels.backend import KernelBackend
from aisrv.addons.kernels.errors import InvalidShape
from aisrv.addons.kernels.network.operators.weights import unpack_int4
from aisrv.addons.kernels.params import (
    INT8,
    INT16,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementType,
    ElementwiseAddParams,
    FullyConnectedParams,
    FusedActivation,
    MulParams,
    PerChannelQuantParam,
    PoolParams,
    QuantParam,
    SoftmaxParams,
)
from aisrv.addons.kernels.windows import window
from aisrv.model import Padding
from tests.support.models.operators import Case
from tests.support.oracles.cmsis_nn import Unsuitable, Vectors

_TYPES: Final = {"int8_t": INT8, "q7_t": INT8, "int16_t": INT16, "q15_t": INT16}
_BIAS_FORMATS: Final = {"int32_t": "i", "int64_t": "q"}
_LEFT_SHIFTS: Final = {INT8: ADD_LEFT_SHIFT, INT16: int16.ADD_LEFT_SHIFT}


@dataclass(frozen=True)
class OperatorSet:
    """One operator with the output that CMSIS-NN expects, and the bounds that it clamps to."""

    name: str
    case: Case
    low: int
    high: int
    expected: list[int]

    def run(self, backend: KernelBackend) -> list[int]:
        """The output of a backend, clamped as the set wants it."""
        return [max(self.low, min(self.high, value)) for value in self.case.run(backend)]


def operator_set(vectors: Vectors) -> OperatorSet:
    """Make the operator that a set is about; raise Unsuitable for others."""
    numbers, arrays = vectors.numbers, vectors.arrays
    try:
        case = _case(vectors)
    except KeyError as missing:
        raise Unsuitable(f"{vectors.name}: has no {missing}") from None
    if "output_ref" not in arrays:
        raise Unsuitable(f"{vectors.name}: has no output")
    elements = element_type(vectors, "output_ref")
    for name in ("input", "input1", "input2"):
        if name in arrays and element_type(vectors, name) is not elements:
            raise Unsuitable(f"{vectors.name}: {name} and output are of different types")
    low, high = (
        numbers.get("OUT_ACTIVATION_MIN", elements.low),
        numbers.get("OUT_ACTIVATION_MAX", elements.high),
    )
    return OperatorSet(vectors.name, case, low, high, arrays["output_ref"])


def element_type(vectors: Vectors, name: str) -> ElementType:
    """The type of an array of activations; Unsuitable for another than int8 and int16."""
    ctype = vectors.types[name]
    if ctype not in _TYPES:
        raise Unsuitable(f"{vectors.name}: {name} is of type {ctype}")
    return _TYPES[ctype]


def activations(vectors: Vectors, name: str) -> memoryview:
    """An array of activations as a buffer of its type."""
    return memoryview(array(element_type(vectors, name).format, vectors.arrays[name]))


def _case(vectors: Vectors) -> Case:
    numbers, arrays = vectors.numbers, vectors.arrays
    if "INPUT_LEFT_SHIFT" in numbers and "ROW_SIZE" in numbers:
        return _softmax(vectors)
    if "INPUT1_OFFSET" in numbers:
        return _elementwise(vectors)
    if "FILTER_W" in numbers and "weights" in arrays:
        return _convolution(vectors)
    if "ACCUMULATION_DEPTH" in numbers:
        return _fully_connected(vectors)
    if "FILTER_W" in numbers:
        return _pool(vectors)
    raise Unsuitable(vectors.name)


def real_multiplier(multiplier: int, shift: int) -> float:
    return multiplier * 2.0 ** (shift - 31)


def _zeros(vectors: Vectors) -> memoryview:
    elements = element_type(vectors, "output_ref")
    return memoryview(array(elements.format, [0] * len(vectors.arrays["output_ref"])))


def layer_weights(vectors: Vectors, count: int) -> memoryview:
    """So many weights, unpacked where the set is one of 4 bits; Unsuitable where there are others."""
    # Packed ones are written with and without a sign.
    weights = memoryview(bytes(number & 0xFF for number in vectors.arrays["weights"])).cast("b")
    if "int4" in vectors.name:
        if len(weights) != (count + 1) // 2:
            raise Unsuitable(f"{vectors.name}: {len(weights)} bytes of weights for {count} of 4 bits")
        return unpack_int4(weights, count)
    if len(weights) != count:
        raise Unsuitable(f"{vectors.name}: {len(weights)} weights, not {count}: a convolution of groups")
    return weights


def layer_bias(vectors: Vectors, channels: int) -> memoryview | None:
    """The bias in the type that it has. An absent one of int16 layers tells by its type how sums are kept."""
    form = _BIAS_FORMATS[vectors.types.get("biases", "int32_t")]
    numbers = vectors.arrays.get("biases")
    if not numbers:
        if element_type(vectors, "input") is INT8 or form == "q":
            return None
        numbers = [0] * channels
    return memoryview(array(form, numbers)).toreadonly()


def _softmax(vectors: Vectors) -> Case:
    numbers = vectors.numbers
    scale = real_multiplier(numbers["INPUT_MULT"], numbers["INPUT_LEFT_SHIFT"]) / (1 << 26)
    params = SoftmaxParams(
        activations(vectors, "input"),
        (numbers["NUM_ROWS"], numbers["ROW_SIZE"]),
        QuantParam(scale, 0),
        _zeros(vectors),
        QuantParam(1 / 256, -128),
        1.0,
    )
    return Case(BuiltinOperator.SOFTMAX, params)


def _elementwise(vectors: Vectors) -> Case:
    numbers = vectors.numbers
    output = real_multiplier(numbers["OUTPUT_MULT"], numbers["OUTPUT_SHIFT"])
    adds = "INPUT1_MULT" in numbers
    left_shift = _LEFT_SHIFTS[element_type(vectors, "input1")]
    if adds and numbers["LEFT_SHIFT"] != left_shift:
        raise Unsuitable(f"{vectors.name}: left shift {numbers['LEFT_SHIFT']}")
    scales = (
        (
            real_multiplier(numbers["INPUT1_MULT"], numbers["INPUT1_SHIFT"]),
            real_multiplier(numbers["INPUT2_MULT"], numbers["INPUT2_SHIFT"]),
            1 / ((1 << left_shift) * output),
        )
        if adds
        else (output, 1.0, 1.0)
    )
    params = (ElementwiseAddParams if adds else MulParams)(
        activations(vectors, "input1"),
        QuantParam(scales[0], -numbers["INPUT1_OFFSET"]),
        activations(vectors, "input2"),
        QuantParam(scales[1], -numbers["INPUT2_OFFSET"]),
        _zeros(vectors),
        QuantParam(scales[2], numbers["OUTPUT_OFFSET"]),
        FusedActivation.NONE,
    )
    return Case(BuiltinOperator.ADD if adds else BuiltinOperator.MUL, params)


def _fully_connected(vectors: Vectors) -> Case:
    numbers, arrays = vectors.numbers, vectors.arrays
    inputs, outputs = numbers["ACCUMULATION_DEPTH"], numbers["OUTPUT_C"]
    per_channel, output_scale = None, 1.0
    if "output_mult" in arrays:
        per_channel = _per_channel(vectors, 0)
    else:
        output_scale = 1 / real_multiplier(numbers["OUTPUT_MULT"], numbers["OUTPUT_SHIFT"])
    params = FullyConnectedParams(
        activations(vectors, "input"),
        QuantParam(1.0, -numbers["INPUT_OFFSET"]),
        layer_weights(vectors, inputs * outputs),
        (outputs, inputs),
        QuantParam(1.0, -numbers.get("FILTER_OFFSET", 0)),
        per_channel,
        layer_bias(vectors, outputs),
        _zeros(vectors),
        outputs,
        QuantParam(output_scale, numbers["OUTPUT_OFFSET"]),
        FusedActivation.NONE,
    )
    return Case(BuiltinOperator.FULLY_CONNECTED, params)


def _per_channel(vectors: Vectors, dimension: int) -> PerChannelQuantParam:
    pairs = zip(vectors.arrays["output_mult"], vectors.arrays["output_shift"], strict=True)
    scales = tuple(real_multiplier(multiplier, shift) for multiplier, shift in pairs)
    return PerChannelQuantParam(scales, (0,) * len(scales), dimension)


def _convolution(vectors: Vectors) -> Case:
    numbers, arrays = vectors.numbers, vectors.arrays
    height, width, channels = numbers["INPUT_H"], numbers["INPUT_W"], numbers["INPUT_C"]
    rows, columns, out_channels = numbers["FILTER_H"], numbers["FILTER_W"], numbers["OUTPUT_C"]
    depthwise = "DEPTH_MULTIPLIER" in numbers
    weights_shape = (1, rows, columns, out_channels) if depthwise else (out_channels, rows, columns, channels)
    common: dict[str, Any] = {
        "input": activations(vectors, "input"),
        "input_shape": (len(arrays["input"]) // (height * width * channels), height, width, channels),
        "input_quant": QuantParam(1.0, -numbers["INPUT_OFFSET"]),
        "weights": layer_weights(vectors, math.prod(weights_shape)),
        "weights_shape": weights_shape,
        "weights_quant": QuantParam(1.0, 0),
        "weights_per_channel_quant": _per_channel(vectors, 3 if depthwise else 0),
        "bias": layer_bias(vectors, out_channels),
        "output": _zeros(vectors),
        "output_shape": _output_shape(vectors),
        "output_quant": QuantParam(1.0, numbers["OUTPUT_OFFSET"]),
        "stride_w": numbers["STRIDE_W"],
        "stride_h": numbers["STRIDE_H"],
        "dilation_w_factor": numbers.get("DILATION_W", 1),
        "dilation_h_factor": numbers.get("DILATION_H", 1),
        "padding": Padding.VALID,
        "activation": FusedActivation.NONE,
    }
    padding = _padding(vectors)
    params: Conv2dParams | DepthwiseConv2dParams = (
        DepthwiseConv2dParams(**common, depth_multiplier=numbers["DEPTH_MULTIPLIER"])
        if depthwise
        else Conv2dParams(**common)
    )
    params = _padded(params, vectors) if padding is None else replace(params, padding=padding)
    return Case(BuiltinOperator.DEPTHWISE_CONV_2D if depthwise else BuiltinOperator.CONV_2D, params)


def _pool(vectors: Vectors) -> Case:
    numbers, arrays = vectors.numbers, vectors.arrays
    codes = {"max": BuiltinOperator.MAX_POOL_2D, "avg": BuiltinOperator.AVERAGE_POOL_2D}
    code, padding = codes.get(vectors.name[:3]), _padding(vectors)
    if code is None or padding is None:
        raise Unsuitable(f"{vectors.name}: no pool, or padded in a way of its own")
    height, width, channels = numbers["INPUT_H"], numbers["INPUT_W"], numbers["INPUT_C"]
    params = PoolParams(
        activations(vectors, "input"),
        (len(arrays["input"]) // (height * width * channels), height, width, channels),
        QuantParam(1.0, 0),
        _zeros(vectors),
        _output_shape(vectors),
        QuantParam(1.0, 0),
        stride_w=numbers["STRIDE_W"],
        stride_h=numbers["STRIDE_H"],
        filter_w=numbers["FILTER_W"],
        filter_h=numbers["FILTER_H"],
        padding=padding,
        activation=FusedActivation.NONE,
    )
    return Case(code, params)


def _output_shape(vectors: Vectors) -> tuple[int, int, int, int]:
    numbers = vectors.numbers
    one = numbers["OUTPUT_H"] * numbers["OUTPUT_W"] * numbers["OUTPUT_C"]
    batches = len(vectors.arrays["output_ref"]) // one
    return batches, numbers["OUTPUT_H"], numbers["OUTPUT_W"], numbers["OUTPUT_C"]


def _padding(vectors: Vectors) -> Padding | None:
    """The padding that gives the set's outputs and pixels before them; None where neither does."""
    numbers = vectors.numbers
    for padding in Padding:
        try:
            found = [
                window(
                    numbers[f"INPUT_{side}"],
                    numbers[f"FILTER_{side}"],
                    numbers[f"STRIDE_{side}"],
                    numbers.get(f"DILATION_{side}", 1),
                    padding,
                )
                for side in "HW"
            ]
        except InvalidShape:
            continue
        if [(each.outputs, each.before) for each in found] == [
            (numbers[f"OUTPUT_{side}"], numbers[f"PAD_{side}"]) for side in "HW"
        ]:
            return padding
    return None


def _padded(
    params: Conv2dParams | DepthwiseConv2dParams, vectors: Vectors
) -> Conv2dParams | DepthwiseConv2dParams:
    """Pad the input by hand: a pixel of the zero point adds nothing."""
    numbers = vectors.numbers
    batches, height, width, channels = params.input_shape
    size = []
    for side in "HW":
        extent = (numbers[f"FILTER_{side}"] - 1) * numbers.get(f"DILATION_{side}", 1) + 1
        size.append((numbers[f"OUTPUT_{side}"] - 1) * numbers[f"STRIDE_{side}"] + extent)
    data, zero = params.input.tolist(), [params.input_quant.zero_point] * channels
    padded: list[int] = []
    for batch in range(batches):
        for y in range(-numbers["PAD_H"], size[0] - numbers["PAD_H"]):
            for x in range(-numbers["PAD_W"], size[1] - numbers["PAD_W"]):
                inside = 0 <= y < height and 0 <= x < width
                at = ((batch * height + y) * width + x) * channels
                padded += data[at : at + channels] if inside else zero
    return replace(
        params,
        input=memoryview(array(params.input.format, padded)),
        input_shape=(batches, size[0], size[1], channels),
    )
