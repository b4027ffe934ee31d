"""Runs of a network on our kernels beside those of TensorFlow Lite Micro: every byte of every output."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, settings

from aisrv.addons.kernels.backend import KernelBackend
from aisrv.addons.kernels.backends.native.backend import native_backend
from aisrv.addons.kernels.backends.native.library import NativeError
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.network import Network

Inputs = Sequence[npt.NDArray[Any]]

FEW: Final = settings(
    max_examples=25, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
"""Generated cases of one operator: the same at every run."""


def loaded(model: bytes, backend: KernelBackend | None = None) -> Network:
    """The network of a model, on NumPy's kernels where none are given."""
    return load_network(model, backend or NumpyBackend())


def _backends() -> list[KernelBackend]:
    try:
        return [NumpyBackend(), native_backend()]
    except NativeError:
        return [NumpyBackend()]


def run_network(network: Network, inputs: Inputs) -> list[bytes]:
    """The bytes of a network's outputs after a run."""
    for buffer, data in zip(network.inputs, inputs, strict=True):
        buffer[:] = memoryview(np.ascontiguousarray(data).tobytes()).cast("b")
    network.invoke()
    return [buffer.tobytes() for buffer in network.outputs]


def run_tflm(model: bytes, runs: Sequence[Inputs], outputs: int) -> list[list[bytes]]:
    """The bytes of a model's outputs after each run in TensorFlow Lite Micro."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter = runtime.Interpreter.from_bytes(model, arena_size=1 << 20)
    found = []
    for inputs in runs:
        for number, data in enumerate(inputs):
            interpreter.set_input(data, number)
        interpreter.invoke()
        found.append([interpreter.get_output(number).tobytes() for number in range(outputs)])
    return found


def agree(model: bytes, *inputs: npt.NDArray[Any], outputs: int = 1) -> list[bytes]:
    """Run a model once in both; the outputs that both have."""
    return agree_in_turn(model, [inputs], outputs)[0]


def agree_in_turn(model: bytes, runs: Sequence[Inputs], outputs: int = 1) -> list[list[bytes]]:
    """Run a model in both, with one input after the other; the outputs that both have.

    Ours runs on NumPy's kernels, then on the native ones where they are installed.
    """
    expected = run_tflm(model, runs, outputs)
    for backend in _backends():
        network = loaded(model, backend)
        assert [run_network(network, inputs) for inputs in runs] == expected, type(backend).__name__
    return expected
