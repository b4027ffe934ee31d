"""Sums that leave 32 bits wrap on every backend, as in TensorFlow Lite Micro: every byte of the output."""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tflite import BuiltinOperator

from aisrv.addons.kernels.backend import kernel_origin
from aisrv.addons.kernels.network.load import load_network
from aisrv.model import TensorType
from aisrv.model.values import Quantization
from tests.support.models.kernel_backends import NAMES, shipped_backend
from tests.support.models.one_operator import constant, random_int8, single, tensor, tflm
from tests.support.models.recurrent_models import lstm, svdf
from tests.support.models.wrapping_models import CODES, wrapping_layer
from tests.support.oracles.network_runs import agree_in_turn, run_network

SEEDS = range(12)


@cache
def expected(name: str, kind: TensorType) -> list[tuple[bytes, npt.NDArray[Any], list[bytes]]]:
    """Layers, their inputs, and TFLM's outputs."""
    layers = [wrapping_layer(name, kind, seed) for seed in SEEDS]
    return [(model, data, tflm(model, data)) for model, data in layers]


@pytest.mark.parametrize("backend", NAMES)
@pytest.mark.parametrize("kind", [TensorType.INT8, TensorType.INT16], ids=["int8", "int16"])
@pytest.mark.parametrize("name", [*CODES])
def test_layers_wrap(name: str, kind: TensorType, backend: str) -> None:
    kernels = shipped_backend(backend)
    for seed, (model, data, outputs) in enumerate(expected(name, kind)):
        assert run_network(load_network(model, kernels), [data]) == outputs, seed


def fully_connected(bias: int, *, weight: int = 1, scale: float = 1.0) -> bytes:
    """One input of int8, one output; the sum is the input's times the weight, and the bias."""
    return single(
        BuiltinOperator.FULLY_CONNECTED,
        [
            tensor("in", (1, 1)),
            constant("weights", [[weight]], np.int8, Quantization.per_tensor(1.0, 0)),
            constant("bias", [bias], np.int32, Quantization.per_tensor(1.0, 0)),
        ],
        [tensor("out", (1, 1), scale)],
    )


@pytest.mark.parametrize("backend", NAMES)
@pytest.mark.parametrize(
    ("bias", "scale", "outputs"),
    [
        # The largest word, and 1 more is the smallest; both are halved.
        ((1 << 31) - 1, 2.0, [127, -128]),
        # Times half of 2**30: 1 stays, 2 and 3 then have bit 31, the sign, and 4 none of 32 bits.
        (0, 2.0**-29, [0, 127, -128, -128, 0]),
    ],
)
def test_words_wrap_as_worked_out(bias: int, scale: float, outputs: list[int], backend: str) -> None:
    model = fully_connected(bias, scale=scale)
    network = load_network(model, shipped_backend(backend))
    for value, output in enumerate(outputs):
        data = np.array([[value]], np.int8)
        assert (
            run_network(network, [data]) == tflm(model, data) == [output.to_bytes(1, "little", signed=True)]
        )


def test_only_layers_that_may_wrap_leave_the_native_kernels() -> None:
    native = shipped_backend("native")

    def origin(bias: int, weight: int = 1, scale: float = 1.0) -> str:
        [kernel] = load_network(fully_connected(bias, weight=weight, scale=scale), native).kernels
        return kernel_origin(kernel)

    assert origin(5) == "native"
    # Inputs go up to 127: the last bias whose sums all fit, and the next.
    assert origin((1 << 31) - 1 - 127, scale=2.0) == "native"
    assert origin((1 << 31) - 127, scale=2.0) == "numpy"
    # A channel without weights has one output, whatever its scale does to the bias.
    assert origin(5, weight=0, scale=2.0**-30) == "native"


def test_svdf_with_a_state_of_int16_wraps() -> None:
    for seed in range(4):
        scales = (0.1, 0.02, 2.0**-14, 2.0**-6, (2.0**-9, 2.0**-16)[seed % 2])
        model = svdf(size=7, memory=40, scales=scales, zeros=(3, 0, -5), seed=seed)
        agree_in_turn(model, [[random_int8((1, 7), 10 * seed + run)] for run in range(7)])


def test_lstm_wraps() -> None:
    for seed in range(3):
        model = lstm(weight_scale=2.0**14, seed=seed)
        agree_in_turn(model, [[random_int8((2, 3, 4), seed)]])


@pytest.mark.parametrize("code", [BuiltinOperator.MUL, BuiltinOperator.PRELU, BuiltinOperator.BATCH_MATMUL])
def test_products_wrap(code: int) -> None:
    for seed, scale in enumerate((2.0**-16, 2.0**-20, 2.0**-27)):
        model = single(
            code,
            [tensor("one", (8, 8), 0.7, 3), tensor("two", (8, 8), 1.3, -9)],
            [tensor("out", (8, 8), scale, 5)],
        )
        agree_in_turn(model, [[random_int8((8, 8), seed), random_int8((8, 8), seed + 1)]])


@pytest.mark.parametrize("code", [BuiltinOperator.QUANTIZE, BuiltinOperator.LEAKY_RELU, BuiltinOperator.RELU])
def test_values_wrap(code: int) -> None:
    data = np.arange(-128, 128).astype(np.int8)
    for scale in (2.0**-22, 2.0**-24, 2.0**-30):
        model = single(code, [tensor("in", (256,), 0.8, 3)], [tensor("out", (256,), scale, 5)])
        agree_in_turn(model, [[data]])
