"""Sets of CMSIS-NN's unit tests (`Tests/UnitTest/TestCases/TestData`) as operators with expected outputs.

A set is a folder of C headers: `#define SET_KEY number` and `const type set_name[n] = {…};`. Generators of
several ages wrote them; keys and names that mean the same are listed in KEYS and ARRAYS. A set states
multipliers and shifts instead of scales: scales are chosen here that give exactly those. It may clamp to any
bounds: they are applied to the output, which comes to the same.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tflite import BuiltinOperator

from aisrv.kernels.arithmetic import ADD_LEFT_SHIFT, window
from aisrv.kernels.backend import KernelBackend
from aisrv.kernels.errors import InvalidShape
from aisrv.kernels.params import (
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    FusedActivation,
    MulParams,
    PerChannelQuantParam,
    PoolParams,
    QuantParam,
    SoftmaxParams,
)
from aisrv.model import Padding
from tests.support.operators import Case, values, words
from tests.support.paths import ROOT

VARIABLE: Final = "AISRV_CMSIS_NN"
"""Names a checkout of CMSIS-NN, or its folder TestData; else `../shared/golden/cmsis_nn` is looked at."""

KEYS: Final = {
    "FILTER_X": "FILTER_W",
    "FILTER_Y": "FILTER_H",
    "STRIDE_X": "STRIDE_W",
    "STRIDE_Y": "STRIDE_H",
    "PAD_X": "PAD_W",
    "PAD_Y": "PAD_H",
    "PADDING_W": "PAD_W",
    "PADDING_H": "PAD_H",
    "DILATION_X": "DILATION_W",
    "DILATION_Y": "DILATION_H",
    "IN_CH": "INPUT_C",
    "OUT_CH": "OUTPUT_C",
    "INPUT_BATCHES": "INPUT_N",
    "BATCH_SIZE": "INPUT_N",
    "CH_MULT": "DEPTH_MULTIPLIER",
    "OUTPUT_MULTIPLIER": "OUTPUT_MULT",
    "ACTIVATION_MIN": "OUT_ACTIVATION_MIN",
    "ACTIVATION_MAX": "OUT_ACTIVATION_MAX",
}
ARRAYS: Final = {
    "input_tensor": "input",
    "input_1": "input1",
    "input_2": "input2",
    "input_weights": "weights",
    "kernel": "weights",
    "bias": "biases",
    "input_bias": "biases",
    "output": "output_ref",
    "output_multiplier": "output_mult",
    "per_channel_mult": "output_mult",
    "per_channel_shift": "output_shift",
}

_INCLUDE: Final = re.compile(r'^#include "(\w+\.h)"', re.MULTILINE)
_DEFINE: Final = re.compile(r"^\s*#define\s+(\w+)\s+\(?(-?\d+)\)?\s*$", re.MULTILINE)
_ARRAY: Final = re.compile(r"const\s+(\w+)\s+(\w+)\s*\[\d*\]\s*=\s*\{([^}]*)\}")
_NUMBER: Final = re.compile(r"-?\d+")
_OTHERS: Final = re.compile(r"int4|int16|_s4|_s16|f16|f32|transpose|svdf|lstm|batch_matmul|invalid")


class Unsuitable(Exception):
    """A set that is not about one of the operators in int8, or that they cannot be given."""


@dataclass(frozen=True)
class Vectors:
    """The numbers of one set: keys and names without the set's own name, in one dialect."""

    name: str
    numbers: dict[str, int]
    arrays: dict[str, list[int]]
    types: dict[str, str]


@dataclass(frozen=True)
class GoldenSet:
    """One operator with the output that CMSIS-NN expects, and the bounds that it clamps to."""

    name: str
    case: Case
    low: int
    high: int
    expected: list[int]

    def run(self, backend: KernelBackend) -> list[int]:
        """The output of a backend, clamped as the set wants it."""
        return [max(self.low, min(self.high, value)) for value in self.case.run(backend)]


def folders() -> list[Path]:
    """The sets where VARIABLE says, by name; none where there is no such folder."""
    root = Path(os.environ.get(VARIABLE, ROOT / "../shared/golden/cmsis_nn/TestData"))
    data = root / "Tests/UnitTest/TestCases/TestData"
    data = data if data.is_dir() else root
    return sorted(folder for folder in data.iterdir() if folder.is_dir()) if data.is_dir() else []


def golden_sets() -> Iterator[GoldenSet]:
    """Every set that an int8 kernel can be given."""
    for folder in folders():
        try:
            yield golden_set(read(folder))
        except Unsuitable:
            continue


def read(folder: Path) -> Vectors:
    """Read the headers that a set's `test_data.h` includes; raise Unsuitable where it is not int8."""
    if _OTHERS.search(folder.name):
        raise Unsuitable(folder.name)
    included = _INCLUDE.findall((folder / "test_data.h").read_text())
    text = "\n".join((folder / name).read_text() for name in included)
    prefix = folder.name + "_"
    numbers, arrays, types = {}, {}, {}
    for key, number in _DEFINE.findall(text):
        key = key.removeprefix(prefix.upper())
        numbers[KEYS.get(key, key)] = int(number)
    for ctype, name, body in _ARRAY.findall(text):
        name = name.removeprefix(prefix)
        name = ARRAYS.get(name, name)
        arrays[name] = [int(number) for number in _NUMBER.findall(body)]
        types[name] = ctype
    for name in ("input", "input1", "weights", "output_ref"):
        if types.get(name, "int8_t") not in ("int8_t", "q7_t"):
            raise Unsuitable(f"{folder.name}: {name} is of type {types[name]}")
    return Vectors(folder.name, numbers, arrays, types)


