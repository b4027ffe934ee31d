"""How fast operators are beside tflite-micro's: CPU time of a run of each, and the ratio.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.operators

Both take turns in one run; a figure is the least of a few rounds, in time of this process, so that other work
on the machine counts little. Without the library of native kernels, convolutions run on NumPy's.
"""

import os

# Read when NumPy is loaded: one thread, as the engine's worker has.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tflite import BuiltinOperator as B
from tflite import Padding, TensorType
from tflite_micro.python.tflite_micro import runtime

from aisrv.addons.kernels.backends.registry import default_backend, find_backend
from aisrv.addons.kernels.network.load import load_network
from aisrv.model.dtypes import DTYPES
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from benchmarks.rows import Row
from tests.support.models.convolution_models import transposed
from tests.support.models.one_operator import constant, single, tensor
from tests.support.models.recurrent_models import lstm, svdf

ROUNDS: Final = 5
ROUND_SECONDS: Final = 0.03
ARENA_BYTES: Final = 1 << 23
PICTURE: Final = (1, 48, 48, 32)


def run() -> Iterator[Row]:
    """Measure; about ten seconds."""
    for name, model in _models().items():
        theirs, ours = _runs(model)
        rounds = [(_seconds(theirs), _seconds(ours)) for _ in range(ROUNDS)]
        micro, kernels = (min(each) * 1e6 for each in zip(*rounds, strict=True))
        yield Row(f"{name}: tflite-micro", micro, "us")
        yield Row(f"{name}: kernels", kernels, "us")
        yield Row(f"{name}: faster by", micro / kernels, "")


def _models() -> dict[str, bytes]:
    """Operators on 48 by 48 pixels of 32 channels, where nothing else is told."""
    one, two, out = tensor("one", PICTURE, 0.1), tensor("two", PICTURE, 0.1), tensor("out", PICTURE, 0.9)
    return {
        "TRANSPOSE_CONV, from 24 by 24, 3 by 3 taps": transposed(
            np.random.default_rng(0), (24, 24, 32), (3, 3), (2, 2), Padding.SAME, 32
        ),
        "RESIZE_BILINEAR to 96 by 96": single(
            B.RESIZE_BILINEAR,
            [one, constant("size", [96, 96])],
            [tensor("out", (1, 96, 96, 32))],
            {"half_pixel_centers": True},
        ),
        "RELU": single(B.RELU, [one], [out]),
        "PRELU": single(B.PRELU, [one, tensor("slopes", (1, 1, 32), 0.1)], [out]),
        "MAXIMUM": single(B.MAXIMUM, [one, two], [out]),
        "LESS": single(B.LESS, [one, two], [tensor("out", PICTURE, kind=TensorType.BOOL)]),
        "SQUARED_DIFFERENCE": single(B.SQUARED_DIFFERENCE, [one, two], [out]),
        "SUM over pixels": single(B.SUM, [one, constant("axes", [1, 2])], [tensor("out", (1, 32), 0.1)]),
        "SPACE_TO_DEPTH": single(
            B.SPACE_TO_DEPTH, [one], [tensor("out", (1, 24, 24, 128))], {"block_size": 2}
        ),
        "BATCH_MATMUL, 4 of 64 by 64": single(
            B.BATCH_MATMUL,
            [tensor("one", (4, 64, 64), 0.1), tensor("two", (4, 64, 64), 0.1)],
            [tensor("out", (4, 64, 64), 0.9)],
            {"adj_x": False},
        ),
        "SVDF, 64 units, 64 inputs, memory of 10": svdf(size=64, units=64, memory=10),
        "LSTM, 32 steps, 32 units, 32 inputs": lstm(batch=1, steps=32, size=32, units=32),
        **_int16_models(),
        **float32_models(),
    }


def _int16_models() -> dict[str, bytes]:
    """Operators of int16 with weights of int8."""

    def of_int16(name: str, shape: tuple[int, ...], scale: float = 2.0**-15) -> Tensor:
        return tensor(name, shape, scale, 0, TensorType.INT16)

    def weights(*shape: int) -> Tensor:
        values = np.random.default_rng(0).normal(0, 30, shape).round().clip(-127, 127)
        return constant("weights", values, np.int8, Quantization.per_tensor(2.0**-9, 0))

    window = {"padding": Padding.SAME, "stride_h": 1, "stride_w": 1}
    one, out = of_int16("one", PICTURE), of_int16("out", PICTURE)
    row, outputs = of_int16("one", (1, 512)), of_int16("out", (1, 128))
    return {
        "CONV_2D of int16, 3 by 3 taps": single(B.CONV_2D, [one, weights(32, 3, 3, 32)], [out], window),
        "DEPTHWISE_CONV_2D of int16, 3 by 3 taps": single(
            B.DEPTHWISE_CONV_2D, [one, weights(1, 3, 3, 32)], [out], window | {"depth_multiplier": 1}
        ),
        "FULLY_CONNECTED of int16, 512 to 128": single(
            B.FULLY_CONNECTED, [row, weights(128, 512)], [outputs]
        ),
        "ADD of int16": single(B.ADD, [one, of_int16("two", PICTURE)], [out]),
        "MUL of int16": single(B.MUL, [one, of_int16("two", PICTURE)], [out]),
        "AVERAGE_POOL_2D of int16, 3 by 3": single(
            B.AVERAGE_POOL_2D, [one], [out], window | {"filter_height": 3, "filter_width": 3}
        ),
        "SOFTMAX of int16, 48 by 1,024": single(
            B.SOFTMAX, [of_int16("one", (48, 1024))], [of_int16("out", (48, 1024))], {"beta": 1.0}
        ),
    }


