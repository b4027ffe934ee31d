"""Kernels of float32: TensorFlow Lite Micro's bits, in every variant."""

import functools
import struct
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tflite import BuiltinOperator

from aisrv import digits
from aisrv.addons.kernels.backend import kernel_origin
from aisrv.addons.kernels.backends.native import team
from aisrv.addons.kernels.backends.native.backend import NativeBackend
from aisrv.addons.kernels.backends.native.float32 import bit_bounds
from aisrv.addons.kernels.backends.native.library import Variant
from aisrv.addons.kernels.backends.native.steps import NativeKernel
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.errors import InternalError, InvalidShape, UnsupportedActivation
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.params import (
    UNQUANTIZED,
    FunctionParams,
    FusedActivation,
    MeanParams,
    PoolParams,
    QuantParam,
    SoftmaxParams,
)
from aisrv.model import Padding, TensorType
from tests.support.amounts import amount
from tests.support.models.float32_cases import FDLIBM_TANH, bits, float32_case, has_tflms_bits
from tests.support.models.native import native
from tests.support.models.one_operator import constant, single, tensor, tflm
from tests.support.models.operators import FLOAT32_METHODS, Case
from tests.support.oracles.network_runs import loaded, run_network

pytest.importorskip("tflite_micro.python.tflite_micro.runtime")

CASES = amount(2000, every_day=24)
LAYERS = (BuiltinOperator.CONV_2D, BuiltinOperator.DEPTHWISE_CONV_2D, BuiltinOperator.FULLY_CONNECTED)
F32 = TensorType.FLOAT32


@functools.cache
def by_tflm(code: int, seed: int) -> tuple[Case, Any]:
    case = float32_case(code, seed)
    return case, bits(case.run_tflm())


def taken(case: Case, variant: Variant) -> bool:
    """Whether the library computes a case; it leaves some layers to NumPy."""
    try:
        kernel = getattr(NativeBackend(variant).float32, FLOAT32_METHODS[case.code])(case.params)
    except NotImplementedError:
        return False
    assert isinstance(kernel, NativeKernel)
    return True


@pytest.mark.in_full
@pytest.mark.parametrize("code", FLOAT32_METHODS, ids=FLOAT32_METHODS.values())
def test_equals_tflm(code: int, variant: Variant) -> None:
    if not has_tflms_bits(code):
        pytest.skip("TFLM takes the system's tanhf, which is not fdlibm's here")
    backend = native(variant)
    computed = 0
    for seed in range(CASES):
        case, expected = by_tflm(code, seed)
        if taken(case, variant):
            assert bits(case.run(backend)).tolist() == expected.tolist(), f"seed {seed}"
            computed += 1
    # The others have windows that never meet the input.
    assert computed >= 0.8 * CASES


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.usefixtures("shared_steps")
def test_threads_change_nothing(threads: int, variant: Variant) -> None:
    for code in filter(has_tflms_bits, FLOAT32_METHODS):
        for seed in range(3):
            case, expected = by_tflm(code, seed)
            if taken(case, variant):
                assert bits(case.run(native(variant, threads))).tolist() == expected.tolist()


# Sums: the order, and the rounding of each product.


def layer(inputs: Sequence[float], weights: Sequence[float], bias: Sequence[float] | None = None) -> Case:
    """FULLY_CONNECTED of one row and one output."""
    case = float32_case(BuiltinOperator.FULLY_CONNECTED, 0)
    params = replace(
        case.params,
        input=memoryview(array("f", inputs)),
        weights=memoryview(array("f", weights)).toreadonly(),
        weights_shape=(1, len(inputs)),
        bias=None if bias is None else memoryview(array("f", bias)).toreadonly(),
        output=memoryview(array("f", [0])),
        output_depth=1,
        activation=FusedActivation.NONE,
    )
    return replace(case, params=params)


def test_threads_cut_small_layers_no_finer(variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "usable_cores", lambda: 4)
    params = replace(
        layer([1.0], [1.0]).params,
        input=memoryview(array("f", [1.0] * 64)),
        output=memoryview(array("f", [0.0] * 64)),
    )
    alone, shared = (NativeBackend(variant, threads).float32.fully_connected(params) for threads in (1, 4))
    assert isinstance(alone, NativeKernel)
    assert isinstance(shared, NativeKernel)
    assert shared.steps[0].items == alone.steps[0].items


