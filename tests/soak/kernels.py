"""Random networks on every kernel backend that is installed, beside TensorFlow Lite Micro: every byte.

Every thousandth network is one of the models that plain loops take seconds for, on the backend `reference`.
"""

from collections import Counter
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.backend import KernelBackend
from aisrv.addons.kernels.backends.registry import SHIPPED, BackendError, find_backend
from aisrv.addons.kernels.network.load import load_network
from aisrv.model import Model
from aisrv.model.dtypes import DTYPES
from aisrv.model.reader import read_model
from tests.soak.check import Check, Figures
from tests.support.models.kernel_backends import LARGE
from tests.support.models.one_operator import tflm
from tests.support.models.random_networks import drawn_network
from tests.support.peers import mlperf_tiny, tflite_micro_models

_LARGE_EVERY: Final = 1000


def check_kernels(size: int, seed: int) -> Figures:
    """Compare so many networks; AssertionError names the number of one that differs."""
    backends = _installed()
    counts: Counter[str] = Counter()
    for number in range(seed << 32, (seed << 32) + size):
        file, data = drawn_network(number)
        model = read_model(file)
        expected = tflm(file, data, outputs=len(model.outputs))
        for name, backend in backends.items():
            assert _outputs(file, data, backend) == expected, f"network {number} on {name}"
        counts.update(operator.name for operator in model.operators)
    for number in range(size // _LARGE_EVERY):
        _compare_large(LARGE[number % len(LARGE)], (seed << 32) + number)
        counts["large models"] += 1
    return {"backends": ", ".join(backends), "operators": sum(counts.values()), **counts}


def _installed() -> dict[str, KernelBackend]:
    found = {}
    for name in SHIPPED:
        try:
            found[name] = find_backend(name)
        except BackendError:
            continue
    return found


def _outputs(file: bytes, data: npt.NDArray[Any], backend: KernelBackend) -> list[bytes]:
    network = load_network(file, backend)
    network.inputs[0][:] = memoryview(data.tobytes()).cast("b")
    network.invoke()
    return [bytes(each) for each in network.outputs]


def _compare_large(name: str, seed: int) -> None:
    folder = mlperf_tiny if name in mlperf_tiny.NAMES else tflite_micro_models
    file = folder.model_bytes(name)
    data = _random_input(read_model(file), seed)
    assert _outputs(file, data, find_backend("reference")) == tflm(file, data), f"{name}, input {seed}"


def _random_input(model: Model, seed: int) -> npt.NDArray[Any]:
    (tensor,) = model.input_tensors
    data = np.random.default_rng(seed).bytes(tensor.nbytes)
    return np.frombuffer(data, DTYPES[tensor.type]).reshape(tensor.shape)


def _missing() -> str:
    return "" if find_spec("tflite_micro") else "tflite-micro is not installed"


CHECK: Final = Check(
    "kernels",
    "random networks on every kernel backend, beside TensorFlow Lite Micro",
    "networks",
    10_000,
    4,
    15,
    check_kernels,
    needs=_missing,
)
