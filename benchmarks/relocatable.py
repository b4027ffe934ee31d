"""Models as relocatable code: sizes, how long they take to build, install and run, beside other engines.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.relocatable

Everything runs on one thread and takes turns in one run; a figure is the median, in time of the processor.
Interpreters and models that are not there are left out; the compiler must be there.
"""

import os

# Read when NumPy is loaded: one thread, as the engine's worker has.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import resource
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Final

import numpy as np

from aisrv import digits
from aisrv.addons.kernels.backends.registry import find_backend
from aisrv.addons.kernels.images.build import build_image, static_sizes
from aisrv.addons.kernels.images.report import flash
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE
from aisrv.addons.kernels.relocatable.runtime import Handle, LoadMode, Runtime
from aisrv.model.relocatable.container import Image
from aisrv.model.relocatable.network import Network
from benchmarks.models_of_others import at_hand
from benchmarks.rows import Row
from tests.support.peers import mlperf_tiny

ROUNDS: Final = 15

Run = Callable[[], object]


def run() -> Iterator[Row]:
    """Measure the digits and keyword spotting."""
    yield from _model("digits", digits.model_bytes())
    for model in at_hand(mlperf_tiny, "kws_ref_model").values():
        yield from _model("kws", model)


def _model(name: str, model: bytes) -> Iterator[Row]:
    yield Row(f"{name}: build", 1000 * _median(lambda: build_image(model, name), 3), "ms")
    data = build_image(model, name).image
    image = Image.from_bytes(data)
    sizes = image.sizes
    yield Row(f"{name}: activations", image.context.activations_size, "bytes")
    yield Row(f"{name}: weights", sizes.weights, "bytes")
    yield Row(f"{name}: network and kernels in flash", flash(image), "bytes")
    yield Row(f"{name}: network and kernels in RAM, in place", sizes.xip, "bytes")
    yield Row(f"{name}: network and kernels in RAM, copied", sizes.copy, "bytes")
    yield Row(f"{name}: file", sizes.file, "bytes")
    static = static_sizes(model)
    yield Row(f"{name}: network and kernels in flash, static", static.flash, "bytes")
    yield Row(f"{name}: network and kernels in RAM, static", static.ram, "bytes")
    network = Network.of(image)
    instructions = sum(node.instructions for node in network.nodes)
    yield Row(f"{name}: instructions", instructions, "")
    yield Row(f"{name}: instructions a multiply-accumulate", instructions / network.multiplications, "")
    runtime = Runtime()
    runtime.write_flash(FLASH_BASE, data)
    for mode in LoadMode:

        def install(mode: LoadMode = mode) -> None:
            runtime.destroy(runtime.load_and_create(FLASH_BASE, 0, 0, mode))

        yield Row(f"{name}: install and destroy, {mode.name}", 1000 * _median(install), "ms")
    handle = _instance(runtime)
    yield Row(
        f"{name}: a call that does nothing", 1e6 * _median(lambda: runtime.get_error(handle), 200), "us"
    )
    worker = Runtime(seconds=None)
    worker.write_flash(FLASH_BASE, data)
    other = _instance(worker)
    yield Row(f"{name}: the same without a limit", 1e6 * _median(lambda: worker.get_error(other), 200), "us")
    inputs = [
        np.random.default_rng(1).integers(-128, 128, tensor.bytes, np.int8).tobytes()
        for tensor in network.inputs
    ]
    outputs: list[bytearray | None] = [bytearray(tensor.bytes) for tensor in network.outputs]
    runs: dict[str, Run] = {"relocatable": lambda: runtime.run(handle, inputs, outputs)}
    for backend in ("numpy", "relocatable"):
        loaded = load_network(model, find_backend(backend))
        for buffer, each in zip(loaded.inputs, inputs, strict=True):
            buffer[:] = memoryview(each).cast("b")
        runs[f"kernels:{backend}"] = loaded.invoke
    if find_spec("tflite_micro"):
        from tflite_micro.python.tflite_micro import runtime as tflm

        micro = tflm.Interpreter.from_bytes(model, arena_size=1 << 22)
        details = micro.get_input_details(0)
        micro.set_input(np.frombuffer(inputs[0], details["dtype"]).reshape(details["shape"]), 0)
        runs["tflite-micro"] = micro.invoke
    taken: dict[str, list[float]] = {label: [] for label in runs}
    for _ in range(ROUNDS):
        for label, each_run in runs.items():
            taken[label].append(_seconds(each_run))
    for label, seconds in taken.items():
        median = statistics.median(seconds)
        yield Row(f"{name}: {label}", 1000 * median, "ms")
        yield Row(f"{name}: {label}, a multiply-accumulate", 1e9 * median / network.multiplications, "ns")


def _instance(runtime: Runtime) -> Handle:
    info = runtime.rt_get_info(FLASH_BASE)
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    if not runtime.init(handle, info.weights, runtime.malloc(info.acts_sz)):
        raise RuntimeError(f"init failed: {runtime.get_error(handle)}")
    return handle


def _median(measured: Run, rounds: int = ROUNDS) -> float:
    return statistics.median(_seconds(measured) for _ in range(rounds))


def _seconds(measured: Run) -> float:
    started = _processor_seconds()
    measured()
    return _processor_seconds() - started


def _processor_seconds() -> float:
    """Time of this process and of compilers that it has waited for, which others do not take."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>12.2f} {row.unit}")
