"""How fast models of float32 run on the native kernels, beside NumPy's, tflite-micro and XNNPACK.

    python -m benchmarks.floats [MODEL.tflite ...]

Everything runs on one thread and takes turns in one run; a figure is the median of many runs, in CPU time of
the thread. The digits' network before its quantization is there always. The last rows of a model say how many
of its outputs have other bits than tflite-micro's, over some random inputs.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from tflite_micro.python.tflite_micro import runtime

from aisrv import digits
from aisrv.kernels.network.load import load_network
from aisrv.kernels.network.network import Network
from benchmarks.kernels import BACKENDS, XNNPACK, Run, medians, xnnpack
from benchmarks.rows import Row

INPUTS: Final = 5
ARENA_BYTES: Final = 1 << 23


def run(files: tuple[Path, ...] = ()) -> Iterator[Row]:
    """Measure; a few seconds for each model."""
    models = {"digits": digits.float_model_bytes()} | {path.stem: path.read_bytes() for path in files}
    for name, model in models.items():
        yield from _model(name, model)


def _model(name: str, model: bytes) -> Iterator[Row]:
    networks = {
        backend: load_network(model, create()) for backend, create in BACKENDS.items() if backend != "numba"
    }
    interpreter = runtime.Interpreter.from_bytes(model, arena_size=ARENA_BYTES)
    shape = interpreter.get_input_details(0)["shape"]
    different = dict.fromkeys(networks, 0)
    data = np.empty(shape, np.float32)
    for seed in range(INPUTS):
        data = np.random.default_rng(seed).random(shape).astype(np.float32)
        interpreter.set_input(data, 0)
        interpreter.invoke()
        expected = interpreter.get_output(0).ravel().view(np.uint32)
        for backend, network in networks.items():
            different[backend] += int((_bits(network, data) != expected).sum())
    runs: dict[str, Run] = {backend: network.invoke for backend, network in networks.items()}
    runs["tflite-micro"] = interpreter.invoke
    runs[XNNPACK] = xnnpack(model, [data.tobytes()])
    times = medians(runs)
    for engine, seconds in times.items():
        yield Row(f"{name}: run, {engine}", seconds * 1e6, "us")
    for backend, count in different.items():
        yield Row(f"{name}: {backend} over {XNNPACK}", times[XNNPACK] / times[backend], "times")
        yield Row(f"{name}: {backend}, outputs that differ from tflite-micro's", count, "")


def _bits(
    network: Network, data: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    network.inputs[0][:] = memoryview(data.tobytes()).cast("b")
    network.invoke()
    return np.frombuffer(network.outputs[0], np.uint32)


if __name__ == "__main__":
    for row in run(tuple(map(Path, sys.argv[1:]))):
        print(f"{row.name:<75} {row.value:>12.2f} {row.unit}", flush=True)
