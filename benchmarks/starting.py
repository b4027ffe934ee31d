"""How long programs take to start: `aisrv exec`, beside what it imports of others, and a pytest fixture.

    python -m benchmarks.starting                     this Python
    python -m benchmarks.starting PYTHON PYTHON       two installations in turns

All programs run in turns, so that other work on the machine counts for each. CPU time is that of the process
and of what it started and waited for; bytecode is compiled beforehand (`make compiled`).
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.rows import Row

ROUNDS: Final = 9
BASE: Final = "python -c 'import trio, click'"
_TESTS: Final = """
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_server(aisrv_server, number):
    assert aisrv_server.id == 0x12345678
"""


def run(pythons: Sequence[str] = (sys.executable,)) -> Iterator[Row]:
    """Measure; half a minute for each Python."""
    with tempfile.TemporaryDirectory() as folder:
        taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(ROUNDS):
            for name, words in _programs(Path(folder)).items():
                for python in pythons:
                    taken.setdefault((name, python), []).append(_run([python, *words], folder))
    for (name, python), times in taken.items():
        where = f"{python}: " if len(pythons) > 1 else ""
        for column, kind in enumerate(("CPU", "wall")):
            median = statistics.median(each[column] for each in times)
            base = statistics.median(each[column] for each in taken[BASE, python])
            yield Row(f"{where}{name}, {kind}", 1000 * median, "ms")
            yield Row(f"{where}{name}, {kind}: beside trio and click", median / base, "times")


def _programs(folder: Path) -> dict[str, list[str]]:
    programs = {
        BASE: ["-c", "import trio, click"],
        "aisrv exec -- true": ["-m", "aisrv", "exec", "--", "true"],
        "aisrv --help": ["-m", "aisrv", "--help"],
    }
    for tests in (1, 40):
        path = folder / f"test_{tests}.py"
        path.write_text(_TESTS.format(tests=tests))
        options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
        programs[f"pytest, tests that use aisrv_server: {tests}"] = ["-m", "pytest", *options, str(path)]
    return programs


def _run(command: Sequence[str], folder: str) -> tuple[float, float]:
    """Run a program; return its CPU time and its time, in seconds."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - started


if __name__ == "__main__":
    for row in run(sys.argv[1:] or [sys.executable]):
        print(f"{row.name:<75} {row.value:>9.2f} {row.unit}")
