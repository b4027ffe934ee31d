"""Programs that use lib_xcore as its users do, each with just the headers that it names: built and run."""

import pytest

from aisrv.addons.firmware.compiler import Program, Unit, build
from aisrv.addons.firmware.whole_program import RunSettings, run_whole_programs
from tests.support.benches.c_programs import COMPILERS, kept_programs, need_compiler
from tests.support.paths import ROOT

__all__ = ["kept_programs"]
pytestmark = pytest.mark.usefixtures("kept_programs")

FOLDER = ROOT / "tests/addons/firmware/programs/lib_xcore"
PRINTED = {
    "callbacks": ["4 words, 30 together"],
    "channels": ["15 sum"],
    "control_tokens": ["0 a 1 0 01020304 2 z 1", "1"],
    "events_by_hand": ["nothing yet", "word 42", "time"],
    "function_pointers": ["40 21"],
    "functions": ["one 3", "three 5", "seventeen 9"],
    "jobs": ["1 10 11 30 31 "],
    "locks": ["100"],
    "nested_selects": ["1: 11", "2: 22", "3: 0"],
    "pins": ["1 0 1", "0", "no pin"],
    "stacks": ["deep in 64 bytes", "144"],
    "thread_groups": ["11111110 by 7 threads"],
    "timers": ["1 1 1"],
}
"""What each program prints."""
OPTIONS = ("-Wall", "-Wextra", "-Werror", "-Wno-attributes", "-Wno-unknown-attributes")


def compiled(name: str) -> Program:
    return Program((Unit((FOLDER / f"{name}.c",), options=OPTIONS),))


def test_each_program_is_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.c")} == {*PRINTED, "assertions"}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", PRINTED)
def test_a_program_prints_what_it_should(name: str, compiler: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = need_compiler(compiler)
    assert run_whole_programs({0: build(compiled(name), path)}, RunSettings()) == 0
    assert capfd.readouterr().out.splitlines() == PRINTED[name]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_assertion_that_fails_names_its_line(
    compiler: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = need_compiler(compiler)
    assert run_whole_programs({0: build(compiled("assertions"), path)}, RunSettings()) == 1
    assert capfd.readouterr().out == "all held\n"
    (message,) = caplog.messages
    assert "ECALL (8): xassert_not_after(start) failed at assertions.c:13, in main at" in message
