"""Multipliers, roundings, bounds and windows: values worked by hand from the definitions."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import (
    INT32_MAX,
    INT32_MIN,
    MULTIPLY,
    Bounds,
    Multiplier,
    Rounding,
    activation_bounds,
    add_multipliers,
    conv_multipliers,
    doubling_high_multiply,
    exponential,
    exponential_table,
    float32,
    fully_connected_multipliers,
    mul_multiplier,
    multiply_once_rounded,
    multiply_twice_rounded,
    quantized_multiplier,
    reciprocal,
    round_half_away,
    rounding_shift,
    softmax_row,
    wrapped,
)
from aisrv.addons.kernels.errors import InternalError, UnsupportedActivation
from aisrv.addons.kernels.params import (
    ElementwiseAddParams,
    FusedActivation,
    MulParams,
    PerChannelQuantParam,
    QuantParam,
    ScaleProduct,
)
from tests.support.models.operators import Draw, values


@pytest.mark.parametrize(
    ("real", "multiplier"),
    [
        (0.0, (0, 0)),
        (0.5, (1 << 30, 0)),
        (0.75, (3 << 29, 0)),
        (1.0, (1 << 30, 1)),
        (6.0, (3 << 29, 3)),
        (2.0**31 - 1, (INT32_MAX, 31)),  # the largest factor
        (1 / 3, (1431655765, -1)),
        (0.5 + 2.0**-32, ((1 << 30) + 1, 0)),  # half of a unit goes away from zero
        (1 - 2.0**-33, (1 << 30, 1)),  # rounds to 2**31, which is halved
        (2.0**-32, (1 << 30, -31)),  # the smallest factor
        (2.0**-32 * (1 - 2.0**-53), (1 << 30, -31)),  # rounds up to it
        (2.0**-33, (0, 0)),
    ],
)
def test_quantized_multiplier(real: float, multiplier: tuple[int, int]) -> None:
    assert quantized_multiplier(real) == multiplier


@pytest.mark.parametrize("real", [-1.0, math.inf, -math.inf, math.nan])
def test_what_is_no_factor_is_refused(real: float) -> None:
    with pytest.raises(InternalError, match="finite real that is not negative"):
        quantized_multiplier(real)


@pytest.mark.parametrize("real", [2.0**31, 2.0**31 - 2.0**-1, 1e300])
def test_factor_that_shifts_a_word_away_is_refused(real: float) -> None:
    with pytest.raises(InternalError, match=r"a multiplier must be below 2\*\*31, this one is"):
        quantized_multiplier(real)


@given(st.floats(2.0**-31, 2.0**30))
def test_multiplier_is_the_real_to_31_bits(real: float) -> None:
    mantissa, shift = quantized_multiplier(real)
    assert 1 << 30 <= mantissa < 1 << 31
    assert abs(mantissa * 2.0 ** (shift - 31) - real) <= 2.0 ** (shift - 32)


@pytest.mark.parametrize(
    ("a", "b", "product"),
    [
        (1 << 30, 1 << 30, 1 << 29),
        (1, 1 << 30, 1),  # a half goes up
        (-1, 1 << 30, 0),  # and up again
        (-3, 1 << 30, -1),
        (3, (1 << 30) - 1, 1),
        (INT32_MIN, INT32_MIN, INT32_MAX),
        (INT32_MIN, INT32_MAX, -INT32_MAX),
        (0, INT32_MIN, 0),
    ],
)
def test_doubling_high_multiply(a: int, b: int, product: int) -> None:
    assert doubling_high_multiply(a, b) == product


@pytest.mark.parametrize(
    ("value", "bits", "result"),
    [
        (5, 0, 5),
        (-5, 0, -5),
        (1, 1, 1),
        (-1, 1, -1),
        (3, 1, 2),
        (-3, 1, -2),
        (5, 2, 1),
        (-5, 2, -1),
        (6, 2, 2),
        (-6, 2, -2),
        (INT32_MAX, 31, 1),
        (INT32_MIN, 31, -1),
        ((1 << 30) - 1, 31, 0),
    ],
)
def test_rounding_shift(value: int, bits: int, result: int) -> None:
    assert rounding_shift(value, bits) == result


@pytest.mark.parametrize(
    ("value", "shift", "twice", "once"),
    [
        (1, -1, 1, 0),  # a quarter: first a half, up to 1, and its half up again
        (-1, -1, 0, 0),
        (2, -1, 1, 1),
        (-2, -1, -1, 0),  # minus a half: away from zero, or up
        (3, 2, 6, 6),
        (-3, 2, -6, -6),
        (5, 0, 3, 3),
        (-5, 0, -2, -2),
    ],
)
def test_two_policies_of_rounding(value: int, shift: int, twice: int, once: int) -> None:
    multiplier = Multiplier(1 << 30, shift)  # 2**(shift - 1)
    assert multiply_twice_rounded(value, multiplier) == twice
    assert multiply_once_rounded(value, multiplier) == once


@pytest.mark.parametrize(
    ("value", "result"),
    [(0, 0), (2**31 - 1, 2**31 - 1), (2**31, -(2**31)), (-(2**31) - 1, 2**31 - 1), (2**32 + 5, 5)],
)
def test_words_wrap(value: int, result: int) -> None:
    assert wrapped(value) == result


@pytest.mark.parametrize(
    ("value", "multiplier", "result"),
    [
        (2**32 + 6, Multiplier(1 << 30, -1), 2),
        (1 << 30, Multiplier(1 << 30, 1), -(1 << 30)),
        (3 << 30, Multiplier(1 << 30, 0), -(1 << 29)),
    ],
)
def test_words_wrap_before_they_are_multiplied(value: int, multiplier: Multiplier, result: int) -> None:
    assert multiply_twice_rounded(value, multiplier) == result


def test_one_rounding_wraps_the_sum_and_the_product() -> None:
    assert multiply_once_rounded(3 << 30, Multiplier(1 << 30, 0)) == -(1 << 29)
    # Nothing is shifted before: 2**30 times 1 stays, times 2 leaves 32 bits.
    assert multiply_once_rounded(1 << 30, Multiplier(1 << 30, 1)) == 1 << 30
    assert multiply_once_rounded(1 << 30, Multiplier(1 << 30, 2)) == -(1 << 31)


def test_policies_have_names() -> None:
    assert MULTIPLY[Rounding("double")] is multiply_twice_rounded
    assert MULTIPLY[Rounding("single")] is multiply_once_rounded


@pytest.mark.parametrize(
    ("value", "rounded"), [(0.5, 1), (-0.5, -1), (1.5, 2), (2.5, 3), (-2.5, -3), (0.49999, 0), (-7.4, -7)]
)
def test_round_half_away(value: float, rounded: int) -> None:
    assert round_half_away(value) == rounded


@given(st.floats(-1e39, 1e39))
def test_float32_is_that_of_numpy(value: float) -> None:
    with np.errstate(over="ignore"):
        assert float32(value) == float(np.float32(value))


# Activations.


@pytest.mark.parametrize(
    ("activation", "scale", "zero_point", "bounds"),
    [
        (FusedActivation.NONE, 0.5, 10, (-128, 127)),
        (FusedActivation.RELU, 0.5, 10, (10, 127)),
        (FusedActivation.RELU, 0.5, -128, (-128, 127)),
        (FusedActivation.RELU6, 0.5, 10, (10, 22)),
        (FusedActivation.RELU6, 0.01, 10, (10, 127)),
        (FusedActivation.RELU6, 6 / 255, -128, (-128, 127)),
        (FusedActivation.RELU_N1_TO_1, 0.5, 10, (8, 12)),
        (FusedActivation.RELU_N1_TO_1, 0.4, 0, (-3, 3)),  # 1/0.4 in float32 is 2.5, in double a little less
        (FusedActivation.RELU_N1_TO_1, 1e-3, 0, (-128, 127)),
        (FusedActivation.RELU_N1_TO_1, 2.0**-149, 0, (-128, 127)),  # 1/scale is beyond float32
    ],
)
def test_activation_bounds(
    activation: FusedActivation, scale: float, zero_point: int, bounds: tuple[int, int]
) -> None:
    assert activation_bounds(activation, QuantParam(float32(scale), zero_point)) == Bounds(*bounds)


@pytest.mark.parametrize("name", ["TANH", "SIGN_BIT", "SIGMOID"])
def test_activations_without_kernel(name: str) -> None:
    with pytest.raises(UnsupportedActivation, match=f"the activation {name} has no int8 kernel"):
        activation_bounds(FusedActivation[name], QuantParam(1.0, 0))


# Multipliers of the operators.


def test_convolution_scales_each_channel_in_double() -> None:
    params = Draw(0).case(BuiltinOperator.CONV_2D).params
    scales = (float32(0.1), float32(0.2), float32(0.3))
    params = replace(
        params,
        input_quant=QuantParam(float32(0.7), 0),
        output_quant=QuantParam(float32(0.9), 0),
        weights_per_channel_quant=PerChannelQuantParam(scales, (0, 0, 0), 0),
        output_shape=(1, 1, 1, 3),
    )
    expected = [float(np.float64(np.float32(0.7)) * np.float64(np.float32(w))) for w in (0.1, 0.2, 0.3)]
    assert conv_multipliers(params) == tuple(
        quantized_multiplier(product / float(np.float32(0.9))) for product in expected
    )


def test_one_scale_serves_all_channels() -> None:
    params = Draw(0).case(BuiltinOperator.DEPTHWISE_CONV_2D).params
    one = replace(
        params,
        output_shape=(1, 1, 1, 5),
        weights_quant=QuantParam(0.25, 0),
        weights_per_channel_quant=None,
        input_quant=QuantParam(1.0, 0),
        output_quant=QuantParam(0.5, 0),
    )
    stale = replace(one, weights_per_channel_quant=PerChannelQuantParam((0.25,), (0,), 3))
    assert conv_multipliers(one) == conv_multipliers(stale) == (Multiplier(1 << 30, 0),) * 5


def test_fully_connected_multiplies_scales_in_double_or_in_float32() -> None:
    params = Draw(0).case(BuiltinOperator.FULLY_CONNECTED).params
    params = replace(
        params,
        input_quant=QuantParam(float32(0.7), 0),
        weights_quant=QuantParam(float32(0.3), 0),
        weights_per_channel_quant=None,
        output_quant=QuantParam(1.0, 0),
        output_depth=2,
    )
    exact, product = float32(0.7) * float32(0.3), float(np.float32(0.7) * np.float32(0.3))
    assert product != exact
    assert fully_connected_multipliers(params) == (quantized_multiplier(exact),) * 2
    params = replace(params, scale_product=ScaleProduct.FLOAT32)
    assert fully_connected_multipliers(params) == (quantized_multiplier(product),) * 2
    per_channel = replace(
        params, weights_per_channel_quant=PerChannelQuantParam((float32(0.3),) * 2, (0, 0), 0)
    )
    assert fully_connected_multipliers(per_channel) == (
        (quantized_multiplier(float32(0.7) * float32(0.3)),) * 2
    )


def test_add_multipliers() -> None:
    quants = QuantParam(0.25, 0), QuantParam(0.5, 0), QuantParam(2.0, 0)
    empty = values([])
    params = ElementwiseAddParams(empty, quants[0], empty, quants[1], empty, quants[2], FusedActivation.NONE)
    # t = 1: a quarter, a half, and 1/2**21
    assert add_multipliers(params) == ((1 << 30, -1), (1 << 30, 0), (1 << 30, -20))


def test_mul_multiplier() -> None:
    quants = QuantParam(0.25, 0), QuantParam(0.5, 0), QuantParam(2.0, 0)
    empty = values([])
    params = MulParams(empty, quants[0], empty, quants[1], empty, quants[2], FusedActivation.NONE)
    assert mul_multiplier(params) == (1 << 30, -3)


# Softmax.


@given(st.integers(-31 << 26, 0))
def test_exponential_is_near_the_real_one(argument: int) -> None:
    # The polynomial leaves out terms from the fifth power on: (1/8)**5 / 5! of 2**31 at most.
    assert abs(exponential(argument) - math.exp(argument / (1 << 26)) * (1 << 31)) < 600


@given(st.integers(0, INT32_MAX))
def test_reciprocal_is_near_the_real_one(argument: int) -> None:
    assert abs(reciprocal(argument) - (1 << 31) / (1 + argument / (1 << 31))) < 200


def test_exponential_of_zero_is_the_largest_below_one() -> None:
    assert exponential(0) == INT32_MAX


def test_table_ends_where_a_difference_is_too_small_to_count() -> None:
    # beta * scale = 1: 2**26 has the shift 27, and floor(31 * 2**26 / 2**27) is 15.
    table = exponential_table(1.0, 1.0)
    assert len(table) == 256
    assert [at for at, value in enumerate(table) if value][-1] == 15
    assert table[0] == INT32_MAX


def test_single_rounding_caps_the_multiplier_lower() -> None:
    # beta * scale = 32 asks for 2**31, which is capped: 2**31 - 1 is shifted by 31, 2**30 - 1 by 30.
    assert [value > 0 for value in exponential_table(1.0, 32.0)[:2]] == [True, False]
    assert exponential_table(1.0, 15.5, Rounding.SINGLE) == exponential_table(1.0, 15.5)
    assert [value > 0 for value in exponential_table(1.0, 32.0, Rounding.SINGLE)[:3]] == [True, True, False]


@pytest.mark.parametrize("scale", [2.0**-26, 2.0**-40, 2.0**-149])
def test_too_flat_a_softmax_is_refused(scale: float) -> None:
    with pytest.raises(InternalError, match=r"too small, needs 2\*\*-26"):
        exponential_table(1.0, scale)


@pytest.mark.parametrize(
    ("row", "outputs"),
    [
        ([5], [127]),  # 1, at most 127/256 above the zero point
        ([5, 5], [0, 0]),
        ([-128, -128, -128, -128], [-64] * 4),
        ([0, -100, -100, 0], [0, -128, -128, 0]),
    ],
)
def test_softmax_of_rows_that_can_be_worked_out(row: list[int], outputs: list[int]) -> None:
    assert softmax_row(row, exponential_table(1.0, 1.0)) == outputs


@pytest.mark.parametrize("count", [4096, 8191, 8192, 16384])
def test_sum_of_many_classes_wraps_as_a_word_does(count: int) -> None:
    outputs = softmax_row([0] * count, exponential_table(1.0, 1.0))
    assert len(set(outputs)) == 1
    assert -128 <= outputs[0] <= 127
