"""The plugin of pytest, in a pytest of its own."""

import sys
from pathlib import Path

import pytest

from tests.support.c_programs import need_compiler
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


@pytest.mark.parametrize(("unit", "units"), [("fs", 10_000_000), ("ps", 10_000)])
def test_tests_find_pyxsim(tmp_path: Path, unit: str, units: int) -> None:
    need_compiler()
    (tmp_path / "main.c").write_text(PROGRAM)
    program = tmp_path / "main.xe"
    run_process([sys.executable, "-m", "aisrv.firmware.cc", tmp_path / "main.c", "-o", program], check=True)
    (tmp_path / "test_it.py").write_text(CHECK.replace("UNITS", str(units)).replace("PROGRAM", str(program)))
    done = run_process(
        [
            *(sys.executable, "-P", "-m", "pytest", "-q", "-p", "aisrv.firmware.pyxsim.plugin"),
            *("-p", "no:cacheprovider", "--pyxsim-unit", unit, tmp_path / "test_it.py"),
        ],
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout.splitlines()[-1].split(" in ")[0]) == (0, "2 passed"), done.stdout
