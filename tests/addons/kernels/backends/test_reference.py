"""The backend `reference` against TensorFlow Lite Micro; each comparison notices wrong arithmetic."""

import functools
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.addons.kernels import arithmetic, windows
from aisrv.addons.kernels.arithmetic import Bounds, Multiplier, Rounding
from aisrv.addons.kernels.backends import reference
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.params import INT8, ElementType, FusedActivation, PoolParams, QuantParam
from aisrv.addons.kernels.windows import Window
from tests.support.amounts import in_ci
from tests.support.models.operators import METHODS, Case, Draw, values

CONV, DEPTHWISE = BuiltinOperator.CONV_2D, BuiltinOperator.DEPTHWISE_CONV_2D
DENSE, ADD, MUL = BuiltinOperator.FULLY_CONNECTED, BuiltinOperator.ADD, BuiltinOperator.MUL
AVERAGE, MAX = BuiltinOperator.AVERAGE_POOL_2D, BuiltinOperator.MAX_POOL_2D
SOFTMAX = BuiltinOperator.SOFTMAX
SCALED = (CONV, DEPTHWISE, DENSE, ADD, MUL)

needs_tflm = pytest.mark.skipif(find_spec("tflite_micro") is None, reason="tflite-micro is not installed")


def named(code: int) -> str:
    return METHODS[code]


@needs_tflm
@pytest.mark.parametrize("code", METHODS, ids=named)
@settings(max_examples=in_ci(60, every_day=20))
@given(seed=st.integers(0, 1 << 32))
def test_equal_to_tflm(code: int, seed: int) -> None:
    case = Draw(seed).case(code)
    assert case.run(ReferenceBackend()) == case.run_tflm()


@functools.cache
def compared(code: int) -> tuple[tuple[Case, list[int]], ...]:
    """Fixed cases with TensorFlow Lite Micro's outputs."""
    cases = [Draw(seed).case(code) for seed in range(80)]
    if code in SCALED:
        cases += [Draw(seed).wide(code) for seed in range(4)]
    return tuple((case, case.run_tflm()) for case in cases)


def differs(code: int, backend: ReferenceBackend) -> bool:
    return any(case.run(backend) != expected for case, expected in compared(code))


@needs_tflm
@pytest.mark.parametrize("code", METHODS, ids=named)
def test_fixed_cases_are_equal(code: int) -> None:
    assert not differs(code, ReferenceBackend())


@needs_tflm
@pytest.mark.parametrize("count", [1, 255, 256, 511])
def test_softmax_of_equal_classes(count: int) -> None:
    """Up to as many as TensorFlow Lite Micro takes."""
    case = Draw(0).case(SOFTMAX)
    params = replace(
        case.params, input=values([3] * count), input_shape=(1, count), output=values([0] * count)
    )
    case = replace(case, params=params)
    assert case.run(ReferenceBackend()) == case.run_tflm()


# Wrong arithmetic, one change each: the fixed cases must tell.

right_window, right_bounds = windows.window, arithmetic.activation_bounds
right_multiplier, right_taps = arithmetic.quantized_multiplier, reference._taps


def padded_before(*arguments: Any) -> Window:
    outputs, extent, before, after = right_window(*arguments)
    return Window(outputs, extent, after, before)


def padded_nowhere(*arguments: Any) -> Window:
    outputs, extent, _, _ = right_window(*arguments)
    return Window(outputs, extent, 0, 0)


def shifted(by: int) -> Callable[[float], Multiplier]:
    return lambda real: Multiplier(right_multiplier(real).mantissa, right_multiplier(real).shift + by)


def coarse_mantissa(real: float) -> Multiplier:
    mantissa, shift = right_multiplier(real)
    return Multiplier(mantissa & ~0xFFFF, shift)


def bounded(low: int, high: int) -> Callable[..., Bounds]:
    def bounds(activation: FusedActivation, quant: QuantParam, elements: ElementType = INT8) -> Bounds:
        right = right_bounds(activation, quant, elements)
        return Bounds(min(right.low + low, 127), max(right.high + high, -128))

    return bounds


