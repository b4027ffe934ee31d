"""Models of MLPerf Tiny: every operator's output, and the arena, beside what TensorFlow Lite Micro has."""

import hashlib
import json
from typing import Any

import pytest

from aisrv import digits
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.plan import plan_apart
from tests.support.models import kernel_backends, networks
from tests.support.models.one_operator import random_int8, tflm_tensors
from tests.support.oracles.network_runs import run_network
from tests.support.peers import mlperf_tiny

HEADS = {
    "ad01_int8": 768,
    "kws_ref_model": 16_000,
    "str_ww_ref_model": 6_656,
    "pretrainedResnet_quant": 49_152,
    "vww_96_int8": 73_728,
}
"""Heads of TFLM's arena in bytes ("The INT8 kernel engine", section Arena plan)."""


EVERY_DAY = ("ad01_int8", "kws_ref_model")
OTHERS_SHOW_IT = pytest.mark.long("the default backend does every day, and each one with two models")
MODELS = [
    pytest.param(
        name,
        backend,
        id=f"{name}-{backend}",
        marks=() if backend == "native" or name in EVERY_DAY else OTHERS_SHOW_IT,
    )
    for name in mlperf_tiny.NAMES
    for backend in kernel_backends.affordable(name)
]


def golden(name: str) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(mlperf_tiny.file("golden_tflm.json").read_text())[f"{name}.tflite"]
    return entry


@pytest.mark.parametrize(("name", "backend"), MODELS)
def test_every_operator_has_the_golden_hash(name: str, backend: str) -> None:
    model, expected = mlperf_tiny.model_bytes(name), golden(name)
    network = load_network(model, kernel_backends.shipped_backend(backend), planner=plan_apart)
    run_network(network, [random_int8(expected["input_shape"], 7)])
    operators = expected["ops_[index,op,out_tensor,shape,sha256_16]"]
    assert [
        [index, operator, tensor, shape, hashlib.sha256(network.tensors[tensor].buffer).hexdigest()[:16]]
        for index, operator, tensor, shape, _ in operators
    ] == operators


@pytest.mark.parametrize(("name", "backend"), MODELS)
def test_arena_that_is_shared_gives_the_same_result_in_the_bytes_that_tflm_needs(
    name: str, backend: str
) -> None:
    model, expected = mlperf_tiny.model_bytes(name), golden(name)
    network = load_network(model, kernel_backends.shipped_backend(backend), arena_bytes=HEADS[name])
    assert network.plan.head == HEADS[name]
    *_, last_hash = expected["ops_[index,op,out_tensor,shape,sha256_16]"][-1]
    for _ in range(2):  # a run leaves nothing behind that would change the next
        (output,) = run_network(network, [random_int8(expected["input_shape"], 7)])
        assert hashlib.sha256(output).hexdigest()[:16] == last_hash


@pytest.mark.parametrize("make", [digits.model_bytes, digits.two_output_model_bytes, networks.mmac_network])
@pytest.mark.parametrize("backend", [name for name in kernel_backends.NAMES if name != "reference"])
def test_every_tensor_equals_that_of_tflm(backend: str, make: Any) -> None:
    model = make()
    network = load_network(model, kernel_backends.shipped_backend(backend), planner=plan_apart)
    data = random_int8(network.model.input_tensors[0].shape, 1)
    run_network(network, [data])
    made = [index for operator in network.model.operators for index in operator.outputs]
    ours = {index: network.tensors[index].buffer.tobytes() for index in made}
    assert ours == tflm_tensors(model, [data], made)
