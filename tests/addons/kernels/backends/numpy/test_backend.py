"""The NumPy backend against the plain loops and against TensorFlow Lite Micro, byte for byte."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import Rounding
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.backends.numpy.convolution import sum_type
from aisrv.addons.kernels.backends.numpy.words import Numbers
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.errors import InvalidShape, UnsupportedActivation
from aisrv.addons.kernels.params import INT16, FusedActivation, PerChannelQuantParam, QuantParam
from aisrv.addons.kernels.windows import window
from aisrv.model import Padding
from tests.support.amounts import in_ci, share
from tests.support.models.operators import METHODS, Case, Draw, values, words

CONVOLUTIONS = (BuiltinOperator.CONV_2D, BuiltinOperator.DEPTHWISE_CONV_2D)
POOLS = (BuiltinOperator.AVERAGE_POOL_2D, BuiltinOperator.MAX_POOL_2D)
WIDE = tuple(set(METHODS).difference(POOLS, (BuiltinOperator.SOFTMAX,)))


def resized(
    case: Case,
    draw: Draw,
    size: tuple[int, int],
    *,
    taps: tuple[int, int] = (3, 3),
    stride: int = 1,
    channels: int = 2,
    padding: Padding = Padding.SAME,
    batch: int = 1,
) -> Case:
    """A case over another picture: 4 output channels, or twice the input's for depthwise."""
    params, pool = case.params, case.code in POOLS
    depthwise = case.code == BuiltinOperator.DEPTHWISE_CONV_2D
    outputs = [window(n, tap, stride, 1, padding).outputs for n, tap in zip(size, taps, strict=True)]
    out_channels = channels if pool else 2 * channels if depthwise else 4
    changes: dict[str, Any] = {
        "input": draw.data(batch * math.prod(size) * channels),
        "input_shape": (batch, *size, channels),
        "output": values([0] * (batch * math.prod(outputs) * out_channels)),
        "output_shape": (batch, *outputs, out_channels),
        "stride_h": stride,
        "stride_w": stride,
        "padding": padding,
    }
    if pool:
        return Case(case.code, replace(params, **changes, filter_h=taps[0], filter_w=taps[1]))
    shape = (1, *taps, out_channels) if depthwise else (out_channels, *taps, channels)
    scales = tuple(
        float(np.float32(draw.factor(math.prod(taps) * channels) * params.output_quant.scale))
        for _ in range(out_channels)
    )
    changes |= {
        "weights": draw.data(math.prod(shape)).toreadonly(),
        "weights_shape": shape,
        "weights_per_channel_quant": PerChannelQuantParam(scales, (0,) * out_channels, 3 if depthwise else 0),
        "bias": words(draw.random.randint(-9000, 9000) for _ in range(out_channels)),
        "dilation_h_factor": 1,
        "dilation_w_factor": 1,
    }
    if depthwise:
        changes["depth_multiplier"] = 2
    return Case(case.code, replace(params, **changes))


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("code", METHODS, ids=METHODS.values())
@settings(max_examples=in_ci(60, every_day=20), derandomize=True, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_equals_the_plain_loops(code: int, rounding: Rounding, seed: int) -> None:
    case = Draw(seed).case(code)
    assert case.run(NumpyBackend(rounding)) == case.run(ReferenceBackend(rounding))


@pytest.mark.parametrize("code", METHODS, ids=METHODS.values())
def test_equals_tflm(code: int) -> None:
    backend = NumpyBackend()
    for seed in range(60):
        case = Draw(seed).case(code)
        assert case.run(backend) == case.run_tflm(), f"seed {seed}"


@pytest.mark.parametrize("code", WIDE, ids=[METHODS[code] for code in WIDE])
def test_equals_tflm_where_ties_are_frequent(code: int) -> None:
    backend = NumpyBackend()
    for seed in range(25):
        case = Draw(seed).wide(code)
        assert case.run(backend) == case.run_tflm(), f"seed {seed}"


@pytest.mark.parametrize("code", WIDE, ids=[METHODS[code] for code in WIDE])
def test_single_rounding_differs_where_ties_are_frequent(code: int) -> None:
    cases = [Draw(seed).wide(code) for seed in range(25)]
    assert any(case.run(NumpyBackend(Rounding.SINGLE)) != case.run_tflm() for case in cases)


BROKEN_TILES = {"size": (31, 37), "channels": 17}
"""Neither whole tiles nor whole blocks."""
MANY_PIECES = {"size": (64, 61), "channels": 20}
"""Windows in more than one piece."""
PICTURES: tuple[dict[str, Any], ...] = (
    {"size": (1, 1), "taps": (5, 5)},  # a kernel larger than the picture
    {"size": (2, 3), "taps": (4, 7)},
    {"size": (9, 9), "taps": (2, 2), "stride": 4},  # a stride larger than the kernel
    {"size": (9, 7), "taps": (1, 1), "stride": 3},
    {"size": (7, 5), "taps": (1, 1), "channels": 1},
    {"size": (6, 6), "channels": 1},
    {"size": (7, 9), "taps": (7, 9), "padding": Padding.VALID, "channels": 9},
    BROKEN_TILES,
    MANY_PIECES,
    {"size": (40, 33), "stride": 2, "channels": 24, "padding": Padding.VALID},
    {"size": (19, 21), "taps": (2, 5), "stride": 3, "channels": 7},
    {"size": (13, 11), "batch": 3, "channels": 5},
    {"size": (50, 50), "batch": 2, "channels": 12, "taps": (5, 5)},
)


@pytest.mark.parametrize("picture", share(PICTURES, one_in=3, also=(BROKEN_TILES, MANY_PIECES)), ids=str)
@pytest.mark.parametrize("code", CONVOLUTIONS + POOLS, ids=[METHODS[code] for code in CONVOLUTIONS + POOLS])
def test_equals_tflm_on_pictures_of_all_sizes(code: int, picture: dict[str, Any]) -> None:
    backend = NumpyBackend()
    for seed in range(4):
        draw = Draw(seed)
        case = resized(draw.case(code), draw, **picture)
        assert case.run(backend) == case.run_tflm(), f"seed {seed}"


def test_sums_beyond_float32_are_exact() -> None:
    inputs = 3001
    case = Draw(3).fully_connected()
    params = replace(
        case.params,
        input=values([127] * inputs),
        input_quant=QuantParam(1.0, -128),
        weights=values([127] * (inputs - 1) + [126] + [-128] * (inputs - 1) + [-127]).toreadonly(),
        weights_shape=(2, inputs),
        weights_quant=QuantParam(1.0, 0),
        weights_per_channel_quant=None,
        bias=words([-255 * 127 * inputs, 255 * 128 * inputs]),
        output=values([0, 0]),
        output_depth=2,
        output_quant=QuantParam(4.0, 0),
        activation=FusedActivation.NONE,
    )
    # One weight is one less than all others: the sums are -255 and 255, a quarter of which is -64 and 64.
    assert Case(case.code, params).run(NumpyBackend()) == [-64, 64]


def test_a_float32_is_enough_below_its_mantissa() -> None:
    weights = np.array([[1 << 16, 0], [(1 << 16) - 1, 5]])  # times 128, one less than 2**17 is below 2**24
    assert sum_type(weights, Numbers()) is np.float32


@pytest.mark.parametrize("numbers", [Numbers(), Numbers(INT16)])
def test_a_float64_takes_over_at_its_mantissa(numbers: Numbers) -> None:
    weights = np.array([[0, -(1 << 16)], [5, 1 << 16]])
    assert sum_type(weights, numbers) is np.float64


@pytest.mark.parametrize("code", METHODS, ids=METHODS.values())
def test_each_invocation_reads_its_inputs_anew(code: int) -> None:
    first, second = (Draw(seed).case(code) for seed in (11, 11))
    name = "input" if hasattr(first.params, "input") else "input1"
    expected = second.run(ReferenceBackend())
    data = bytes(getattr(first.params, name))
    kernel = getattr(NumpyBackend(), METHODS[code])(first.params)
    getattr(first.params, name)[:] = values([-128] * len(data))
    kernel()
    getattr(first.params, name)[:] = memoryview(data).cast("b")
    kernel()
    assert first.params.output.tolist() == expected


def test_kernels_that_take_turns_do_not_disturb_each_other() -> None:
    backend = NumpyBackend()
    cases = [Draw(seed).case(code) for seed in range(6) for code in METHODS]
    kernels = [getattr(backend, METHODS[case.code])(case.params) for case in cases]
    for kernel in kernels + kernels:
        kernel()
    assert [case.params.output.tolist() for case in cases] == [case.run(ReferenceBackend()) for case in cases]


def test_wrong_shapes_are_refused() -> None:
    case = Draw(1).fully_connected()
    with pytest.raises(InvalidShape, match="output_depth"):
        NumpyBackend().fully_connected(replace(case.params, output_depth=case.params.output_depth + 1))


@pytest.mark.parametrize("code", set(METHODS) - {BuiltinOperator.SOFTMAX})
def test_activations_without_a_kernel_are_refused(code: int) -> None:
    params = replace(Draw(1).case(code).params, activation=FusedActivation.TANH)
    with pytest.raises(UnsupportedActivation, match="TANH"):
        getattr(NumpyBackend(), METHODS[code])(params)


def test_no_scratch_is_asked_for() -> None:
    backend, shape = NumpyBackend(), (1, 8, 8, 8)
    sizes = {
        backend.conv2d_scratch_size(shape, shape, shape),
        backend.depthwise_conv2d_scratch_size(shape, shape, shape),
        backend.softmax_scratch_size(1000),
    }
    assert sizes == {0}


@pytest.mark.parametrize("code", CONVOLUTIONS, ids=[METHODS[code] for code in CONVOLUTIONS])
@pytest.mark.parametrize("dilation", [5, 9, 1 << 20, (1 << 31) - 1])
@pytest.mark.parametrize("taps", [(2, 2), (3, 3), (4, 1)])
def test_taps_beyond_the_picture_count_for_nothing(code: int, dilation: int, taps: tuple[int, int]) -> None:
    for seed in range(4):
        draw = Draw(seed)
        case = resized(draw.case(code), draw, (6, 7), taps=taps, stride=1 + seed % 2)
        params = replace(case.params, dilation_h_factor=dilation, dilation_w_factor=dilation)
        wide = replace(case, params=params)
        assert wide.run(NumpyBackend()) == wide.run(ReferenceBackend()), f"seed {seed}"


@pytest.mark.parametrize("code", POOLS, ids=[METHODS[code] for code in POOLS])
@pytest.mark.parametrize("taps", [(60, 3), (1, 1000), (99, 101)])
def test_filters_beyond_the_picture_see_it_all(code: int, taps: tuple[int, int]) -> None:
    for seed in range(4):
        draw = Draw(seed)
        case = resized(draw.case(code), draw, (4, 5), taps=taps, stride=1 + seed % 3)
        assert case.run(NumpyBackend()) == case.run_tflm(), f"seed {seed}"


@pytest.mark.parametrize("code", POOLS, ids=[METHODS[code] for code in POOLS])
def test_a_filter_of_any_size_costs_no_more_than_the_picture(code: int) -> None:
    draw = Draw(2)
    case = resized(draw.case(code), draw, (4, 5), taps=(99, 99))
    huge = replace(case.params, filter_h=(1 << 31) - 1, filter_w=(1 << 31) - 1)
    assert replace(case, params=huge).run(NumpyBackend()) == case.run(NumpyBackend())
