"""The plugin of pytest, in a pytest of its own."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.benches.c_programs import compiled
from tests.support.programs import run_process

CHECK = """
import Pyxsim as px
import pytest
from Pyxsim import SimThread, pyxsim


class Checker(SimThread):
    def __init__(self, answer):
        self._answer = answer

    def run(self):
        xsi: pyxsim.Xsi = self.xsi
        print("begins", xsi.get_time())
        self.wait_until(UNITS * 3)
        print("at", xsi.get_time() / UNITS)


def test_a_program(capfd):
    px.run_with_pyxsim("PROGRAM", simthreads=[Checker(1)])
    px.testers.AssertiveComparisonTester(
        ["begins 0.0", "runs", "at 3.0", "ends"], regexp=False, ordered=True
    ).run(capfd.readouterr().out)


def test_a_program_and_a_tester(capfd):
    tester = px.testers.ComparisonTester(["runs", "ends"])
    assert px.run_on_simulator_("PROGRAM", tester, [], capfd=capfd)
"""
PROGRAM = """
#include <stdio.h>
#include <xcore/hwtimer.h>
int main(void) { puts("runs"); delay_ticks(10); puts("ends"); return 0; }
"""


TELLS_TIME = """
#include <stdio.h>
#include <xcore/hwtimer.h>
#include <xcore/port.h>
int main(void) { port_enable(XS1_PORT_1A); printf("%u\\n", (unsigned)get_reference_time()); return 0; }
"""
CHECKS_TIME = """
import Pyxsim as px

def test_a_program(capfd):
    px.run_with_pyxsim("PROGRAM")
    assert capfd.readouterr().out == "1\\n"
"""


def passed(folder: Path, program: str, check: str, *options: str) -> str:
    """Build a program, run tests of it with the plugin, and return what pytest says last, without times."""
    built = compiled(folder, program)
    (folder / "test_it.py").write_text(check.replace("PROGRAM", str(built)))
    done = run_process(
        [
            *(sys.executable, "-P", "-m", "pytest", "-q", "-p", "aisrv.addons.firmware.pyxsim.plugin"),
            *("-p", "no:cacheprovider", *options, folder / "test_it.py"),
        ],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # others take longer to load than all else
        cwd=folder,
    )
    return str(done.stdout.splitlines()[-1].split(" in ")[0])


@pytest.mark.parametrize(("unit", "units"), [("fs", 10_000_000), ("ps", 10_000)])
def test_tests_find_pyxsim(tmp_path: Path, unit: str, units: int) -> None:
    check = CHECK.replace("UNITS", str(units))
    assert passed(tmp_path, PROGRAM, check, "--pyxsim-unit", unit) == "2 passed"


@pytest.mark.parametrize(("options", "outcome"), [((), "1 failed"), (("--pyxsim-device-time",), "1 passed")])
def test_programs_take_the_time_of_the_chip_where_that_is_asked(
    tmp_path: Path, options: tuple[str, ...], outcome: str
) -> None:
    assert passed(tmp_path, TELLS_TIME, CHECKS_TIME, *options) == outcome
