"""How fast the kernel engine runs whole models, beside the interpreters that it agrees with.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.kernels

Everything runs on one thread and takes turns in one run; a figure is the median of many runs. Interpreters
that are not installed, and models that are not there, are left out. The reference backend is not measured:
it is made to be read.
"""

import os

# Read when NumPy is loaded: one thread, as the engine's worker has.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import math
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Final

import numpy as np
from tflite import BuiltinOperator, TensorType

from aisrv import digits
from aisrv.kernels.backend import KernelBackend
from aisrv.kernels.backends.registry import find_backend
from aisrv.kernels.graph.graph import Graph
from aisrv.kernels.graph.load import load_graph
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator, constant_tensor
from benchmarks.rows import Row
from tests.support import mlperf_tiny, networks

ROUNDS: Final = 15
ROUND_SECONDS: Final = 0.03
"""How long an engine runs in a round, at least once."""
BACKENDS: Final = ("numpy", "numba") if find_spec("numba") else ("numpy",)
INTERPRETERS: Final = ("tflite-micro", "tflite-runtime reference", "tflite-runtime optimized")
TINY_OPERATORS: Final = 50

Run = Callable[[], object]


def _models() -> Iterator[tuple[str, bytes]]:
    yield "digits", digits.model_bytes()
    for name in mlperf_tiny.NAMES:
        path = mlperf_tiny.folder() / f"{name}.tflite"
        if path.exists():
            yield name, path.read_bytes()
    yield "50 MMAC", networks.mmac_network()


def _filled(model: bytes, backend: KernelBackend) -> tuple[Graph, list[bytes]]:
    graph = load_graph(model, backend)
    chance = np.random.default_rng(1)
    data = [chance.integers(-128, 128, len(each), np.int8).tobytes() for each in graph.inputs]
    for buffer, each in zip(graph.inputs, data, strict=True):
        buffer[:] = memoryview(each).cast("b")
    return graph, data


def _interpreters(model: bytes, data: list[bytes]) -> Iterator[tuple[str, Run]]:
    if find_spec("tflite_micro"):
        from tflite_micro.python.tflite_micro import runtime

        micro = runtime.Interpreter.from_bytes(model, arena_size=1 << 22)
        for index, each in enumerate(data):
            details = micro.get_input_details(index)
            micro.set_input(np.frombuffer(each, details["dtype"]).reshape(details["shape"]), index)
        yield INTERPRETERS[0], micro.invoke
    if find_spec("tflite_runtime"):
        from tflite_runtime.interpreter import Interpreter, OpResolverType

        resolvers = (OpResolverType.BUILTIN_REF, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
        for name, resolver in zip(INTERPRETERS[1:], resolvers, strict=True):
            interpreter: Any = Interpreter(
                model_content=model, num_threads=1, experimental_op_resolver_type=resolver
            )
            interpreter.allocate_tensors()
            for details, each in zip(interpreter.get_input_details(), data, strict=True):
                array = np.frombuffer(each, details["dtype"]).reshape(details["shape"])
                interpreter.set_tensor(details["index"], array)
            yield name, interpreter.invoke


def _medians(engines: dict[str, Run]) -> dict[str, float]:
    """Seconds of a run of each engine; they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for run in engines.values():
        run()
    for _ in range(ROUNDS):
        for name, run in engines.items():
            until = time.perf_counter() + ROUND_SECONDS
            start = time.perf_counter()
            while start < until:
                run()
                end = time.perf_counter()
                seconds[name].append(end - start)
                start = end
    return {name: statistics.median(each) for name, each in seconds.items()}


def _model(name: str, model: bytes) -> tuple[list[Row], dict[str, float]]:
    engines: dict[str, Run] = {}
    rows: list[Row] = []
    data: list[bytes] = []
    for backend in BACKENDS:
        loads = []
        for _ in range(5):
            start = time.perf_counter()
            graph, data = _filled(model, find_backend(backend))
            loads.append(time.perf_counter() - start)
        rows.append(Row(f"{name}: load, {backend}", statistics.median(loads) * 1e3, "ms"))
        engines[backend] = graph.invoke
    engines |= dict(_interpreters(model, data))
    medians = _medians(engines)
    rows += [Row(f"{name}: run, {engine}", seconds * 1e6, "us") for engine, seconds in medians.items()]
    return rows, medians


def _means(medians: list[dict[str, float]]) -> Iterator[Row]:
    for backend in BACKENDS:
        for other in INTERPRETERS:
            if other in medians[0]:
                ratio = statistics.fmean(math.log(each[other] / each[backend]) for each in medians)
                yield Row(f"geometric mean: {backend} over {other}", math.exp(ratio), "times")


def _tiny(code: int) -> bytes:
    """A chain of operators over four values."""
    scale = Quantization.per_tensor(1.0 if code == BuiltinOperator.ADD else 1 / 256, -128)
    weights = constant_tensor("weights", np.eye(4, dtype=np.int8), Quantization.per_tensor(1.0, 0))
    values = [Tensor(f"v{i}", (1, 4), TensorType.INT8, scale) for i in range(TINY_OPERATORS + 1)]
    operators = []
    for first, second in pairwise(values):
        inputs: tuple[str, ...] = (first.name,)
        if code == BuiltinOperator.ADD:
            inputs = (first.name, first.name)
        elif code == BuiltinOperator.FULLY_CONNECTED:
            inputs = (first.name, "weights", "")
        options = {"beta": 1.0} if code == BuiltinOperator.SOFTMAX else {}
        operators.append(NetworkOperator(code, inputs, (second.name,), options))
    tensors = (*values, weights) if code == BuiltinOperator.FULLY_CONNECTED else tuple(values)
    return bytes(Network(tensors, tuple(operators), ("v0",), (values[-1].name,)))


def _overheads() -> Iterator[Row]:
    for name in ("ADD", "FULLY_CONNECTED", "SOFTMAX"):
        model = _tiny(getattr(BuiltinOperator, name))
        runs: dict[str, Run] = {each: _filled(model, find_backend(each))[0].invoke for each in BACKENDS}
        for backend, seconds in _medians(runs).items():
            yield Row(f"one {name} of 4 values: {backend}", seconds / TINY_OPERATORS * 1e6, "us")


def run() -> list[Row]:
    """Measure; about half a minute."""
    rows: list[Row] = []
    medians: list[dict[str, float]] = []
    for name, model in _models():
        more, seconds = _model(name, model)
        rows += more
        medians.append(seconds)
    return [*rows, *_means(medians), *_overheads()]


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>10.2f} {row.unit}")