def test_sums_are_in_order_and_the_bias_is_last(variant: Variant) -> None:
    large = 2.0**24
    assert layer([large, 1, -large], [1, 1, 1]).run(native(variant)) == [0]
    assert layer([large, -large, 1], [1, 1, 1]).run(native(variant)) == [1]
    assert layer([1, large], [1, 1], [-large]).run(native(variant)) == [0]


def test_products_are_rounded_before_they_are_added(variant: Variant) -> None:
    """One instruction that multiplies and adds would keep the last bit of the square."""
    above_one = 1 + 2.0**-12
    rounded = float(np.float32(above_one) * np.float32(above_one))
    assert rounded != above_one * above_one
    assert layer([1, above_one], [-rounded, above_one]).run(native(variant)) == [0]


@pytest.mark.parametrize(
    ("activation", "ends"),
    [
        (FusedActivation.NONE, (-3.4028234663852886e38, 3.4028234663852886e38)),
        (FusedActivation.RELU, (0.0, 3.4028234663852886e38)),
        (FusedActivation.RELU6, (0.0, 6.0)),
        (FusedActivation.RELU_N1_TO_1, (-1.0, 1.0)),
    ],
)
def test_activations_bound_infinities(
    activation: FusedActivation, ends: tuple[float, float], variant: Variant
) -> None:
    for value, end in zip((-np.inf, np.inf), ends, strict=True):
        case = layer([value], [1])
        case = replace(case, params=replace(case.params, activation=activation))
        assert case.run(native(variant)) == [end]


@pytest.mark.parametrize("activation", [FusedActivation.NONE, FusedActivation.RELU6])
def test_what_is_no_number_stays(activation: FusedActivation, variant: Variant) -> None:
    case = layer([np.nan], [1])
    case = replace(case, params=replace(case.params, activation=activation))
    (found,) = case.run(native(variant))
    assert np.isnan(found)


def test_relu_keeps_a_zeros_sign(variant: Variant) -> None:
    """As TFLM does: its larger one of two zeros is the value's."""
    case = float32_case(BuiltinOperator.MUL, 0)
    data = memoryview(array("f", [-0.0, 0.0, -1.0]))
    params = replace(
        case.params,
        input1=data,
        input2=memoryview(array("f", [1.0])),
        output=memoryview(array("f", [0] * 3)),
        activation=FusedActivation.RELU,
    )
    assert bits(replace(case, params=params).run(native(variant))).tolist() == [1 << 31, 0, 0]


# Pools and SOFTMAX.


def test_a_pool_of_no_numbers_is_the_lowest_float(variant: Variant) -> None:
    params = PoolParams(
        memoryview(array("f", [np.nan, np.nan, 2.0, np.nan])),
        (1, 1, 4, 1),
        UNQUANTIZED,
        memoryview(array("f", [0, 0])),
        (1, 1, 2, 1),
        UNQUANTIZED,
        stride_w=2,
        stride_h=1,
        filter_w=2,
        filter_h=1,
        padding=Padding.VALID,
        activation=FusedActivation.NONE,
    )
    case = Case(BuiltinOperator.MAX_POOL_2D, params)
    assert case.run(native(variant)) == case.run_tflm() == [-3.4028234663852886e38, 2.0]


def test_exponentials_of_the_whole_range(variant: Variant) -> None:
    """From 1 down to where a float has no exponent of its own, and 0."""
    steps = amount(12_000, every_day=4_000)
    values = np.concatenate([[0.0], np.linspace(-110, 0, steps), -(2.0 ** -np.arange(0, 40))])
    row = memoryview(array("f", values.astype(np.float32).tolist()))
    params = SoftmaxParams(
        row, (1, len(row)), UNQUANTIZED, memoryview(array("f", [0] * len(row))), UNQUANTIZED, beta=1.0
    )
    # Rows of two, so that sums lose nothing of one.
    pairs = np.stack([np.zeros(len(row)), np.asarray(row)], axis=1).astype(np.float32).ravel()
    params = replace(
        params,
        input=memoryview(array("f", pairs.tolist())),
        input_shape=(len(row), 2),
        output=memoryview(array("f", [0] * len(pairs))),
    )
    case = Case(BuiltinOperator.SOFTMAX, params)
    assert bits(case.run(native(variant))).tolist() == bits(case.run_tflm()).tolist()


