"""Runs of programs under checkers, and the module `Pyxsim` by which XMOS's tests know all this."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, Protocol

import trio
from msgspec import structs

from aisrv.addons.firmware.confinement import Rights
from aisrv.addons.firmware.pyxsim import testers
from aisrv.addons.firmware.pyxsim.bench import Bench, Checker
from aisrv.addons.firmware.pyxsim.sim_thread import SimThread, Xsi
from aisrv.addons.firmware.tile_process import ProcessSettings
from aisrv.addons.firmware.toolchain import write_toolchain
from aisrv.addons.firmware.whole_program import RunSettings, run_whole_programs
from aisrv.values.regular_file import read_regular
from aisrv.xcore.node import Node

UNITS: Final = {"ps": 10_000, "fs": 10_000_000}
"""Units of the checkers' time in a tick of 10 ns: picoseconds before test_support 2.0, femtoseconds since."""

WEAK: Final = "--weak-external-drive"
"""Argument of xsim: what checkers drive loses against what the device drives."""

EXIT_TICKS: Final = 1_000
"""What `exit` takes until the simulation ends: checkers look at the last bits meanwhile. Estimate: 750
instructions of the C library, of a core among eight."""
_PROCESS: Final = ProcessSettings(cpu_limit=0.05, cpu_limit_halts=True, exit_ticks=EXIT_TICKS)
"""Cores that only burn instructions, as tests have them to load a tile, halt soon: code takes no time."""
_SANITIZER: Final = b"__asan_init"
"""In a program that AddressSanitizer watches."""


def run_under_checkers(
    program: Path,
    checkers: Sequence[Checker],
    units_in_tick: int,
    *,
    is_weak: bool,
    device_time: bool,
    seconds: float,
) -> None:
    """Run the program of tile 0 under checkers until it ends, or they end it.

    It reads and writes files below the current folder alone. In `device_time` its verbs take the time that
    they take on the chip. Says on stderr where neither is so within so many seconds of this machine.
    Raises TestError where a checker fails, the program is lost, or a core traps; any code that it gives is
    taken.
    """

    async def bench(node: Node, *, task_status: trio.TaskStatus[None]) -> None:
        bench = Bench(node, units_in_tick, is_weak=is_weak)
        reason = await bench.run(checkers, seconds, task_status=task_status)
        if reason is not None:
            sys.stderr.write(f"{reason}\n")
        node.stop()

    rights = Rights((Path(),), (Path(),), has_sanitizer=_SANITIZER in read_regular(program))
    processes = {0: structs.replace(_PROCESS, rights=rights)}
    settings = RunSettings(processes, takes_chip_time=device_time, has_checkers=True)
    if run_whole_programs({0: program}, settings, outside=[bench]):
        raise testers.TestError(f"{program} was lost, or a core trapped: the log says how")


def cmake_build(directory: str, bin_child: str = "", env: Mapping[str, object] | None = None) -> None:
    """Build a program with CMake into `bin/`, from the project above that folder of its path.

    Raises TestError where it fails.
    """
    parts = Path(directory).resolve().parts
    if "bin" not in parts:
        raise testers.TestError(f"{directory}: the path of a program has a folder bin, in its project's")
    project = Path(*parts[: parts.index("bin")])
    build = f"bin/{bin_child}"
    variables = {name: str(value) for name, value in (env or {}).items()}
    for command in (
        ["cmake", "-B", build, f"-DCMAKE_TOOLCHAIN_FILE={write_toolchain()}"],
        ["cmake", "--build", build],
    ):
        done = subprocess.run(command, cwd=project, env={**os.environ, **variables}, check=False)
        if done.returncode:
            raise testers.TestError(f"{' '.join(command)} in {project} ended with {done.returncode}")


class Capture(Protocol):
    """pytest's `capfd`."""

    def readouterr(self) -> "Captured":
        """Return what was printed since."""


class Captured(Protocol):
    """What was printed."""

    @property
    def out(self) -> str:
        """What went to stdout."""


class Tester(Protocol):
    """A tester, which compares output with what is expected."""

    def run(self, output: Sequence[str]) -> bool | None:
        """Compare."""


class Runs:
    """What XMOS's tests call, under their names; `unit` is that of the checkers' times, "ps" or "fs"."""

    def __init__(self, unit: str, *, device_time: bool = False) -> None:
        self._units_in_tick = UNITS[unit]
        self._device_time = device_time

    def run_with_pyxsim(
        self,
        xe_path: str,
        simthreads: Sequence[Checker] = (),
        simargs: Sequence[str] = (),
        appargs: Sequence[str] = (),  # noqa: ARG002 - as XMOS's tests call it
        timeout: float = 600,
    ) -> None:
        """Run a program under checkers. Of xsim's arguments `--weak-external-drive` counts."""
        run_under_checkers(
            Path(xe_path),
            simthreads,
            self._units_in_tick,
            is_weak=WEAK in simargs,
            device_time=self._device_time,
            seconds=timeout,
        )

    def run_on_simulator_(
        self,
        xe: str,
        tester: Tester | None = None,
        simthreads: Sequence[Checker] = (),
        simargs: Sequence[str] = (),
        capfd: Capture | None = None,
        timeout: float = 600,
    ) -> bool | None:
        """Run a program under checkers, and its output through a tester, where pytest's `capfd` is given."""
        self.run_with_pyxsim(xe, simthreads, simargs, timeout=timeout)
        if tester is None or capfd is None:
            return True
        return tester.run([line for line in capfd.readouterr().out.split("\n") if line])


def pyxsim_module(unit: str, *, device_time: bool = False) -> ModuleType:
    """Return the module `Pyxsim`, for checkers whose times are in `unit`, "ps" or "fs"."""
    runs = Runs(unit, device_time=device_time)
    module = ModuleType("Pyxsim", __doc__)
    inner = ModuleType("Pyxsim.pyxsim", __doc__)
    inner.__dict__.update(Xsi=Xsi)
    module.__dict__.update(
        SimThread=SimThread,
        testers=testers,
        pyxsim=inner,
        cmake_build=cmake_build,
        run_with_pyxsim=runs.run_with_pyxsim,
        run_on_simulator_=runs.run_on_simulator_,
    )
    return module
