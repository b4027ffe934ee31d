"""The native kernels as compilers make them: gcc, clang, and gcc with the source of an earlier commit.

    python -m benchmarks.compilers [COMMIT]

Each build is a tree of its own, compiled by its own setup.py, and runs in a process of its own. All take
turns on each network; a figure is the median of CPU times of the thread, over that of gcc. Outputs must be
equal.
Needs git, gcc and clang; a minute for a build and a variant.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.rows import Row

ROOT: Final = Path(__file__).resolve().parents[1]
ROUNDS: Final = 15
ROUND_SECONDS: Final = 0.02
"""How long a build runs in a round, at least once."""
BASE: Final = "gcc"
PLAIN: Final = "plain"
"""The variant whose convolutions are NumPy's."""

_WORKER: Final = """
import json, sys, time, zlib
import numpy as np
from aisrv.addons.kernels.backends.fallback import Fallback
from aisrv.addons.kernels.backends.native.backend import NativeBackend
from aisrv.addons.kernels.backends.native.library import Variant, load
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
try:
    from aisrv.addons.kernels.network.load import load_network
except ModuleNotFoundError:  # as earlier commits name it
    from aisrv.addons.kernels.graph.load import load_graph as load_network
networks = {}
print(json.dumps([each.value for each in load().variants]), flush=True)
for line in sys.stdin:
    model, variant, repeats = json.loads(line)
    if (model, variant) not in networks:
        backend = Fallback(NativeBackend(Variant(variant)), NumpyBackend())
        network = networks[model, variant] = load_network(open(model, "rb").read(), backend)
        chance = np.random.default_rng(1)
        for buffer in network.inputs:
            buffer[:] = memoryview(chance.integers(-128, 128, len(buffer), np.int8).tobytes()).cast("b")
    network = networks[model, variant]
    start = time.thread_time()
    for _ in range(repeats):
        network.invoke()
    seconds = (time.thread_time() - start) / repeats
    print(json.dumps([seconds, zlib.crc32(b"".join(map(bytes, network.outputs)))]), flush=True)
"""


class Build(NamedTuple):
    """A compiled tree, and the process that runs it."""

    name: str
    process: "subprocess.Popen[str]"
    variants: tuple[str, ...]

    def run(self, model: Path, variant: str, repeats: int) -> tuple[float, int]:
        """Run a network so often; return the CPU seconds of a run and the CRC-32 of its outputs."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(model), variant, repeats]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: the process ended")
        seconds, outputs = json.loads(line)
        return seconds, outputs


def tree(folder: Path, commit: str | None) -> Path:
    """The files of a commit, or those of this tree as they are, in a folder."""
    if commit is None:
        names = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in names.splitlines():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        return folder
    folder.mkdir(parents=True)
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=packed, check=True)
    return folder


def compiled(folder: Path, compiler: str) -> Path:
    """Compile a tree's library with a compiler."""
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder,
        env=os.environ | {"CC": compiler},
        check=True,
    )
    if not list(folder.glob("aisrv/addons/kernels/backends/native/_kernels*.so")):
        raise SystemExit(f"{compiler} made no library")
    return folder


def networks(folder: Path) -> dict[str, Path]:
    """Files of the networks that are measured."""
    from benchmarks import kernels
    from tests.support.peers import mlperf_tiny

    wanted = (*mlperf_tiny.NAMES, *kernels.LARGE)
    found = {name: folder / f"{number}.tflite" for number, name in enumerate(wanted)}
    for name, model in kernels.models():
        if name in found:
            found[name].write_bytes(model)
    return {name: path for name, path in found.items() if path.exists()}


def _rows(builds: list[Build], name: str, model: Path, variant: str) -> Iterator[Row]:
    outputs = {build.run(model, variant, 1)[1] for build in builds}
    if len(outputs) > 1:
        raise SystemExit(f"{name}, {variant}: outputs differ")
    repeats = max(1, round(ROUND_SECONDS / builds[0].run(model, variant, 1)[0]))
    seconds: dict[str, list[float]] = {build.name: [] for build in builds}
    for _ in range(ROUNDS):
        for build in builds:
            seconds[build.name].append(build.run(model, variant, repeats)[0])
    times = {build: statistics.median(each) for build, each in seconds.items()}
    yield Row(f"{name}, {variant}: {BASE}", times[BASE] * 1e6, "us")
    for build in builds[1:]:
        ratio = times[build.name] / times[BASE]
        yield Row(f"{name}, {variant}: time of {build.name} over {BASE}'s", ratio, "times")


def run(commit: str | None = None) -> list[Row]:
    """Measure."""
    trees: dict[str, tuple[str | None, str]] = {BASE: (None, "gcc"), "clang": (None, "clang")}
    if commit is not None:
        trees[f"gcc of {commit}"] = (commit, "gcc")
    if shutil.which("clang") is None:
        del trees["clang"]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        builds = []
        for number, (name, (source, compiler)) in enumerate(trees.items()):
            place = compiled(tree(Path(folder) / str(number), source), compiler)
            process = subprocess.Popen(
                [sys.executable, "-c", _WORKER],
                cwd=place,
                env=os.environ | {"PYTHONPATH": str(place), "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.stdin.close)  # type: ignore[union-attr]  # it is a pipe
            assert process.stdout is not None
            builds.append(Build(name, process, tuple(json.loads(process.stdout.readline()))))
        models = networks(Path(folder))
        return [
            row
            for variant in builds[0].variants
            if variant != PLAIN
            for name, model in models.items()
            for row in _rows([each for each in builds if variant in each.variants], name, model, variant)
        ]


if __name__ == "__main__":
    for row in run(*sys.argv[1:2]):
        print(f"{row.name:<65} {row.value:>10.2f} {row.unit}")