def golden_set(vectors: Vectors) -> GoldenSet:
    """Make the operator that a set is about; raise Unsuitable for others."""
    numbers, arrays = vectors.numbers, vectors.arrays
    try:
        case = _case(vectors)
    except KeyError as missing:
        raise Unsuitable(f"{vectors.name}: has no {missing}") from None
    if "output_ref" not in arrays:
        raise Unsuitable(f"{vectors.name}: has no output")
    low, high = numbers.get("OUT_ACTIVATION_MIN", -128), numbers.get("OUT_ACTIVATION_MAX", 127)
    return GoldenSet(vectors.name, case, low, high, arrays["output_ref"])


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


def _real(multiplier: int, shift: int) -> float:
    return multiplier * 2.0 ** (shift - 31)


def _zeros(vectors: Vectors) -> memoryview:
    return values([0] * len(vectors.arrays["output_ref"]))


def _softmax(vectors: Vectors) -> Case:
    numbers, arrays = vectors.numbers, vectors.arrays
    scale = _real(numbers["INPUT_MULT"], numbers["INPUT_LEFT_SHIFT"]) / (1 << 26)
    params = SoftmaxParams(
        values(arrays["input"]),
        (numbers["NUM_ROWS"], numbers["ROW_SIZE"]),
        QuantParam(scale, 0),
        _zeros(vectors),
        QuantParam(1 / 256, -128),
        1.0,
    )
    return Case(BuiltinOperator.SOFTMAX, params)


def _elementwise(vectors: Vectors) -> Case:
    numbers, arrays = vectors.numbers, vectors.arrays
    output = _real(numbers["OUTPUT_MULT"], numbers["OUTPUT_SHIFT"])
    adds = "INPUT1_MULT" in numbers
    if adds and numbers["LEFT_SHIFT"] != ADD_LEFT_SHIFT:
        raise Unsuitable(f"{vectors.name}: left shift {numbers['LEFT_SHIFT']}")
    scales = (
        (
            _real(numbers["INPUT1_MULT"], numbers["INPUT1_SHIFT"]),
            _real(numbers["INPUT2_MULT"], numbers["INPUT2_SHIFT"]),
            1 / ((1 << ADD_LEFT_SHIFT) * output),
        )
        if adds
        else (output, 1.0, 1.0)
    )
    params = (ElementwiseAddParams if adds else MulParams)(
        values(arrays["input1"]),
        QuantParam(scales[0], -numbers["INPUT1_OFFSET"]),
        values(arrays["input2"]),
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
        output_scale = 1 / _real(numbers["OUTPUT_MULT"], numbers["OUTPUT_SHIFT"])
    params = FullyConnectedParams(
        values(arrays["input"]),
        QuantParam(1.0, -numbers["INPUT_OFFSET"]),
        values(arrays["weights"]).toreadonly(),
        (outputs, inputs),
        QuantParam(1.0, -numbers.get("FILTER_OFFSET", 0)),
        per_channel,
        words(arrays["biases"]) if arrays.get("biases") else None,
        _zeros(vectors),
        outputs,
        QuantParam(output_scale, numbers["OUTPUT_OFFSET"]),
        FusedActivation.NONE,
    )
    return Case(BuiltinOperator.FULLY_CONNECTED, params)


def _per_channel(vectors: Vectors, dimension: int) -> PerChannelQuantParam:
    pairs = zip(vectors.arrays["output_mult"], vectors.arrays["output_shift"], strict=True)
    scales = tuple(_real(multiplier, shift) for multiplier, shift in pairs)
    return PerChannelQuantParam(scales, (0,) * len(scales), dimension)


def _convolution(vectors: Vectors) -> Case:
    numbers, arrays = vectors.numbers, vectors.arrays
    height, width, channels = numbers["INPUT_H"], numbers["INPUT_W"], numbers["INPUT_C"]
    rows, columns, out_channels = numbers["FILTER_H"], numbers["FILTER_W"], numbers["OUTPUT_C"]
    depthwise = "DEPTH_MULTIPLIER" in numbers
    weights_shape = (1, rows, columns, out_channels) if depthwise else (out_channels, rows, columns, channels)
    if len(arrays["weights"]) != rows * columns * out_channels * (1 if depthwise else channels):
        raise Unsuitable(f"{vectors.name}: a convolution of groups")
    common: dict[str, Any] = {
        "input": values(arrays["input"]),
        "input_shape": (len(arrays["input"]) // (height * width * channels), height, width, channels),
        "input_quant": QuantParam(1.0, -numbers["INPUT_OFFSET"]),
        "weights": values(arrays["weights"]).toreadonly(),
        "weights_shape": weights_shape,
        "weights_quant": QuantParam(1.0, 0),
        "weights_per_channel_quant": _per_channel(vectors, 3 if depthwise else 0),
        "bias": words(arrays["biases"]) if arrays.get("biases") else None,
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
        values(arrays["input"]),
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
    return replace(params, input=values(padded), input_shape=(batches, size[0], size[1], channels))
