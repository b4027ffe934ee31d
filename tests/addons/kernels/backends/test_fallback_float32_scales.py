"""Products of scales: in double precision as the pinned TensorFlow Lite Micro has them, or in float32.

The second is compared with tflite-runtime, which multiplies so, where both have the operator.
"""

from typing import Any

import numpy as np
import pytest

from aisrv.addons.kernels.backends.registry import ASSUME_ALIGNED, FLOAT32_SCALES, find_backend
from aisrv.addons.kernels.network.load import load_network
from aisrv.model import TensorType
from aisrv.protocol.engine_kind import EngineKind
from tests.support.models import kernel_backends, networks, scale_models
from tests.support.models.one_operator import random_int8, tflm, tflm_tensors
from tests.support.models.recurrent_models import lstm
from tests.support.oracles.network_runs import run_network
from tests.support.peers import mlperf_tiny

BOTH = {
    "FULLY_CONNECTED int8": lambda: scale_models.fully_connected(TensorType.INT8),
    "FULLY_CONNECTED int16": lambda: scale_models.fully_connected(TensorType.INT16),
    "BATCH_MATMUL": scale_models.batch_matmul,
}
MODELS = {**BOTH, "SVDF": scale_models.svdf}

LSTM_SEEDS = (43, 130, 200, 237)
"""Seeds of layers in which a cell shows how scales are multiplied: about one in 70 does."""


def outputs(model: bytes, data: list[Any], name: str) -> list[bytes]:
    kernel_backends.shipped_backend(name.partition("+")[0])
    return run_network(load_network(model, find_backend(name)), data)


@pytest.mark.parametrize("name", kernel_backends.NAMES)
@pytest.mark.parametrize("kind", [*MODELS])
def test_scales_are_multiplied_as_in_the_pinned_tflm(kind: str, name: str) -> None:
    model, data = MODELS[kind]()
    assert outputs(model, data, name) == tflm(model, *data)


@pytest.mark.parametrize("name", kernel_backends.NAMES)
@pytest.mark.parametrize("kind", [*BOTH])
def test_scales_in_float32_are_those_of_tensorflow_lite(kind: str, name: str) -> None:
    pytest.importorskip("tflite_runtime.interpreter")
    model, data = BOTH[kind]()
    theirs = networks.run(model, *(values.tobytes() for values in data))
    assert outputs(model, data, name + FLOAT32_SCALES) == theirs
    assert outputs(model, data, name) != theirs


def test_scales_of_svdf_in_float32_make_other_outputs() -> None:
    model, data = scale_models.svdf()
    today, before = (
        np.frombuffer(outputs(model, data, name)[0], np.int8) for name in ("numpy", "numpy+float32-scales")
    )
    assert set((today.astype(int) - before).tolist()) in ({0, 1}, {-1, 0})


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize("seed", LSTM_SEEDS)
def test_cells_of_an_lstm_have_the_scales_of_the_pinned_tflm(seed: int, name: str) -> None:
    model = lstm(
        batch=1, steps=3, size=2, units=60, scales=(0.2, 0.005), cell_bits=15, weight_scale=0.002, seed=seed
    )
    data = random_int8((1, 3, 2), seed)

    def cells(backend: str) -> tuple[int, bytes]:
        kernel_backends.shipped_backend(name)
        network = load_network(model, find_backend(backend))
        run_network(network, [data])
        state = network.operators[0].inputs[-1]
        return state.tensor.index, state.buffer.tobytes()

    index, found = cells(name)
    assert tflm_tensors(model, [data], [index]) == {index: found}
    assert cells(name + FLOAT32_SCALES) != (index, found)


@pytest.mark.parametrize("name", ["numpy", "native+threads=2"])
def test_the_policy_goes_with_the_other_ones(name: str) -> None:
    model, data = scale_models.fully_connected(TensorType.INT8)
    expected = outputs(model, data, "numpy+float32-scales")
    assert outputs(model, data, name + FLOAT32_SCALES + ASSUME_ALIGNED) == expected
    assert EngineKind.parse(f"kernels:{name}{FLOAT32_SCALES}").options["backend"] == name + FLOAT32_SCALES


def test_kernels_are_those_of_the_backend() -> None:
    kernel_backends.shipped_backend("native")
    data = mlperf_tiny.model_bytes("kws_ref_model")
    with_policy = load_network(data, find_backend("native+float32-scales"))
    assert len(with_policy.kernels) == len(load_network(data, find_backend("native")).kernels) == 1
