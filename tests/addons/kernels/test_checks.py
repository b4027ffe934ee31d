"""What all backends refuse: each wrong parameter alone, with its error and message."""

import math
from array import array
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aisrv.addons.kernels import checks
from aisrv.addons.kernels.errors import (
    AlignmentError,
    InternalError,
    InvalidShape,
    KernelError,
    UnsupportedActivation,
)
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
from aisrv.model import Padding
from tests.support.models.operators import values, words

UNIT = QuantParam(1.0, 0)


def zeros(count: int) -> memoryview:
    return values([0] * count)


def per_channel(count: int, dimension: int = 0, scale: float = 1.0) -> PerChannelQuantParam:
    return PerChannelQuantParam((scale,) * count, (0,) * count, dimension)


CONV = Conv2dParams(
    input=zeros(2 * 5 * 4 * 3),
    input_shape=(2, 5, 4, 3),
    input_quant=UNIT,
    weights=zeros(2 * 3 * 2 * 3),
    weights_shape=(2, 3, 2, 3),
    weights_quant=UNIT,
    weights_per_channel_quant=per_channel(2),
    bias=words([0, 0]),
    output=zeros(2 * 3 * 4 * 2),
    output_shape=(2, 3, 4, 2),
    output_quant=UNIT,
    stride_w=1,
    stride_h=2,
    dilation_w_factor=1,
    dilation_h_factor=1,
    padding=Padding.SAME,
    activation=FusedActivation.NONE,
)
DEPTHWISE = DepthwiseConv2dParams(
    input=zeros(5 * 4 * 3),
    input_shape=(1, 5, 4, 3),
    input_quant=UNIT,
    weights=zeros(3 * 2 * 6),
    weights_shape=(1, 3, 2, 6),
    weights_quant=UNIT,
    weights_per_channel_quant=per_channel(6, 3),
    bias=None,
    output=zeros(5 * 4 * 6),
    output_shape=(1, 5, 4, 6),
    output_quant=UNIT,
    stride_w=1,
    stride_h=1,
    dilation_w_factor=1,
    dilation_h_factor=1,
    depth_multiplier=2,
    padding=Padding.SAME,
    activation=FusedActivation.NONE,
)
DENSE = FullyConnectedParams(
    zeros(8), UNIT, zeros(12), (3, 4), UNIT, None, words([0] * 3), zeros(6), 3, UNIT, FusedActivation.NONE
)
POOL = PoolParams(
    input=zeros(5 * 4 * 3),
    input_shape=(1, 5, 4, 3),
    input_quant=UNIT,
    output=zeros(4 * 2 * 3),
    output_shape=(1, 4, 2, 3),
    output_quant=UNIT,
    stride_w=2,
    stride_h=1,
    filter_w=2,
    filter_h=2,
    padding=Padding.VALID,
    activation=FusedActivation.NONE,
)
SOFTMAX = SoftmaxParams(zeros(6), (2, 3), UNIT, zeros(6), QuantParam(1 / 256, -128), 1.0)
ADD = ElementwiseAddParams(zeros(6), UNIT, zeros(6), UNIT, zeros(6), UNIT, FusedActivation.NONE)
MUL = MulParams(zeros(6), UNIT, zeros(3), UNIT, zeros(6), UNIT, FusedActivation.NONE)

CHECKS: dict[type, Any] = {
    Conv2dParams: checks.check_conv2d,
    DepthwiseConv2dParams: checks.check_depthwise_conv2d,
    FullyConnectedParams: checks.check_fully_connected,
    PoolParams: checks.check_pool,
    SoftmaxParams: checks.check_softmax,
    ElementwiseAddParams: checks.check_add,
    MulParams: checks.check_mul,
}
ALL = (CONV, DEPTHWISE, DENSE, POOL, SOFTMAX, ADD, MUL)


def kind(params: Any) -> str:
    return type(params).__name__


@pytest.mark.parametrize(
    "params",
    [
        *ALL,
        replace(CONV, bias=None),
        replace(CONV, weights_per_channel_quant=None),
        replace(CONV, weights_per_channel_quant=per_channel(1, 3)),  # stale dimension of a single scale
        replace(CONV, weights=CONV.weights.toreadonly(), input=CONV.input.toreadonly()),
        replace(CONV, padding=Padding.VALID, output=zeros(2 * 2 * 3 * 2), output_shape=(2, 2, 3, 2)),
        replace(MUL, input1=MUL.input2, input2=MUL.input1),
        replace(MUL, input2=zeros(1)),
        replace(DENSE, weights_quant=QuantParam(1.0, -128)),
    ],
    ids=kind,
)
def test_right_parameters_pass(params: Any) -> None:
    CHECKS[type(params)](params)