def floored_mean(numbers: list[int]) -> int:
    return sum(numbers) // len(numbers)


def mean_half_up(numbers: list[int]) -> int:
    return (2 * sum(numbers) + len(numbers)) // (2 * len(numbers))


def half_up_shift(value: int, bits: int) -> int:
    return (value + (1 << bits >> 1)) >> bits


def without_dilation(window: Window, at: int, stride: int, dilation: int, inputs: int) -> Any:
    taps = (window.extent - 1) // dilation + 1
    return right_taps(window._replace(extent=taps), at, stride, 1, inputs)


MUTANTS: list[tuple[str, Any, str, Any, tuple[int, ...]]] = [
    ("products floor", arithmetic, "doubling_high_multiply", lambda a, b: a * b >> 31, SCALED),
    ("shifts floor", arithmetic, "rounding_shift", lambda y, r: y >> r, (*SCALED, SOFTMAX)),
    ("shifts round ties up", arithmetic, "rounding_shift", half_up_shift, SCALED),
    ("shift one more", arithmetic, "quantized_multiplier", shifted(1), (*SCALED, SOFTMAX)),
    ("shift one less", arithmetic, "quantized_multiplier", shifted(-1), (*SCALED, SOFTMAX)),
    ("mantissa of 15 bits", arithmetic, "quantized_multiplier", coarse_mantissa, SCALED),
    ("odd pixel before", windows, "window", padded_before, (CONV, DEPTHWISE, AVERAGE, MAX)),
    ("no padding", windows, "window", padded_nowhere, (CONV, DEPTHWISE, AVERAGE, MAX)),
    ("dilation ignored", reference, "_taps", without_dilation, (CONV, DEPTHWISE)),
    ("low bound one up", arithmetic, "activation_bounds", bounded(1, 0), (*SCALED, AVERAGE, MAX)),
    ("high bound one down", arithmetic, "activation_bounds", bounded(0, -1), (*SCALED, AVERAGE, MAX)),
    ("mean floors", reference, "_mean", floored_mean, (AVERAGE,)),
    ("mean rounds ties up", reference, "_mean", mean_half_up, (AVERAGE,)),
    ("sum of a bit more", arithmetic, "SUM_SHIFT", 11, (SOFTMAX,)),
    ("exponential of 1/3 a bit off", arithmetic, "_ONE_THIRD", 715827883 // 2, (SOFTMAX,)),
    ("one Newton step", arithmetic, "reciprocal", lambda _: 1515870810, (SOFTMAX,)),
]


@needs_tflm
@pytest.mark.parametrize(
    ("owner", "name", "wrong", "code"),
    [
        pytest.param(owner, name, wrong, code, id=f"{title}-{METHODS[code]}")
        for title, owner, name, wrong, codes in MUTANTS
        for code in codes
    ],
)
def test_wrong_arithmetic_is_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: Any, code: int
) -> None:
    compared(code)
    monkeypatch.setattr(owner, name, wrong)
    assert differs(code, ReferenceBackend())


@needs_tflm
@pytest.mark.parametrize("code", SCALED, ids=named)
def test_single_rounding_is_another_policy(code: int) -> None:
    assert differs(code, ReferenceBackend(Rounding.SINGLE))


# What a random case does not reach, and what a comparison alone would not tell.


def test_kernel_reads_its_buffers_at_every_invocation() -> None:
    case = Draw(3).case(MAX)
    params: PoolParams = case.params
    invoke = ReferenceBackend().max_pool(params)
    for value in (-7, 5):
        params.input[:] = values([value] * len(params.input))
        invoke()
        assert set(params.output) == {max(value, _low(params))}


def _low(params: PoolParams) -> int:
    return arithmetic.activation_bounds(params.activation, params.output_quant).low


def test_reference_wants_no_scratch() -> None:
    backend, shape = ReferenceBackend(), (1, 9, 9, 9)
    assert backend.conv2d_scratch_size(shape, shape, shape) == 0
    assert backend.depthwise_conv2d_scratch_size(shape, shape, shape) == 0
    assert backend.softmax_scratch_size(1000) == 0