def float32_models() -> dict[str, bytes]:
    """Operators of float32, from 48 by 48 pixels of 32 channels, or to them, where nothing else is told."""

    def floats(name: str, *shape: int) -> Tensor:
        return tensor(name, shape, kind=TensorType.FLOAT32)

    def weights(*shape: int) -> Tensor:
        return constant("weights", np.random.default_rng(0).normal(size=shape), np.float32)

    window = {"padding": Padding.SAME, "stride_h": 1, "stride_w": 1}
    one, out = floats("one", *PICTURE), floats("out", *PICTURE)
    bias = constant("bias", np.ones(32), np.float32)
    half, means = floats("half", 1, 24, 24, 32), floats("means", 1, 32)
    return {
        "CONV_2D of float32, 3 by 3 taps": single(
            B.CONV_2D, [one, weights(32, 3, 3, 32), bias], [out], window
        ),
        "CONV_2D of float32, 1 by 1": single(B.CONV_2D, [one, weights(32, 1, 1, 32), bias], [out], window),
        "DEPTHWISE_CONV_2D of float32, 3 by 3 taps": single(
            B.DEPTHWISE_CONV_2D, [one, weights(1, 3, 3, 32), bias], [out], window | {"depth_multiplier": 1}
        ),
        "TRANSPOSE_CONV of float32, from 24 by 24, 3 by 3 taps": single(
            B.TRANSPOSE_CONV,
            [constant("shape", PICTURE), weights(32, 3, 3, 32), half, bias],
            [out],
            {"padding": Padding.SAME, "stride_h": 2, "stride_w": 2},
        ),
        "FULLY_CONNECTED of float32, 512 to 128": single(
            B.FULLY_CONNECTED, [floats("row", 1, 512), weights(128, 512)], [floats("out", 1, 128)]
        ),
        "ADD of float32": single(B.ADD, [one, floats("two", *PICTURE)], [out]),
        "SUB of float32": single(B.SUB, [one, floats("two", *PICTURE)], [out]),
        "MUL of float32": single(B.MUL, [one, floats("two", *PICTURE)], [out]),
        "MEAN of float32 over pixels": single(B.MEAN, [one, constant("axes", [1, 2])], [means]),
        "MEAN of float32 over channels": single(
            B.MEAN, [one, constant("axes", [3])], [floats("means", *PICTURE[:3])]
        ),
        "LOGISTIC of float32": single(B.LOGISTIC, [one], [out]),
        "TANH of float32": single(B.TANH, [one], [out]),
        "AVERAGE_POOL_2D of float32, 3 by 3": single(
            B.AVERAGE_POOL_2D, [one], [out], window | {"filter_height": 3, "filter_width": 3}
        ),
        "MAX_POOL_2D of float32, 3 by 3": single(
            B.MAX_POOL_2D, [one], [out], window | {"filter_height": 3, "filter_width": 3}
        ),
        "SOFTMAX of float32, 48 by 1,024": single(
            B.SOFTMAX, [floats("one", 48, 1024)], [floats("out", 48, 1024)], {"beta": 1.0}
        ),
    }


def _runs(model: bytes) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One run in each of both, of the same inputs."""
    interpreter = runtime.Interpreter.from_bytes(model, arena_size=ARENA_BYTES)
    network = load_network(model, find_backend(default_backend()))
    for number, data in enumerate(_inputs(model)):
        interpreter.set_input(data, number)
        network.inputs[number][:] = memoryview(data.tobytes()).cast("b")
    return interpreter.invoke, network.invoke


def _inputs(model: bytes) -> list[npt.NDArray[Any]]:
    random = np.random.default_rng(0)
    return [
        random.integers(-128, 128, each.shape).astype(DTYPES[each.type])
        for each in read_model(model).input_tensors
    ]


def _seconds(function: Callable[[], Any]) -> float:
    function()
    runs, begin = 0, time.process_time()
    while time.process_time() - begin < ROUND_SECONDS:
        function()
        runs += 1
    return (time.process_time() - begin) / runs


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>12.2f} {row.unit}", flush=True)