SHAPES = [
    (CONV, {"input_shape": (2, 5, 4, 4)}, "input has 120 values, its shape [2, 5, 4, 4] needs 160"),
    (CONV, {"input_shape": (2, 5, 4, 0)}, "input_shape: dimensions must be positive"),
    (CONV, {"input_shape": (-2, -5, 4, 3)}, "input_shape: dimensions must be positive"),
    (CONV, {"input": zeros(119)}, "input has 119 values"),
    (CONV, {"weights": zeros(37)}, "weights has 37 values"),
    (CONV, {"output": zeros(47)}, "output has 47 values"),
    (CONV, {"output_shape": (2, 4, 3, 2)}, "must be [2, 3, 4], they are [2, 4, 3]"),
    (CONV, {"output_shape": (1, 6, 4, 2)}, "must be [2, 3, 4], they are [1, 6, 4]"),
    (CONV, {"weights_shape": (2, 3, 3, 2)}, "weights are for 2 input channels, the input has 3"),
    (
        CONV,
        {"weights_shape": (1, 6, 2, 3), "bias": None},
        "weights are for 1 output channels, the output has 2",
    ),
    (CONV, {"stride_w": 0}, "stride_w: must be positive, is 0"),
    (CONV, {"stride_h": -1}, "stride_h: must be positive, is -1"),
    (CONV, {"dilation_w_factor": 0}, "dilation_w_factor: must be positive, is 0"),
    (CONV, {"dilation_h_factor": 0}, "dilation_h_factor: must be positive, is 0"),
    (CONV, {"padding": Padding.VALID, "dilation_h_factor": 3}, "a window of 7 does not fit into 5"),
    (CONV, {"bias": words([0])}, "bias has 1 values for 2 output channels"),
    (CONV, {"weights_per_channel_quant": per_channel(3)}, "3 scales for 2 output channels"),
    (CONV, {"weights_per_channel_quant": per_channel(0)}, "0 scales for 2 output channels"),
    (CONV, {"weights_per_channel_quant": per_channel(2, 3)}, "output channels are dimension 0, not 3"),
    (DEPTHWISE, {"weights_per_channel_quant": per_channel(6, 0)}, "output channels are dimension 3, not 0"),
    (DEPTHWISE, {"depth_multiplier": 0}, "depth_multiplier: must be positive, is 0"),
    (
        DEPTHWISE,
        {"depth_multiplier": 3},
        "weights are for 6 channels, the input's 3 times depth_multiplier 3 are 9",
    ),
    (DEPTHWISE, {"weights_shape": (2, 3, 1, 6)}, "depthwise weights start with 1, these with 2"),
    (
        DEPTHWISE,
        {"output": zeros(60), "output_shape": (1, 5, 4, 3), "weights_per_channel_quant": None},
        "weights are for 6 output channels, the output has 3",
    ),
    (DENSE, {"output_depth": 4}, "weights are for 3 outputs, output_depth is 4"),
    (DENSE, {"input": zeros(7)}, "input has 7 values, no multiple of the weights' 4"),
    (DENSE, {"input": zeros(0), "output": zeros(0)}, "input has 0 values"),
    (DENSE, {"output": zeros(5)}, "output has 5 values, needs 6"),
    (DENSE, {"weights_shape": (3, 0)}, "weights_shape: dimensions must be positive"),
    (DENSE, {"weights": zeros(11)}, "weights has 11 values"),
    (DENSE, {"bias": words([0] * 4)}, "bias has 4 values for 3 output channels"),
    (DENSE, {"weights_per_channel_quant": per_channel(2)}, "2 scales for 3 output channels"),
    (POOL, {"filter_w": 0}, "filter_w: must be positive, is 0"),
    (POOL, {"filter_h": -3}, "filter_h: must be positive, is -3"),
    (POOL, {"stride_h": 0}, "stride_h: must be positive, is 0"),
    (POOL, {"filter_h": 6}, "a window of 6 does not fit into 5"),
    (POOL, {"output_shape": (1, 4, 3, 2)}, "the input has 3, the output 2"),
    (POOL, {"output_shape": (1, 2, 4, 3)}, "must be [1, 4, 2], they are [1, 2, 4]"),
    (SOFTMAX, {"input_shape": (3, 3)}, "input has 6 values, its shape [3, 3] needs 9"),
    (SOFTMAX, {"input_shape": (6, 0)}, "input_shape: dimensions must be positive"),
    (SOFTMAX, {"output": zeros(5)}, "output has 5 values, needs 6"),
    (ADD, {"input1": zeros(5)}, "input1 has 5 values, input2 6"),
    (ADD, {"input2": zeros(3)}, "input1 has 6 values, input2 3"),
    (ADD, {"output": zeros(7)}, "output has 7 values, needs 6"),
    (ADD, {"input1": zeros(0), "input2": zeros(0), "output": zeros(0)}, "input1 is empty"),
    (MUL, {"input2": zeros(4)}, "inputs of 6 and 4 values do not go into each other"),
    (MUL, {"input2": zeros(0)}, "input2 is empty"),
    (MUL, {"output": zeros(3)}, "output has 3 values, needs 6"),
]


