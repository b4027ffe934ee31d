"""Instructions of a run on ARM, without ARM: native kernels beside XNNPACK, counted under QEMU's user mode.

    make arm                              first: it makes an aarch64 Python with our library
    python -m benchmarks.arm_counts

Counts of instructions say nothing of time: a processor does several at once, and waits for memory. Networks
run in an aarch64 Python on cortex-a53, which has no dot products, and on neoverse-n1, which has them;
XNNPACK is that of ai-edge-litert 2.1.0, the last version whose wheel runs there and computes as on x86-64.
A figure is the difference between two processes that differ in the number of runs alone, so that starting
and loading count nothing. Outputs are checked before: ours equal those on this machine, XNNPACK's are off
by 1 at most.

Needs gcc and, from Debian's package qemu-user, a `qemu-aarch64` that takes plugins. Five minutes.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from benchmarks import kernels
from benchmarks.rows import Row

ROOT: Final = Path(__file__).resolve().parents[1]
ARM: Final = ROOT / "build/arm"
"""What `make arm` keeps: a Python, packages, and the tree with our library."""
LITERT: Final = "ai-edge-litert==2.1.0"
PROCESSORS: Final = {"cortex-a53": "neon", "neoverse-n1": "neondot"}
NETWORKS: Final = ("kws_ref_model", "vww_96_int8", "pretrainedResnet_quant", "50 MMAC")
ENGINES: Final = ("ours", kernels.XNNPACK)
PLUGIN: Final = Path(__file__).with_name("count_instructions.c")
WARM: Final = 3
RUNS: Final = 100
"""Runs of the difference: the start of Python differs by millions of instructions from time to time."""

_WORKER: Final = """
import json, sys
import numpy as np
engine, model, data, runs, outputs = sys.argv[1:]
data = np.load(data)
if engine == "ours":
    from aisrv.addons.kernels.backends.native.backend import native_backend
    from aisrv.addons.kernels.network.load import load_network
    network = load_network(open(model, "rb").read(), native_backend())
    for _ in range(int(runs)):
        network.invoke()
    # Tensors share memory: an input is gone after a run.
    network.inputs[0][:] = memoryview(data.tobytes()).cast("b")
    network.invoke()
    result = np.frombuffer(network.outputs[0], np.int8)
    name = network.kernels[0].team.variant.value
else:
    from ai_edge_litert.interpreter import Interpreter
    interpreter = Interpreter(model_path=model, num_threads=1)
    interpreter.allocate_tensors()
    [details] = interpreter.get_input_details()
    interpreter.set_tensor(details["index"], data.reshape(details["shape"]))
    for _ in range(int(runs)):
        interpreter.invoke()
    result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).reshape(-1)
    name = engine
with open(outputs, "w") as file:
    json.dump([name, result.tolist()], file)
"""


class Emulator:
    """QEMU with the plugin, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plugin = folder / "count.so"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", self._plugin, PLUGIN], check=True)
        program = shutil.which("qemu-aarch64")
        if program is None:
            raise SystemExit("qemu-aarch64 is missing: apt-get install --no-install-recommends qemu-user")
        self._program = program

    def run(self, processor: str, *arguments: str) -> int:
        """Run the aarch64 Python with a program; return how many instructions it took."""
        count = self._folder / "count.txt"
        python = "-L", ARM / "root", ARM / "root/usr/bin/python3.11"
        packages = [ARM / "site", ARM / "litert", ARM / "tree"]
        settings = {
            "PYTHONHOME": str(ARM / "root/usr"),
            "PYTHONPATH": ":".join(map(str, packages)),
            "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": "1",
        }
        counting = "-plugin", self._plugin, "-d", "plugin", "-D", count
        done = subprocess.run(
            [self._program, "-cpu", processor, *counting, *python, "-c", _WORKER, *arguments],
            env=os.environ | settings,
            cwd=ARM / "tree",
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{processor}: exit {done.returncode}\n{done.stderr[-2000:]}")
        return int(count.read_text())


def _install_litert() -> None:
    if (ARM / "litert").exists():
        return
    platforms = [f"manylinux{version}_aarch64" for version in ("2014", "_2_17", "_2_27", "_2_28", "_2_34")]
    chosen = [option for platform in platforms for option in ("--platform", platform)]
    target = "--no-deps", "--only-binary=:all:", "--python-version", "311", "--target", ARM / "litert"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *chosen, *target, LITERT], check=True)


def _expected(model: bytes) -> tuple[npt.NDArray[Any], list[int]]:
    """The input of a network, and its outputs on this machine."""
    network, data = kernels.filled(model, NumpyBackend())
    network.invoke()
    return np.frombuffer(data[0], np.int8), network.outputs[0].tolist()


def run() -> Iterator[Row]:
    """Count."""
    if not (ARM / "tree/aisrv").exists():
        raise SystemExit(f"{ARM} has no aarch64 Python: make arm makes it")
    _install_litert()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        emulator = Emulator(folder)
        for network, model in kernels.models():
            if network not in NETWORKS:
                continue
            data, expected = _expected(model)
            (folder / "model.tflite").write_bytes(model)
            np.save(folder / "data.npy", data)
            for processor, variant in PROCESSORS.items():
                counts = {
                    engine: _count(emulator, folder, processor, (engine, variant), expected)
                    for engine in ENGINES
                }
                title = f"{network}, {processor}"
                for engine, count in counts.items():
                    yield Row(f"{title}: {engine}", count / 1e6, "million instructions")
                ratio = counts["ours"] / counts[kernels.XNNPACK]
                yield Row(f"{title}: ours over {kernels.XNNPACK}'s", ratio, "times")


def _count(
    emulator: Emulator, folder: Path, processor: str, engine: tuple[str, str], expected: list[int]
) -> float:
    """Instructions of a run of an engine, ours by its variant."""
    files = str(folder / "model.tflite"), str(folder / "data.npy")
    outputs = folder / "outputs.json"
    totals = []
    for runs in (WARM, WARM + RUNS):
        totals.append(emulator.run(processor, engine[0], *files, str(runs), str(outputs)))
        name, found = json.loads(outputs.read_text())
        most_off = max(abs(mine - theirs) for mine, theirs in zip(found, expected, strict=True))
        if engine[0] == "ours" and name != engine[1]:
            raise SystemExit(f"{processor} ran {name}, not {engine[1]}")
        if most_off > (engine[0] != "ours"):
            raise SystemExit(f"{processor}: outputs of {engine[0]} are off by {most_off}")
    return (totals[1] - totals[0]) / RUNS


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<60} {row.value:>10.2f} {row.unit}", flush=True)
