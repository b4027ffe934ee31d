"""Generated layers in the graph, on the numpy backend, beside TensorFlow Lite Micro: every byte."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tflite import BuiltinOperator, Padding

from aisrv.kernels.backends.registry import find_backend
from aisrv.kernels.graph.load import load_graph
from aisrv.model.values import Quantization, Tensor
from tests.support.models import PROBABILITIES, constant, random_int8, single, tensor, tflm

BACKEND = find_backend("numpy")

EXAMPLES = settings(
    max_examples=120, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

scales = st.floats(2**-9, 0.5, width=32)
zero_points = st.integers(-128, 127)
activations = st.integers(0, 3)
seeds = st.integers(0, 1000)
paddings = st.sampled_from([Padding.SAME, Padding.VALID])


def agree(model: bytes, *inputs: np.ndarray[Any, Any]) -> None:
    graph = load_graph(model, BACKEND)
    for buffer, data in zip(graph.inputs, inputs, strict=True):
        buffer[:] = memoryview(data.tobytes()).cast("b")
    graph.invoke()
    assert [bytes(buffer) for buffer in graph.outputs] == tflm(model, *inputs)


def extent(inputs: int, taps: int, stride: int, dilation: int, padding: int) -> int:
    """How many windows there are, by the rule of the source's table."""
    if padding == Padding.SAME:
        return -(-inputs // stride)
    return (inputs + stride - ((taps - 1) * dilation + 1)) // stride


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """Extents, taps, strides, dilations by dimension, with a padding that leaves an output."""
    while True:
        found = {
            "inputs": (draw(st.integers(1, 9)), draw(st.integers(1, 9))),
            "taps": (draw(st.integers(1, 4)), draw(st.integers(1, 4))),
            "strides": (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
            "dilations": (draw(st.integers(1, 2)), draw(st.integers(1, 2))),
            "padding": draw(paddings),
        }
        found["outputs"] = tuple(
            extent(*each, found["padding"])
            for each in zip(found["inputs"], found["taps"], found["strides"], found["dilations"], strict=True)
        )
        if min(found["outputs"]) >= 1:
            return found


def weights(random: np.random.Generator, shape: tuple[int, ...], axis: int) -> Tensor:
    count = shape[axis]
    quantization = Quantization.per_channel(random.uniform(0.001, 0.02, count), axis)
    return constant("weights", random.integers(-127, 128, shape), np.int8, quantization)


def bias(random: np.random.Generator, channels: int, scale: float = 1.0) -> list[Tensor]:
    """A bias in three of four cases. TFLM compares its scale in FULLY_CONNECTED only."""
    if random.integers(4) == 0:
        return []
    values = random.integers(-5000, 5000, channels)
    return [constant("bias", values, np.int32, Quantization.per_tensor(scale, 0))]


@EXAMPLES
@given(windows(), st.integers(1, 5), st.integers(1, 5), scales, scales, zero_points, activations, seeds)
@pytest.mark.parametrize("code", [BuiltinOperator.CONV_2D, BuiltinOperator.DEPTHWISE_CONV_2D])
def test_convolutions(
    code: int,
    window: dict[str, Any],
    channels: int,
    multiple: int,
    scale: float,
    output_scale: float,
    zero_point: int,
    activation: int,
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    options = {
        "padding": window["padding"],
        "stride_h": window["strides"][0],
        "stride_w": window["strides"][1],
        "dilation_h_factor": window["dilations"][0],
        "dilation_w_factor": window["dilations"][1],
        "fused_activation_function": activation,
    }
    if code == BuiltinOperator.CONV_2D:
        out_channels, kernel = multiple, weights(random, (multiple, *window["taps"], channels), 0)
    else:
        out_channels = channels * multiple
        kernel = weights(random, (1, *window["taps"], out_channels), 3)
        options["depth_multiplier"] = multiple
    batch = 1 + seed % 2
    shape = (batch, *window["inputs"], channels)
    model = single(
        code,
        [tensor("in", shape, scale, zero_point), kernel, *bias(random, out_channels)],
        [tensor("out", (batch, *window["outputs"], out_channels), output_scale, -zero_point // 2)],
        options,
    )
    agree(model, random_int8(shape, seed))


@EXAMPLES
@given(windows(), st.integers(1, 5), scales, zero_points, activations, seeds)
@pytest.mark.parametrize("code", [BuiltinOperator.AVERAGE_POOL_2D, BuiltinOperator.MAX_POOL_2D])
def test_pools(
    code: int,
    window: dict[str, Any],
    channels: int,
    scale: float,
    zero_point: int,
    activation: int,
    seed: int,
) -> None:
    outputs = tuple(
        extent(*each, 1, window["padding"])
        for each in zip(window["inputs"], window["taps"], window["strides"], strict=True)
    )
    options = {
        "padding": window["padding"],
        "stride_h": window["strides"][0],
        "stride_w": window["strides"][1],
        "filter_height": window["taps"][0],
        "filter_width": window["taps"][1],
        "fused_activation_function": activation,
    }
    shape = (1, *window["inputs"], channels)
    model = single(
        code,
        [tensor("in", shape, scale, zero_point)],
        [tensor("out", (1, *outputs, channels), scale, zero_point)],
        options,
    )
    agree(model, random_int8(shape, seed))


@EXAMPLES
@given(
    st.integers(1, 4),
    st.integers(1, 40),
    st.integers(1, 12),
    scales,
    scales,
    zero_points,
    activations,
    seeds,
)
def test_fully_connected(
    batch: int,
    inputs: int,
    outputs: int,
    scale: float,
    output_scale: float,
    zero_point: int,
    activation: int,
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    quantization = Quantization.per_tensor(float(random.uniform(0.001, 0.02)), 0)
    kernel = constant("weights", random.integers(-127, 128, (outputs, inputs)), np.int8, quantization)
    biases = bias(random, outputs, scale * quantization.scales[0])
    model = single(
        BuiltinOperator.FULLY_CONNECTED,
        [tensor("in", (batch, inputs), scale, zero_point), kernel, *biases],
        [tensor("out", (batch, outputs), output_scale, zero_point // 3)],
        {"fused_activation_function": activation},
    )
    agree(model, random_int8((batch, inputs), seed))


@EXAMPLES
@given(st.integers(1, 4), st.integers(1, 40), scales, zero_points, st.floats(0.25, 4, width=32), seeds)
def test_softmax(rows: int, classes: int, scale: float, zero_point: int, beta: float, seed: int) -> None:
    model = single(
        BuiltinOperator.SOFTMAX,
        [tensor("in", (rows, classes), scale, zero_point)],
        [tensor("out", (rows, classes), PROBABILITIES.scales[0], -128)],
        {"beta": beta},
    )
    agree(model, random_int8((rows, classes), seed))


@EXAMPLES
@given(st.integers(1, 60), scales, scales, scales, zero_points, zero_points, activations, seeds)
@pytest.mark.parametrize("code", [BuiltinOperator.ADD, BuiltinOperator.MUL, BuiltinOperator.SUB])
def test_elementwise(
    code: int,
    length: int,
    scale1: float,
    scale2: float,
    output_scale: float,
    zero1: int,
    zero2: int,
    activation: int,
    seed: int,
) -> None:
    model = single(
        code,
        [tensor("one", (1, length), scale1, zero1), tensor("two", (1, length), scale2, zero2)],
        [tensor("out", (1, length), output_scale, -1 - zero1)],
        {"fused_activation_function": activation},
    )
    agree(model, random_int8((1, length), seed), random_int8((1, length), seed + 1))
