"""Models of TensorFlow Lite Micro on every backend: each tensor and the arena's head beside TFLM's own."""

import functools
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.plan import plan_apart
from aisrv.model.dtypes import DTYPES
from aisrv.model.reader import read_model
from tests.support.models import kernel_backends
from tests.support.models.one_operator import tflm_tensors
from tests.support.oracles.network_runs import run_network
from tests.support.peers import tflite_micro_models

HEADS = {
    "hello_world_int8": 32,
    "keyword_scrambled_8bit": 672,
    "micro_speech_quantized": 5_968,
    "person_detect": 55_296,
    "trained_lstm_int8": 1_536,
}
"""Heads of the arena in bytes that TFLM's `print_allocations` says, scratch included."""

MODELS = [
    pytest.param(name, backend, id=f"{name}-{backend}")
    for name in tflite_micro_models.NAMES
    for backend in kernel_backends.affordable(name)
]


def inputs(model: bytes, seed: int) -> list[npt.NDArray[Any]]:
    chance = Random(seed)
    return [
        np.frombuffer(chance.randbytes(each.nbytes), DTYPES[each.type]).reshape(each.shape)
        for each in read_model(model).input_tensors
    ]


@functools.cache
def of_tflm(name: str, seed: int) -> dict[int, bytes]:
    """What every operator writes, by tensor; a variable has what it has after the run."""
    model = tflite_micro_models.model_bytes(name)
    written = [tensor for operator in read_model(model).operators for tensor in operator.outputs]
    return tflm_tensors(model, inputs(model, seed), written)


@pytest.mark.parametrize(("name", "backend"), MODELS)
def test_every_tensor_equals_that_of_tflm(name: str, backend: str) -> None:
    model = tflite_micro_models.model_bytes(name)
    network = load_network(model, kernel_backends.shipped_backend(backend), planner=plan_apart)
    run_network(network, inputs(model, 1))
    expected = of_tflm(name, 1)
    assert {index: network.tensors[index].buffer.tobytes() for index in expected} == expected


@pytest.mark.parametrize(("name", "backend"), MODELS)
def test_the_output_is_tflms_in_an_arena_with_tflms_head(name: str, backend: str) -> None:
    model = tflite_micro_models.model_bytes(name)
    network = load_network(model, kernel_backends.shipped_backend(backend))
    assert network.plan.head == HEADS[name]
    expected = of_tflm(name, 2)
    assert run_network(network, inputs(model, 2)) == [expected[index] for index in network.model.outputs]


def test_an_lstm_of_tensorflow_lite_is_off_by_one_here_and_there() -> None:
    """As the page on engines says of `tflite`, which has kernels of its own for this layer."""
    tflite_runtime = pytest.importorskip("tflite_runtime.interpreter")
    model = tflite_micro_models.model_bytes("trained_lstm_int8")
    index = read_model(model).operators[0].outputs[0]
    for seed in (1, 2, 3):
        interpreter = tflite_runtime.Interpreter(
            model_content=model,
            experimental_op_resolver_type=tflite_runtime.OpResolverType.BUILTIN_REF,
            experimental_preserve_all_tensors=True,
        )
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], inputs(model, seed)[0])
        interpreter.invoke()
        ours = np.frombuffer(of_tflm("trained_lstm_int8", seed)[index], np.int8).astype(int)
        assert set(abs(ours - interpreter.get_tensor(index).ravel()).tolist()) == {0, 1}