def test_logistic_of_floats_of_all_sizes(variant: Variant) -> None:
    """From the most negative float to the largest, and beside the bounds where TFLM takes other formulas."""
    everywhere = np.arange(0, 1 << 32, 1 << 20, dtype=np.int64).astype(np.uint32).view(np.float32)
    low, high = np.float32(-9), np.float32(16.619047164916992188)
    around = [np.nextafter(bound, end) for bound in (low, high) for end in (np.float32(-99), np.float32(99))]
    between = np.linspace(-20, 20, amount(8_000, every_day=4_000), dtype=np.float32)
    values = np.concatenate([everywhere, between, [low, high], around]).astype(np.float32)
    params = FunctionParams(
        memoryview(array("f", values.tolist())), memoryview(array("f", [0] * len(values)))
    )
    case = Case(BuiltinOperator.LOGISTIC, params)
    assert bits(case.run(native(variant))).tolist() == bits(case.run_tflm()).tolist()


def test_the_exponential_is_that_of_processors_without_a_fused_multiply_add(variant: Variant) -> None:
    """With one glibc has another function: of all floats, LOGISTIC of this one is then a bit more."""
    x = float(np.uint32(0xC27C65D9).view(np.float32))
    params = FunctionParams(memoryview(array("f", [x])), memoryview(array("f", [0])))
    assert bits(Case(BuiltinOperator.LOGISTIC, params).run(native(variant))).tolist() == [0x11FA2992]


def test_tanh_of_floats_of_all_sizes(variant: Variant) -> None:
    if not has_tflms_bits(BuiltinOperator.TANH):
        pytest.skip("TFLM takes the system's tanhf, which is not fdlibm's here")
    everywhere = np.arange(0, 1 << 32, 1 << 20, dtype=np.int64).astype(np.uint32).view(np.float32)
    between = np.linspace(-10, 10, amount(12_000, every_day=6_000), dtype=np.float32)
    values = np.concatenate([everywhere, between])
    params = FunctionParams(
        memoryview(array("f", values.tolist())), memoryview(array("f", [0] * len(values)))
    )
    case = Case(BuiltinOperator.TANH, params)
    assert bits(case.run(native(variant))).tolist() == bits(case.run_tflm()).tolist()


@pytest.mark.parametrize(("x", "expected"), FDLIBM_TANH)
def test_tanh_is_fdlibms(x: float, expected: int, variant: Variant) -> None:
    params = FunctionParams(memoryview(array("f", [x])), memoryview(array("f", [0])))
    assert bits(Case(BuiltinOperator.TANH, params).run(native(variant))).tolist() == [expected]


# What the library is not given, and what it refuses.


def test_weights_that_make_something_of_zeros_are_left_to_numpy(variant: Variant) -> None:
    """Beside a border, a weight that is infinite would make what is no number."""
    case = float32_case(BuiltinOperator.DEPTHWISE_CONV_2D, 0)
    assert taken(case, variant)
    weights = np.array(case.params.weights)
    weights[...] = np.inf
    params = replace(case.params, weights=memoryview(weights.data).toreadonly())
    assert not taken(replace(case, params=params), variant)


