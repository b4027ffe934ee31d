"""Operators, one in a model, beside TensorFlow Lite Micro: every byte of the output."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tflite import BuiltinOperator, TensorType

from aisrv.addons.kernels.arithmetic import Multiplier, Rounding, multiply_once_rounded, reciprocal
from aisrv.addons.kernels.backends.numpy import elementwise
from aisrv.addons.kernels.network.operators import lookup, quantize, reductions
from tests.support.models.one_operator import PROBABILITIES, constant, random_int8, single, tensor
from tests.support.oracles.network_runs import agree, loaded, run_network

F32 = TensorType.FLOAT32
U8 = TensorType.UINT8
ALL_INT8 = np.arange(-128, 128, dtype=np.int8)


@pytest.mark.parametrize("zero_point", [-128, 0, 5])
@pytest.mark.parametrize("amounts", [[(0, 0), (1, 2), (0, 3), (0, 0)], [(1, 0), (0, 0), (2, 1), (1, 1)]])
def test_pad_fills_with_the_zero_point(zero_point: int, amounts: list[tuple[int, int]]) -> None:
    shape = (1, 3, 4, 2)
    padded = [a + n + b for n, (a, b) in zip(shape, amounts, strict=True)]
    model = single(
        BuiltinOperator.PAD,
        [tensor("in", shape, 0.5, zero_point), constant("paddings", amounts)],
        [tensor("out", padded, 0.5, zero_point)],
    )
    data = random_int8(shape)
    assert agree(model, data) == [np.pad(data, amounts, constant_values=zero_point).tobytes()]


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -4])
def test_concatenation(axis: int) -> None:
    shapes = [[2, 3, 4, 5], [2, 3, 4, 5], [2, 3, 4, 5]]
    shapes[1][axis], shapes[2][axis] = 1, 7
    out = [2, 3, 4, 5]
    out[axis] = sum(shape[axis] for shape in shapes)
    model = single(
        BuiltinOperator.CONCATENATION,
        [tensor(f"in{number}", shape) for number, shape in enumerate(shapes)],
        [tensor("out", out)],
        {"axis": axis},
    )
    agree(model, *(random_int8(shape, seed) for seed, shape in enumerate(shapes)))


@pytest.mark.parametrize(("align", "half"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size", [(6, 10), (3, 5), (7, 3), (1, 13)])
def test_resize_nearest_neighbor(size: tuple[int, int], align: bool, half: bool) -> None:
    model = single(
        BuiltinOperator.RESIZE_NEAREST_NEIGHBOR,
        [tensor("in", (1, 3, 5, 2)), constant("size", size)],
        [tensor("out", (1, *size, 2))],
        {"align_corners": align, "half_pixel_centers": half},
    )
    agree(model, random_int8((1, 3, 5, 2)))


def mapped(code: int, given: Any, made: Any, options: dict[str, float] | None = None) -> None:
    """Compare an operator on all values of int8, by scale and zero point of its input and output."""
    model = single(code, [tensor("in", (256,), *given)], [tensor("out", (256,), *made)], options)
    agree(model, ALL_INT8)


SCALES = [(0.05, 3, 0.05, 3), (0.1, -7, 0.03, 20), (0.007, 100, 0.2, -128), (1.5, 0, 0.0123, -3)]


@pytest.mark.parametrize(("scale", "zero", "out_scale", "out_zero"), SCALES)
@pytest.mark.parametrize("alpha", [0.1, 0.01, 0.3, 1.0])
def test_leaky_relu(scale: float, zero: int, out_scale: float, out_zero: int, alpha: float) -> None:
    mapped(BuiltinOperator.LEAKY_RELU, (scale, zero), (out_scale, out_zero), {"alpha": alpha})


@pytest.mark.parametrize(
    ("scale", "zero", "out_scale", "out_zero"),
    [(0.05, 3, 0.05, 3), (0.1, -7, 0.08, -100), (0.007, 100, 0.2, -128), (0.03, -128, 0.01, -120)],
)
def test_hard_swish(scale: float, zero: int, out_scale: float, out_zero: int) -> None:
    mapped(BuiltinOperator.HARD_SWISH, (scale, zero), (out_scale, out_zero))


@pytest.mark.parametrize("scale", [1e-4, 0.003, 0.02, 0.1, 0.14, 1.0, 3.0])
@pytest.mark.parametrize("zero", [-128, -3, 0, 127])
def test_logistic(scale: float, zero: int) -> None:
    mapped(BuiltinOperator.LOGISTIC, (scale, zero), (PROBABILITIES.scales[0], -128))


@pytest.mark.parametrize(("scale", "zero", "out_scale", "out_zero"), SCALES)
@pytest.mark.parametrize(
    ("axes", "keep"), [([1, 2], True), ([1, 2], False), ([3], True), ([-1, 0], False), ([1], False)]
)
def test_mean(scale: float, zero: int, out_scale: float, out_zero: int, axes: list[int], keep: bool) -> None:
    data = random_int8((2, 5, 7, 3), seed=4)
    shape = data.mean(axis=tuple(axes), keepdims=keep).shape
    model = single(
        BuiltinOperator.MEAN,
        [tensor("in", data.shape, scale, zero), constant("axes", axes)],
        [tensor("out", shape, out_scale, out_zero)],
        {"keep_dims": keep},
    )
    agree(model, data)


@pytest.mark.parametrize("activation", [0, 1, 2, 3])
@pytest.mark.parametrize(("scale", "zero", "out_scale", "out_zero"), SCALES)
@pytest.mark.parametrize("second", [(1, 64, 16), (1, 1, 16), (1, 1, 1)])
def test_sub(
    scale: float, zero: int, out_scale: float, out_zero: int, activation: int, second: tuple[int, ...]
) -> None:
    shape = (1, 64, 16)
    model = single(
        BuiltinOperator.SUB,
        [tensor("one", shape, scale, zero), tensor("two", second, 0.04, 5)],
        [tensor("out", shape, out_scale, out_zero)],
        {"fused_activation_function": activation},
    )
    agree(model, random_int8(shape, 1), random_int8(second, 2))


@pytest.mark.parametrize("code", [BuiltinOperator.ADD, BuiltinOperator.MUL])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1, 4, 5, 3), (1, 1, 1, 3)),
        ((1, 4, 5, 3), (1, 1, 1, 1)),
        ((1, 1, 1, 3), (1, 4, 5, 3)),
        ((1, 4, 5, 3), (1, 4, 1, 3)),
        ((1, 4, 1, 3), (1, 1, 5, 1)),
    ],
)
def test_add_and_mul_broadcast(code: int, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    model = single(
        code,
        [tensor("one", first, 0.1, 3), tensor("two", second, 0.04, -5)],
        [tensor("out", (1, 4, 5, 3), 0.12, 7)],
    )
    agree(model, random_int8(first, 1), random_int8(second, 2))


def test_constant_that_is_added_broadcasts() -> None:
    quantization = PROBABILITIES
    model = single(
        BuiltinOperator.ADD,
        [tensor("one", (1, 2, 2, 3), 0.1, 3), constant("two", [[[[5, -90, 127]]]], np.int8, quantization)],
        [tensor("out", (1, 2, 2, 3), 0.12, 7)],
    )
    agree(model, random_int8((1, 2, 2, 3)))


def test_quantize_from_float() -> None:
    scale, zero = 0.25, -3
    halves = np.arange(-80, 80, dtype=np.float32) * np.float32(scale / 2)
    data = np.concatenate([halves, np.array([0.0, -0.0, 1e6, -1e6, 0.12499999, 1e-30], np.float32)])
    model = single(
        BuiltinOperator.QUANTIZE,
        [tensor("in", data.shape, kind=F32)],
        [tensor("out", data.shape, scale, zero)],
    )
    agree(model, data)


def test_floats_that_are_no_numbers_are_clamped() -> None:
    data = np.array([np.nan, np.inf, -np.inf, 3.4e38], np.float32)
    model = single(BuiltinOperator.QUANTIZE, [tensor("in", (4,), kind=F32)], [tensor("out", (4,), 1e-3, 4)])
    assert run_network(loaded(model), [data]) == [np.array([-128, 127, -128, 127], np.int8).tobytes()]


@pytest.mark.parametrize(("scale", "zero", "out_scale", "out_zero"), SCALES)
def test_quantize_from_int8(scale: float, zero: int, out_scale: float, out_zero: int) -> None:
    mapped(BuiltinOperator.QUANTIZE, (scale, zero), (out_scale, out_zero))


def test_quantize_from_int8_to_uint8_and_back() -> None:
    mapped(BuiltinOperator.QUANTIZE, (0.1, -20), (0.15, 108, U8))
    back = single(
        BuiltinOperator.QUANTIZE, [tensor("in", (256,), 0.1, 20, U8)], [tensor("out", (256,), 0.15, -10)]
    )
    agree(back, np.arange(256, dtype=np.uint8))


@pytest.mark.parametrize(("scale", "zero"), [(0.05, 3), (1 / 3, -128), (1e-7, 127)])
def test_dequantize(scale: float, zero: int) -> None:
    mapped(BuiltinOperator.DEQUANTIZE, (scale, zero), (1.0, 0, F32))


def means(scale: float, output_scale: float) -> None:
    test_mean(scale, 3, output_scale, 3, [1, 2], True)


def requantize() -> None:
    test_quantize_from_int8(0.05, 3, 0.07, 3)


# The comparison itself: it sees one rounding, one shift, one constant that is not as it should be.


def floored(multipliers: Sequence[Multiplier], _rounding: Rounding = Rounding.DOUBLE) -> Any:
    """A rescaling without rounding."""
    ((mantissa, shift),) = multipliers
    return lambda values: values * mantissa >> 31 - shift


@pytest.mark.parametrize(
    ("module", "name", "wrong", "test"),
    [
        (lookup, "reciprocal", lambda a: reciprocal(a) - (1 << 23), lambda: test_logistic(0.02, 0)),
        (lookup, "rounding_shift", lambda value, bits: value >> bits, lambda: test_logistic(0.02, 0)),
        (
            lookup,
            "multiply_twice_rounded",
            multiply_once_rounded,
            lambda: test_leaky_relu(1 / 16, 0, 0.75, 0, 0.375),
        ),
        (lookup, "rounding_shift", lambda v, n: v >> n, lambda: test_hard_swish(0.1, -7, 0.08, -100)),
        (reductions, "word_scale", floored, lambda: means(0.05, 0.05)),
        (elementwise, "word_scale", floored, lambda: test_sub(0.05, 3, 0.05, 3, 0, (1, 64, 16))),
        (quantize, "multiply_twice_rounded", lambda v, m: v * m.mantissa >> 31 - m.shift, requantize),
    ],
)
def test_one_change_is_seen(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, wrong: Any, test: Callable[[], object]
) -> None:
    test()
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(AssertionError):
        test()
