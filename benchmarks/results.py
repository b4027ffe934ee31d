"""What benchmarks found, a file `results/NAME.json` for each: the tables of docs/reference/benchmarks.md."""

import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from aisrv.values.whole_file import write_whole
from benchmarks.rows import Row

FOLDER: Final = Path(__file__).parent / "results"
CPU_INFO: Final = Path("/proc/cpuinfo")
CPU_TIMES: Final = Path("/proc/stat")
MOST_OTHERS: Final = 0.1
"""The share of the processors above which other programs distort what is measured beside them."""

NOT_RUN: Final = {
    "hostile_models": "it counts what hostile models do to a device, which is nothing, or a fault",
    "loads": "it counts what 1,000 loads leave behind, which is nothing, or a fault",
}
"""Benchmarks without a file, and why."""


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one run of a benchmark found."""

    machine: str
    date: str
    """As 2026-11-28, in UTC."""
    commit: str
    """Its hash, cut; `+` behind it where files differed from it. Empty where nobody noted it."""
    beside: str
    """What else the machine did, or how the figures were taken."""
    rows: tuple[Row, ...]


def path_of(name: str) -> Path:
    """Return the path of a benchmark's file."""
    return FOLDER / f"{name}.json"


def read(name: str) -> Result:
    """Read a benchmark's file. Raises OSError, or ValueError with its path."""
    path = path_of(name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Result)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}") from error


def write(name: str, result: Result) -> Path:
    """Write a benchmark's file, whole or not at all; return its path. Raises OSError."""
    path = path_of(name)
    text = msgspec.json.format(msgspec.json.encode(result), indent=1)
    rows = re.sub(rb"\[\s+(\".*?\"),\s+(\S+),\s+(\".*?\")\s+\]", rb"[\1, \2, \3]", text)  # a line each
    write_whole(path, [rows, b"\n"])
    return path


class Watch:
    """How much of the processors other programs take, from its making on."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._busy, self._own = _busy_seconds(), _own_seconds()

    def others(self) -> float | None:
        """Return their share, 0 to 1; None where the system does not tell."""
        busy, passed = _busy_seconds(), time.monotonic() - self._started
        if busy is None or self._busy is None or not passed:
            return None
        others = busy - self._busy - (_own_seconds() - self._own)
        return max(0.0, others / passed / (os.cpu_count() or 1))


def result_of(rows: Iterable[Row], others: float | None) -> Result:
    """Return what was measured here and now."""
    beside = "" if others is None else f"other programs took {others:.0%} of the processors"
    return Result(machine(), f"{datetime.now(UTC):%Y-%m-%d}", commit(), beside, tuple(rows))


def machine() -> str:
    """Name this machine: processors, system, Python."""
    with suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", CPU_INFO.read_text(encoding="utf-8"), re.MULTILINE)
        if found is not None:
            return f"{os.cpu_count()} x {found[1].strip()}, {_system()}"
    return f"{os.cpu_count()} x {platform.machine()}, {_system()}"


def commit() -> str:
    """Return the commit of the checkout, with `+` where files differ; empty without git or a checkout."""
    try:
        head = _git("rev-parse", "--short=10", "HEAD")
        return head + "+" * bool(_git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=FOLDER.parent, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _system() -> str:
    release = ".".join(platform.release().split(".")[:2])
    return f"{platform.system()} {release}, Python {platform.python_version()}"


def _busy_seconds() -> float | None:
    """Seconds that all processors worked, together, since the system started."""
    try:
        first = CPU_TIMES.read_text(encoding="ascii").split("\n", 1)[0].split()
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq = map(int, first[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
