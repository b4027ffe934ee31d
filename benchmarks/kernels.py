"""How fast the kernel engine runs whole models, beside other interpreters and beside XNNPACK.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.kernels

Everything runs on one thread and takes turns in one run; a figure is the median of many runs, in CPU time of
the thread. The yardstick is what ai-edge-litert does by default: XNNPACK's kernels, which round once, so that
results differ at times. tflite-runtime's default delegates nothing of these models: its optimized kernels are
what it runs. Interpreters that are not installed, and models that are not there, are left out; tflite-micro
and reference kernels do not run pictures of 224 pixels, for which they take seconds. The reference backend is
not measured: it is made to be read.

MobileNets come from `benchmarks.mobilenets`, with random weights. person_detect has biases quantized along a
dimension that they do not have, for which all but TFLM and ours refuse it: these run a copy with 0 there.
"""

import os

# Read when NumPy is loaded: one thread, as the engine's worker has.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import math
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Final

import numpy as np
import tflite
from tflite import BuiltinOperator, TensorType

from aisrv import digits
from aisrv.addons.kernels.backend import KernelBackend
from aisrv.addons.kernels.backends.fallback import Fallback
from aisrv.addons.kernels.backends.native.backend import NativeBackend
from aisrv.addons.kernels.backends.native.library import NativeError, Variant, load
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.network import Network as LoadedNetwork
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator, constant_tensor
from benchmarks import mobilenets
from benchmarks.models_of_others import at_hand
from benchmarks.rows import Row
from tests.support.models import networks
from tests.support.peers import mlperf_tiny, tflite_micro_models

ROUNDS: Final = 15
ROUND_SECONDS: Final = 0.03
"""How long an engine runs in a round, at least once."""
XNNPACK: Final = "XNNPACK"
INTERPRETERS: Final = ("tflite-micro", "tflite-runtime reference", "tflite-runtime optimized")
LARGE: Final = ("MobileNet v1", "MobileNet v2")
YARDSTICK: Final = (*mlperf_tiny.NAMES, "person_detect", *LARGE)
"""The models whose times are compared with XNNPACK's."""
TINY_OPERATORS: Final = 50
_QUANTIZED_DIMENSION: Final = 16
"""The slot of that number in a table of the schema."""

Run = Callable[[], object]


def _backends() -> dict[str, Callable[[], KernelBackend]]:
    """The backends by the names of their rows."""
    backends: dict[str, Callable[[], KernelBackend]] = {"numpy": NumpyBackend}
    try:
        variants = load().variants
    except NativeError:
        return backends
    return {**{f"native {each.value}": native(each) for each in variants}, **backends}


def native(variant: Variant, threads: int = 1) -> Callable[[], KernelBackend]:
    return lambda: Fallback(NativeBackend(variant, threads), NumpyBackend())


BACKENDS: Final = _backends()


def models() -> Iterator[tuple[str, bytes]]:
    yield "digits", digits.model_bytes()
    yield from at_hand(mlperf_tiny, *mlperf_tiny.NAMES).items()
    yield from at_hand(tflite_micro_models, "person_detect").items()
    yield "50 MMAC", networks.mmac_network()
    yield LARGE[0], mobilenets.mobilenet_v1()
    yield LARGE[1], mobilenets.mobilenet_v2()


def filled(model: bytes, backend: KernelBackend) -> tuple[LoadedNetwork, list[bytes]]:
    network = load_network(model, backend)
    chance = np.random.default_rng(1)
    data = [chance.integers(-128, 128, len(each), np.int8).tobytes() for each in network.inputs]
    for buffer, each in zip(network.inputs, data, strict=True):
        buffer[:] = memoryview(each).cast("b")
    return network, data