@pytest.mark.parametrize(("params", "changes", "message"), SHAPES)
def test_shapes_that_disagree(params: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidShape) as error:
        CHECKS[type(params)](replace(params, **changes))
    assert message in str(error.value)


@pytest.mark.parametrize("params", [each for each in ALL if each is not SOFTMAX], ids=kind)
@pytest.mark.parametrize("activation", ["TANH", "SIGN_BIT", "SIGMOID"])
def test_activation_without_kernel(params: Any, activation: str) -> None:
    with pytest.raises(UnsupportedActivation, match=activation):
        CHECKS[type(params)](replace(params, activation=FusedActivation[activation]))


@pytest.mark.parametrize("params", ALL, ids=kind)
@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_scale_that_is_none(params: Any, scale: float) -> None:
    names = [name for name in ("input_quant", "input1_quant", "output_quant") if hasattr(params, name)]
    for name in names:
        with pytest.raises(InternalError, match=f"{name}: a scale must be a positive number, is {scale}"):
            CHECKS[type(params)](replace(params, **{name: QuantParam(scale, 0)}))


@pytest.mark.parametrize("params", ALL, ids=kind)
@pytest.mark.parametrize("zero_point", [-129, 128, 1 << 40])
def test_zero_point_outside_of_int8(params: Any, zero_point: int) -> None:
    with pytest.raises(InternalError, match=f"output_quant: the zero point {zero_point} is outside of int8"):
        CHECKS[type(params)](replace(params, output_quant=QuantParam(1.0, zero_point)))


@pytest.mark.parametrize("params", [CONV, DEPTHWISE, DENSE], ids=kind)
def test_scales_of_weights(params: Any) -> None:
    wrong = per_channel(1, 0, 0.0)
    with pytest.raises(InternalError, match="weights_per_channel_quant: a scale must be a positive number"):
        CHECKS[type(params)](replace(params, weights_per_channel_quant=wrong))
    changes = {"weights_per_channel_quant": None, "weights_quant": QuantParam(1.0, 200)}
    with pytest.raises(InternalError, match="weights_quant: the zero point 200 is outside of int8"):
        CHECKS[type(params)](replace(params, **changes))


@pytest.mark.parametrize("params", ALL, ids=kind)
def test_output_must_be_writable(params: Any) -> None:
    with pytest.raises(InternalError, match="output: must be writable"):
        CHECKS[type(params)](replace(params, output=params.output.toreadonly()))


@pytest.mark.parametrize("params", ALL, ids=kind)
@pytest.mark.parametrize(
    "buffer",
    [
        memoryview(bytes(6)),
        memoryview(array("h", [0] * 6)),
        zeros(12)[::2],
        np.zeros((2, 3), np.int8).data,
    ],
    ids=["unsigned", "halfwords", "strided", "of two dimensions"],
)
def test_buffers_are_runs_of_signed_bytes(params: Any, buffer: memoryview) -> None:
    with pytest.raises(InternalError, match="output: must be one contiguous run of signed bytes"):
        CHECKS[type(params)](replace(params, output=buffer))


@pytest.mark.parametrize("bias", [zeros(2), words([0, 0, 0, 0])[::2]], ids=["bytes", "strided"])
def test_bias_is_a_run_of_signed_words(bias: memoryview) -> None:
    with pytest.raises(InternalError, match="bias: must be one contiguous run of signed words"):
        checks.check_conv2d(replace(CONV, bias=bias))


@pytest.mark.parametrize("quant", [QuantParam(1 / 128, -128), QuantParam(1 / 256, 0)])
def test_softmax_writes_one_quantization(quant: QuantParam) -> None:
    with pytest.raises(InternalError, match="SOFTMAX writes scale 1/256 and zero point -128"):
        checks.check_softmax(replace(SOFTMAX, output_quant=quant))


@pytest.mark.parametrize("beta", [0.0, -1.0, math.inf, math.nan])
def test_beta_is_a_positive_number(beta: float) -> None:
    with pytest.raises(InternalError, match=f"beta: must be a positive number, is {beta}"):
        checks.check_softmax(replace(SOFTMAX, beta=beta))