def test_parameters_are_checked(variant: Variant) -> None:
    backend = NativeBackend(variant).float32
    params = layer([1, 2], [3, 4]).params
    with pytest.raises(InvalidShape, match="input has 3 values, no multiple of the weights' 2"):
        backend.fully_connected(replace(params, input=memoryview(array("f", [1, 2, 3]))))
    with pytest.raises(InternalError, match="weights: must be one contiguous run of floats"):
        backend.fully_connected(replace(params, weights=memoryview(array("b", [1, 2])).toreadonly()))
    with pytest.raises(InternalError, match="bias: must be one contiguous run of floats"):
        backend.fully_connected(replace(params, bias=memoryview(array("i", [1]))))
    with pytest.raises(InternalError, match="output_quant: float32 has scale 1 and zero point 0"):
        backend.fully_connected(replace(params, output_quant=QuantParam(0.5, 0)))
    data = memoryview(array("f", [1, 2, 3, 4]))
    with pytest.raises(InvalidShape, match="output has 4 values, needs 2"):
        backend.mean(MeanParams(data, (1, 2, 2), data))
    with pytest.raises(InvalidShape, match=r"input has 4 values, its shape \[1, 2, 3\] needs 6"):
        backend.mean(MeanParams(data, (1, 2, 3), data))
    with pytest.raises(InvalidShape, match="output has 2 values, needs 4"):
        backend.logistic(FunctionParams(data, data[:2]))
    with pytest.raises(InternalError, match="output: must be writable"):
        backend.logistic(FunctionParams(data, data.toreadonly()))
    with pytest.raises(UnsupportedActivation, match="the activation TANH has no float32 kernel"):
        backend.fully_connected(replace(params, activation=FusedActivation.TANH))


def float_layer(weights: np.ndarray[Any, Any] | None, bias: np.ndarray[Any, Any] | None) -> bytes:
    """FULLY_CONNECTED whose weights and bias are computed unless they are given."""
    given = [
        tensor(name, shape, kind=F32) if values is None else constant(name, values, np.float32)
        for name, shape, values in (("weights", (3, 4), weights), ("bias", (3,), bias))
    ]
    inputs = [tensor("in", (2, 4), kind=F32), *given]
    return single(BuiltinOperator.FULLY_CONNECTED, inputs, [tensor("out", (2, 3), kind=F32)])


@pytest.mark.parametrize("computed", [(), ("bias",), ("weights", "bias")])
def test_computed_weights_are_left_to_numpy(computed: tuple[str, ...], variant: Variant) -> None:
    chance = np.random.default_rng(1)
    data = chance.normal(size=(2, 4)), chance.normal(size=(3, 4)), chance.normal(size=3)
    x, weights, bias = (each.astype(np.float32) for each in data)
    model = float_layer(None if "weights" in computed else weights, None if "bias" in computed else bias)
    given = [x, *(weights for _ in computed if "weights" in computed)][: 2 if "weights" in computed else 1]
    given += [bias] if computed else []
    network = load_network(model, native(variant))
    assert kernel_origin(network.operators[0].kernel) == ("network" if computed else "native")
    (found,), (expected,) = run_network(network, given), run_network(loaded(model), given)
    np.testing.assert_allclose(
        np.frombuffer(found, np.float32), np.frombuffer(expected, np.float32), rtol=1e-5
    )


@pytest.mark.parametrize("code", [BuiltinOperator.ADD, BuiltinOperator.MUL])
@pytest.mark.parametrize("shape", [(1, 2, 3), (3,), (1, 1, 1), (2, 2, 1)])
def test_constants_that_broadcast(code: int, shape: tuple[int, ...], variant: Variant) -> None:
    chance = np.random.default_rng(2)
    other, data = chance.normal(size=shape), chance.normal(size=(2, 2, 3)).astype(np.float32)
    inputs = [constant("other", other, np.float32), tensor("in", (2, 2, 3), kind=F32)]
    model = single(code, inputs, [tensor("out", (2, 2, 3), kind=F32)])
    network = load_network(model, native(variant))
    assert kernel_origin(network.operators[0].kernel) == "native"
    assert run_network(network, [data]) == tflm(model, data) == run_network(loaded(model), [data])


def test_a_trained_network_is_one_call_with_tflms_bits(variant: Variant) -> None:
    model = digits.float_model_bytes()
    network = load_network(model, native(variant))
    assert len(network.kernels) == 1
    for seed in range(amount(200, every_day=5)):
        data = np.random.default_rng(seed).random((1, 8, 8, 1)).astype(np.float32)
        assert run_network(network, [data]) == tflm(model, data)


def test_numpy_has_no_kernels_of_its_own() -> None:
    assert getattr(NumpyBackend(), "float32", None) is None


def test_bounds_are_bits() -> None:
    low = struct.unpack("<I", struct.pack("<f", -1.0))[0]
    assert bit_bounds(FusedActivation.RELU_N1_TO_1) == {"low": low, "high": 0x3F800000}
