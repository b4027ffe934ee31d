"""Operators of int16 activations, and of weights of 4 bits, beside TensorFlow Lite Micro: every byte."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import Rounding
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.load import load_network
from aisrv.model import TensorType
from aisrv.model.values import Quantization, Tensor
from tests.support.amounts import in_ci
from tests.support.models import int16_models
from tests.support.models.int16_models import Draw, Drawn
from tests.support.models.native import library, native
from tests.support.models.one_operator import constant, single, tensor, tflm
from tests.support.oracles.network_runs import run_network

SEEDS = st.integers(0, 1 << 32)
EXAMPLES = settings(max_examples=in_ci(40, every_day=15), derandomize=True, deadline=None)


def agree(drawn: Drawn) -> None:
    model, inputs = drawn
    expected = tflm(model, *inputs)
    for backend in (ReferenceBackend(), NumpyBackend()):
        assert run_network(load_network(model, backend), inputs) == expected


@EXAMPLES
@given(SEEDS)
@pytest.mark.parametrize("operator", int16_models.OPERATORS)
def test_int16_activations(operator: str, seed: int) -> None:
    agree(int16_models.OPERATORS[operator](Draw(seed)))


@pytest.mark.parametrize("operator", int16_models.OPERATORS)
def test_native_kernels_of_int16_activations(operator: str) -> None:
    variants = library().variants
    for seed in range(in_ci(40, every_day=15)):
        model, inputs = int16_models.OPERATORS[operator](Draw(seed))
        expected = tflm(model, *inputs)
        for variant in variants:
            assert run_network(load_network(model, native(variant)), inputs) == expected, (seed, variant)


def test_backends_agree_where_they_round_once() -> None:
    differ = 0
    for seed in range(in_ci(30, every_day=8)):
        for draw in int16_models.OPERATORS.values():
            model, inputs = draw(Draw(seed))
            once, plain, twice = (
                run_network(load_network(model, backend), inputs)
                for backend in (
                    NumpyBackend(Rounding.SINGLE),
                    ReferenceBackend(Rounding.SINGLE),
                    NumpyBackend(),
                )
            )
            assert once == plain
            differ += once != twice
    assert differ > 0


@EXAMPLES
@given(SEEDS)
@pytest.mark.parametrize("operator", int16_models.LAYERS)
def test_int4_weights(operator: str, seed: int) -> None:
    agree(int16_models.LAYERS[operator](Draw(seed, TensorType.INT8, TensorType.INT4)))


@EXAMPLES
@given(SEEDS)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (TensorType.FLOAT32, TensorType.INT16),
        (TensorType.INT8, TensorType.INT16),
        (TensorType.INT16, TensorType.INT8),
        (TensorType.INT16, TensorType.INT16),
        (TensorType.INT16, TensorType.INT32),
        (TensorType.INT8, TensorType.INT32),
        (TensorType.INT32, TensorType.INT8),
        (TensorType.INT32, TensorType.INT16),
        (TensorType.INT16, TensorType.FLOAT32),
    ],
)
def test_quantization_to_and_from_int16(source: TensorType, target: TensorType, seed: int) -> None:
    agree(int16_models.requantizing(Draw(seed), source, target))


@EXAMPLES
@given(SEEDS)
def test_softmax_from_int8_to_int16(seed: int) -> None:
    agree(int16_models.softmax_from_int8(seed))


@pytest.mark.parametrize(("scale", "zero_point"), [(2.0**-15, -32768), (2.0**-16, 0)])
def test_softmax_from_int8_writes_one_quantization(scale: float, zero_point: int) -> None:
    model = single(
        BuiltinOperator.SOFTMAX,
        [tensor("in", (1, 4))],
        [tensor("out", (1, 4), scale, zero_point, TensorType.INT16)],
        {"beta": 1.0},
    )
    with pytest.raises(NetworkError, match="must have scale 1/65536 and zero point -32768"):
        load_network(model, NumpyBackend())


def test_scales_of_leaky_relu_are_divided_in_double_precision() -> None:
    # In float32, 22 of these would differ.
    data = np.arange(-32768, 32768, dtype=np.int16).reshape(1, -1)
    model = single(
        BuiltinOperator.LEAKY_RELU,
        [tensor("in", data.shape, 0.00010501677024876699, 0, TensorType.INT16)],
        [tensor("out", data.shape, 9.672272426541895e-05, 0, TensorType.INT16)],
        {"alpha": 0.28778785467147827},
    )
    agree((model, (data,)))


@EXAMPLES
@given(SEEDS)
def test_products_of_matrices(seed: int) -> None:
    draw = Draw(seed)
    rows, depth, columns = (draw.random.randint(1, 9) for _ in range(3))
    batches = draw.random.choice([((), ()), ((3,), (3,)), ((2, 3), (1, 1))])
    adjoint = draw.random.random() < 0.5, draw.random.random() < 0.5
    first = (*batches[0], *((depth, rows) if adjoint[0] else (rows, depth)))
    second = (*batches[1], *((columns, depth) if adjoint[1] else (depth, columns)))
    model = single(
        BuiltinOperator.BATCH_MATMUL,
        [
            draw.activation("one", first, draw.scale(-12, -6)),
            draw.activation("two", second, draw.scale(-12, -6)),
        ],
        [draw.activation("out", (*batches[0], rows, columns), draw.scale(-12, -4))],
        {"adj_x": adjoint[0], "adj_y": adjoint[1]},
    )
    agree((model, (draw.data(first), draw.data(second))))


def test_numbers_of_int32_wrap_with_their_zero_points() -> None:
    data = np.array([-(1 << 31), (1 << 31) - 1, 0], np.int32)
    given = Tensor("in", (3,), TensorType.INT32, Quantization.per_tensor(2.0**-30, 5))
    model = single(BuiltinOperator.QUANTIZE, [given], [tensor("out", (3,), 2.0**-6)])
    agree((model, (data,)))


def test_a_sum_of_int16_wraps_at_32_bits() -> None:
    data = np.full((1, 70_000), 32767, np.int16)
    model = single(
        BuiltinOperator.MEAN,
        [tensor("in", data.shape, 0.5, 0, TensorType.INT16), constant("axis", [1])],
        [tensor("out", (1,), 0.5, 0, TensorType.INT16)],
    )
    agree((model, (data,)))


@pytest.mark.parametrize("code", [BuiltinOperator.LOGISTIC, BuiltinOperator.TANH])
@pytest.mark.parametrize(
    ("scale", "zero", "out_scale", "message"),
    [
        (2.0**-12, 1, 2.0**-15, "tensor 0 has the zero point 1, of int16 must be 0"),
        (2.0**-12, 0, 2.0**-14, "tensor 1 must have scale 1/32768"),
        (2.0**20, 0, 2.0**-15, "the input's scale 1048576.0 is too large for int16"),
    ],
)
def test_sigmoids_have_one_quantization(
    code: int, scale: float, zero: int, out_scale: float, message: str
) -> None:
    model = single(
        code,
        [tensor("in", (4,), scale, zero, TensorType.INT16)],
        [tensor("out", (4,), out_scale, 0, TensorType.INT16)],
    )
    with pytest.raises(NetworkError, match=message):
        load_network(model, NumpyBackend())


def test_a_bias_of_32_bits_is_none_of_a_transposed_convolution_of_int16() -> None:
    unit = Quantization.per_tensor(1.0, 0)
    model = single(
        BuiltinOperator.TRANSPOSE_CONV,
        [
            constant("shape", (1, 2, 2, 1)),
            constant("weights", np.ones((1, 1, 1, 1)), np.int8, unit),
            tensor("in", (1, 2, 2, 1), kind=TensorType.INT16),
            constant("bias", [1], np.int32, unit),
        ],
        [tensor("out", (1, 2, 2, 1), kind=TensorType.INT16)],
        {"padding": 0, "stride_h": 1, "stride_w": 1},
    )
    with pytest.raises(NetworkError, match=r"input 3 \(tensor 3\) is INT32, must be INT64 or INT16"):
        load_network(model, NumpyBackend())
