"""How fast float32 runs on the native kernels, models and operators, beside NumPy, tflite-micro and XNNPACK.

    python -m benchmarks.floats [MODEL.tflite ...]

Everything runs on one thread and takes turns in one run; a figure is the median of many runs, in CPU time of
the thread. The digits' network before its quantization is there always. The last rows of a model say how many
of its outputs have other bits than tflite-micro's, over some random inputs.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from tflite_micro.python.tflite_micro import runtime

from aisrv import digits
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.network import Network
from aisrv.model.reader import read_model
from benchmarks.kernels import BACKENDS, XNNPACK, Run, medians, xnnpack
from benchmarks.operators import float32_models
from benchmarks.rows import Row

Floats: TypeAlias = npt.NDArray[np.float32]

INPUTS: Final = 5
ARENA_BYTES: Final = 1 << 23


def run(files: tuple[Path, ...] = ()) -> Iterator[Row]:
    """Measure; a few seconds for each model and operator."""
    models = {"digits": digits.float_model_bytes()} | {path.stem: path.read_bytes() for path in files}
    for name, model in models.items():
        yield from _model(name, model)
    for name, model in float32_models().items():
        yield from _model(name, model)


def _model(name: str, model: bytes) -> Iterator[Row]:
    networks = {backend: load_network(model, create()) for backend, create in BACKENDS.items()}
    interpreter = runtime.Interpreter.from_bytes(model, arena_size=ARENA_BYTES)
    shapes = [tensor.shape for tensor in read_model(model).input_tensors]
    different = dict.fromkeys(networks, 0)
    data: list[Floats] = []
    for seed in range(INPUTS):
        chance = np.random.default_rng(seed)
        data = [chance.normal(size=shape).astype(np.float32) for shape in shapes]
        for number, values in enumerate(data):
            interpreter.set_input(values, number)
        interpreter.invoke()
        expected = interpreter.get_output(0).ravel().view(np.uint32)
        for backend, network in networks.items():
            different[backend] += int((_bits(network, data) != expected).sum())
    runs: dict[str, Run] = {backend: network.invoke for backend, network in networks.items()}
    runs["tflite-micro"] = interpreter.invoke
    runs[XNNPACK] = xnnpack(model, [values.tobytes() for values in data])
    times = medians(runs)
    for engine, seconds in times.items():
        yield Row(f"{name}: run, {engine}", seconds * 1e6, "us")
    for backend, count in different.items():
        yield Row(f"{name}: {backend} over {XNNPACK}", times[XNNPACK] / times[backend], "times")
        yield Row(f"{name}: {backend}, outputs that differ from tflite-micro's", count, "")


def _bits(network: Network, data: list[Floats]) -> npt.NDArray[np.uint32]:
    for buffer, values in zip(network.inputs, data, strict=True):
        buffer[:] = memoryview(values.tobytes()).cast("b")
    network.invoke()
    return np.frombuffer(network.outputs[0], np.uint32)


if __name__ == "__main__":
    for row in run(tuple(map(Path, sys.argv[1:]))):
        print(f"{row.name:<75} {row.value:>12.2f} {row.unit}", flush=True)
