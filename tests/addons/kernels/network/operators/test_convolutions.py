"""Grouped and transposed convolutions beside TensorFlow Lite Micro: every byte of the output."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator, Padding

from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.load import load_network
from aisrv.model.values import Quantization
from tests.support.models.convolution_models import biases, transposed, weights
from tests.support.models.kernel_backends import NAMES, shipped_backend
from tests.support.models.one_operator import constant, random_int8, single, tensor
from tests.support.oracles.network_runs import FEW, agree, loaded, run_network

scales = st.floats(2**-9, 0.5, width=32)
zero_points = st.integers(-128, 127)
seeds = st.integers(0, 999)
few = st.integers(1, 3)


@FEW
@given(
    few,
    few,
    few,
    st.integers(1, 4),
    st.sampled_from([Padding.SAME, Padding.VALID]),
    scales,
    scales,
    zero_points,
    st.integers(0, 3),
    st.booleans(),
    seeds,
)
def test_groups(
    groups: int,
    channels: int,
    filters: int,
    taps: int,
    padding: int,
    scale: float,
    out_scale: float,
    zero: int,
    activation: int,
    is_per_channel: bool,
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    stride = 1 + seed % 2
    size = -(-5 // stride) if padding == Padding.SAME else (5 + stride - taps) // stride
    shape, outputs = (2, 5, 5, groups * channels), groups * filters
    kernel = weights(random, (outputs, taps, taps, channels), is_per_channel=is_per_channel)
    model = single(
        BuiltinOperator.CONV_2D,
        [tensor("in", shape, scale, zero), kernel, *biases(random, outputs)],
        [tensor("out", (2, size, size, outputs), out_scale, -zero // 2)],
        {
            "padding": padding,
            "stride_w": stride,
            "stride_h": stride,
            "dilation_w_factor": 1,
            "dilation_h_factor": 1,
            "fused_activation_function": activation,
        },
    )
    agree(model, random_int8(shape, seed))


@FEW
@given(
    inputs=st.tuples(few, few, few),
    taps=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(few, few),
    padding=st.sampled_from([Padding.SAME, Padding.VALID]),
    filters=few,
    scale=scales,
    zero=zero_points,
    out_scale=scales,
    seed=seeds,
)
def test_transposed(inputs: tuple[int, int, int], seed: int, **layer: Any) -> None:
    model = transposed(np.random.default_rng(seed), inputs, **layer)
    agree(model, random_int8((2, *inputs), seed))


@pytest.mark.parametrize("out", [(5, 6), (6, 5), (5, 5)])
def test_pixels_that_the_last_window_leaves_over(out: tuple[int, int]) -> None:
    model = transposed(np.random.default_rng(1), (3, 3, 2), (3, 3), (2, 2), Padding.SAME, 2, out=out)
    agree(model, random_int8((2, 3, 3, 2)))


@pytest.mark.parametrize("activation", [1, 2, 3])
def test_an_activation_fused_into_a_transposed_one(activation: int) -> None:
    random = np.random.default_rng(1)
    model = transposed(random, (3, 3, 2), (3, 3), (2, 2), Padding.SAME, 2, activation=activation)
    agree(model, random_int8((2, 3, 3, 2)))


def grouped(groups: int = 3, channels: int = 2, filters: int = 5) -> bytes:
    """A convolution of 3 by 3 taps, of groups of channels with a scale for each output."""
    random = np.random.default_rng(1)
    outputs = groups * filters
    return single(
        BuiltinOperator.CONV_2D,
        [
            tensor("in", (2, 5, 5, groups * channels), 0.1, 3),
            weights(random, (outputs, 3, 3, channels)),
            constant(
                "bias", random.integers(-5000, 5000, outputs), np.int32, Quantization.per_tensor(1.0, 0)
            ),
        ],
        [tensor("out", (2, 5, 5, outputs), 0.3, -5)],
        {"stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1},
    )


@pytest.mark.parametrize("name", [*NAMES, "numpy+assume-aligned"])
def test_every_backend_computes_the_same(name: str) -> None:
    backend = shipped_backend(name)
    for model, shape in (
        (transposed(np.random.default_rng(1), (3, 4, 2), (3, 2), (2, 1), Padding.SAME, 3), (2, 3, 4, 2)),
        (grouped(), (2, 5, 5, 6)),
    ):
        data: list[np.ndarray[Any, Any]] = [random_int8(shape)]
        assert run_network(load_network(model, backend), data) == agree(model, *data)


def test_an_output_that_does_not_follow_from_the_input_is_refused() -> None:
    model = transposed(np.random.default_rng(1), (3, 3, 1), (2, 2), (2, 2), Padding.SAME, 1, out=(7, 6))
    with pytest.raises(NetworkError, match="7 by 6 pixels follow from 4 by 3, the input has 3 by 3"):
        loaded(model)


def test_an_input_that_grows_without_bounds_is_refused() -> None:
    model = transposed(np.random.default_rng(1), (1, 1, 100), (1, 1), (1000, 1000), Padding.SAME, 1)
    with pytest.raises(NetworkError, match="takes 200,000,000 bytes, at most 67,108,864"):
        loaded(model)


@pytest.mark.parametrize(
    ("channels", "filters", "message"),
    [(3, 4, "weights are for 3 input channels of 4 outputs, the input has 4"), (2, 3, "of 3 outputs")],
)
def test_groups_that_do_not_divide_are_refused(channels: int, filters: int, message: str) -> None:
    model = single(
        BuiltinOperator.CONV_2D,
        [tensor("in", (1, 1, 1, 4)), weights(np.random.default_rng(1), (filters, 1, 1, channels))],
        [tensor("out", (1, 1, 1, filters))],
        {"stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1},
    )
    with pytest.raises(NetworkError, match=message):
        loaded(model)
