"""What processes of tests tell: a result for each test, and whatever failed around one."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.programs import run_process

TESTS = """
import pytest

@pytest.fixture
def bad_start():
    raise ValueError("at the start")

@pytest.fixture
def bad_end():
    yield
    raise ValueError("at the end")

@pytest.fixture
def not_here():
    pytest.skip("not here")

def test_start(bad_start): pass
def test_end(bad_end): pass
def test_failure_and_end(bad_end): assert False
def test_skipped_by_a_fixture(not_here): pass
def test_skipped(): pytest.skip("not now")
@pytest.mark.xfail
def test_expected(): assert False
def test_failure(): assert False
def test_success(): pass
"""


@pytest.mark.parametrize("processes", [0, 2])
def test_processes_tell_of_all_that_one_process_tells(processes: int, tmp_path: Path) -> None:
    (tmp_path / "test_these.py").write_text(TESTS)
    words = ("-m", "pytest", "-rA", "-p", "tests.conftest", "-p", "no:cacheprovider", "-n", processes)
    done = run_process([sys.executable, *words, "--dist", "worksteal", tmp_path], cwd=ROOT)
    told = sorted(set(re.findall(r"^(PASSED|FAILED|ERROR|XFAIL) .*::(\w+)", done.stdout, re.MULTILINE)))
    assert told == [
        ("ERROR", "test_end"),
        ("ERROR", "test_failure_and_end"),
        ("ERROR", "test_start"),
        ("FAILED", "test_failure"),
        ("FAILED", "test_failure_and_end"),
        ("PASSED", "test_end"),
        ("PASSED", "test_success"),
        ("XFAIL", "test_expected"),
    ]
    assert "2 failed, 2 passed, 2 skipped, 1 xfailed, 3 errors" in done.stdout


def test_programs_of_tests_that_run_in_the_background_take_signals(tmp_path: Path) -> None:
    program = "from signal import *; print(SIG_IGN in (getsignal(SIGINT), getsignal(SIGHUP)))"
    lines = (
        "import subprocess, sys",
        "def test_it():",
        f"    command = [sys.executable, '-c', {program!r}]",
        "    assert subprocess.check_output(command) == b'False\\n'",
    )
    (tmp_path / "test_this.py").write_text("\n".join(lines))
    background = ("sh", "-c", 'trap "" INT HUP; exec "$@"', "sh")
    words = ("-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", tmp_path)
    done = run_process([*background, sys.executable, *words], cwd=ROOT)
    assert done.stdout.splitlines()[-1].startswith("1 passed"), done.stdout