def _interpreters(name: str, model: bytes, data: list[bytes]) -> Iterator[tuple[str, Run]]:
    if find_spec("ai_edge_litert"):
        from ai_edge_litert.interpreter import Interpreter

        yield (
            XNNPACK,
            _prepared(Interpreter(model_content=_without_stale_dimensions(model), num_threads=1), data),
        )
    if find_spec("tflite_micro") and name not in LARGE:
        from tflite_micro.python.tflite_micro import runtime

        micro = runtime.Interpreter.from_bytes(model, arena_size=1 << 22)
        for index, each in enumerate(data):
            details = micro.get_input_details(index)
            micro.set_input(np.frombuffer(each, details["dtype"]).reshape(details["shape"]), index)
        yield INTERPRETERS[0], micro.invoke
    if find_spec("tflite_runtime"):
        from tflite_runtime.interpreter import Interpreter, OpResolverType

        resolvers = (OpResolverType.BUILTIN_REF, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
        for kind, resolver in zip(INTERPRETERS[1:], resolvers, strict=True):
            if resolver is OpResolverType.BUILTIN_REF and name in LARGE:
                continue
            interpreter: Any = Interpreter(
                model_content=_without_stale_dimensions(model),
                num_threads=1,
                experimental_op_resolver_type=resolver,
            )
            yield kind, _prepared(interpreter, data)


def xnnpack(model: bytes, data: list[bytes]) -> Run:
    """What ai-edge-litert runs by default, on one thread."""
    from ai_edge_litert.interpreter import Interpreter

    return _prepared(Interpreter(model_content=_without_stale_dimensions(model), num_threads=1), data)


def _prepared(interpreter: Any, data: list[bytes]) -> Run:  # noqa: ANN401 (untyped packages)
    interpreter.allocate_tensors()
    for details, each in zip(interpreter.get_input_details(), data, strict=True):
        array = np.frombuffer(each, details["dtype"]).reshape(details["shape"])
        interpreter.set_tensor(details["index"], array)
    run: Run = interpreter.invoke
    return run


def _without_stale_dimensions(model: bytes) -> bytes:
    """A model without dimensions of quantization that its tensors do not have: LiteRT refuses these."""
    changed = bytearray(model)
    subgraph = tflite.Model.GetRootAs(changed, 0).Subgraphs(0)
    for number in range(subgraph.TensorsLength()):
        tensor = subgraph.Tensors(number)
        quantization = tensor.Quantization()
        if quantization is not None and quantization.QuantizedDimension() >= tensor.ShapeLength():
            table = quantization._tab
            offset = table.Offset(_QUANTIZED_DIMENSION)
            if offset:
                struct.pack_into("<i", changed, table.Pos + offset, 0)
    return bytes(changed)


def medians(engines: dict[str, Run]) -> dict[str, float]:
    """CPU seconds of a run of each engine; they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    repeats = {}
    for name, run in engines.items():
        run()
        start = time.perf_counter()
        run()
        repeats[name] = max(1, round(ROUND_SECONDS / (time.perf_counter() - start)))
    for _ in range(ROUNDS):
        for name, run in engines.items():
            start = time.thread_time()
            for _ in range(repeats[name]):
                run()
            seconds[name].append((time.thread_time() - start) / repeats[name])
    return {name: statistics.median(each) for name, each in seconds.items()}


def _model(name: str, model: bytes) -> tuple[list[Row], dict[str, float]]:
    engines: dict[str, Run] = {}
    rows: list[Row] = []
    data: list[bytes] = []
    for backend, create in BACKENDS.items():
        loads = []
        for _ in range(1 if name in LARGE else 5):
            start = time.thread_time()
            network, data = filled(model, create())
            loads.append(time.thread_time() - start)
        rows.append(Row(f"{name}: load, {backend}", statistics.median(loads) * 1e3, "ms"))
        engines[backend] = network.invoke
    engines |= dict(_interpreters(name, model, data))
    times = medians(engines)
    rows += [Row(f"{name}: run, {engine}", seconds * 1e6, "us") for engine, seconds in times.items()]
    if name in YARDSTICK and XNNPACK in times:
        rows += [
            Row(f"{name}: {backend} over {XNNPACK}", times[XNNPACK] / times[backend], "times")
            for backend in BACKENDS
        ]
    return rows, times


def _means(times: dict[str, dict[str, float]]) -> Iterator[Row]:
    """How many times as fast backends are, over what both run; beside XNNPACK over the yardstick's models."""
    for backend in BACKENDS:
        for other in (XNNPACK, *INTERPRETERS):
            ratios = [
                each[other] / each[backend]
                for name, each in times.items()
                if other in each and (other != XNNPACK or name in YARDSTICK)
            ]
            if ratios:
                yield Row(f"geometric mean: {backend} over {other}", geometric_mean(ratios), "times")


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def _threads() -> Iterator[Row]:
    """Wall time on one thread over that on two, turn by turn; a busy machine shows little of it."""
    try:
        variant = load().variants[-1]
    except NativeError:
        return
    for name, model in models():
        if name not in YARDSTICK:
            continue
        alone, together = (filled(model, native(variant, threads)())[0].invoke for threads in (1, 2))
        pairs = [(_wall_time(alone), _wall_time(together)) for _ in range(ROUNDS * 2)]
        ratio = statistics.median(one / two for one, two in pairs)
        yield Row(f"{name}: speed of 2 threads over 1", ratio, "times")


def _wall_time(run: Run) -> float:
    """Seconds of a run, in a row of them."""
    runs, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < ROUND_SECONDS:
        run()
        runs += 1
    return took / runs


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
        runs: dict[str, Run] = {each: filled(model, create())[0].invoke for each, create in BACKENDS.items()}
        for backend, seconds in medians(runs).items():
            yield Row(f"one {name} of 4 values: {backend}", seconds / TINY_OPERATORS * 1e6, "us")


def run() -> list[Row]:
    """Measure; about two minutes."""
    rows: list[Row] = []
    times: dict[str, dict[str, float]] = {}
    for name, model in models():
        more, times[name] = _model(name, model)
        rows += more
    return [*rows, *_means(times), *_threads(), *_overheads()]


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>10.2f} {row.unit}")