# int16 activations.


def halfwords(count: int) -> memoryview:
    return memoryview(array("h", [0] * count))


WIDE_DENSE = replace(DENSE, input=halfwords(8), output=halfwords(6))
WIDE_DEPTHWISE = replace(DEPTHWISE, input=halfwords(5 * 4 * 3), output=halfwords(5 * 4 * 6))
WIDE_SOFTMAX = replace(SOFTMAX, input=halfwords(6), output=halfwords(6), output_quant=QuantParam(2**-15, 0))


@pytest.mark.parametrize("bias", [None, words([0] * 3), memoryview(array("q", [0] * 3))])
def test_int16_layers_have_biases_of_32_or_64_bits(bias: memoryview | None) -> None:
    checks.check_fully_connected(replace(WIDE_DENSE, bias=bias), INT16)


def test_int16_layers_have_no_biases_of_8_bits() -> None:
    with pytest.raises(InternalError, match=r'bias: .* signed words \(format "q" or "i"\)'):
        checks.check_fully_connected(replace(WIDE_DENSE, bias=zeros(3)), INT16)


def test_int16_depthwise_has_a_bias_of_64_bits() -> None:
    checks.check_depthwise_conv2d(replace(WIDE_DEPTHWISE, bias=memoryview(array("q", [0] * 6))), INT16)
    with pytest.raises(InternalError, match=r'bias: .* 64 bits \(format "q"\)'):
        checks.check_depthwise_conv2d(replace(WIDE_DEPTHWISE, bias=words([0] * 6)), INT16)


@pytest.mark.parametrize(("params", "elements"), [(DENSE, INT16), (WIDE_DENSE, INT8)])
def test_activations_of_the_other_type(params: Any, elements: ElementType) -> None:
    with pytest.raises(InternalError, match="input: must be one contiguous run of signed"):
        checks.check_fully_connected(params, elements)


@pytest.mark.parametrize("zero_point", [-1, 1, 128])
def test_int16_has_no_zero_point(zero_point: int) -> None:
    params = replace(WIDE_DENSE, output_quant=QuantParam(1.0, zero_point))
    with pytest.raises(InternalError, match=f"zero point of int16 must be 0, is {zero_point}"):
        checks.check_fully_connected(params, INT16)


@pytest.mark.parametrize("off", [0.0, -0.0009, 0.0009])
def test_int16_softmax_writes_about_one_scale(off: float) -> None:
    checks.check_softmax(replace(WIDE_SOFTMAX, output_quant=QuantParam((1 + off) / 32768, 0)), INT16)


@pytest.mark.parametrize("off", [-0.002, 0.002, 1.0])
def test_int16_softmax_writes_no_other_scale(off: float) -> None:
    with pytest.raises(InternalError, match="SOFTMAX of int16 writes scale 1/32768"):
        checks.check_softmax(replace(WIDE_SOFTMAX, output_quant=QuantParam((1 + off) / 32768, 0)), INT16)


def aligned(count: int, beyond: int = 0) -> memoryview:
    room = np.zeros(count + 32, np.int8)
    start = -room.__array_interface__["data"][0] % 16 + beyond
    return room[start : start + count].data


def _changed(params: Any, name: str, value: Any) -> Any:
    return replace(params, **{name: value})


def test_alignment_of_every_buffer() -> None:
    params = ElementwiseAddParams(aligned(6), UNIT, aligned(6), UNIT, aligned(6), UNIT, FusedActivation.NONE)
    checks.check_alignment(params)
    for name in ("input1", "input2", "output"):
        for beyond in (1, 8, 15):
            with pytest.raises(AlignmentError, match=f"{name} starts {beyond} bytes beyond a multiple of 16"):
                checks.check_alignment(_changed(params, name, aligned(6, beyond)))


def test_empty_scratch_and_read_only_weights_can_be_aligned() -> None:
    params = CONV
    for name in ("input", "weights", "output"):
        params = _changed(params, name, aligned(len(getattr(CONV, name))))
    bias = aligned(8).cast("B").cast("i").toreadonly()
    params = replace(params, bias=bias, weights=params.weights.toreadonly())
    checks.check_alignment(params)
    with pytest.raises(AlignmentError, match="weights starts 4 bytes"):
        checks.check_alignment(replace(params, weights=aligned(36, 4).toreadonly()))


def test_errors_are_one_family() -> None:
    for error in (InvalidShape, UnsupportedActivation, AlignmentError, InternalError):
        assert issubclass(error, KernelError)
