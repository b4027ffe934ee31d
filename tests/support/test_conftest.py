"""What processes of tests tell: a result for each test, and whatever failed around one."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.programs import run_process
from tests.support.seconds import read_rows

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


def run_tests(tests: str, folder: Path, *options: str, processes: int = 0) -> str:
    """Run tests with the conftest of this checkout, and return what pytest prints."""
    (folder / "test_these.py").write_text(tests)
    words = ("-m", "pytest", "-rA", "-p", "tests.conftest", "-p", "no:cacheprovider", "-n", processes)
    return run_process([sys.executable, *words, *options, folder], cwd=ROOT).stdout


AMOUNTS = """
import pytest
from tests.support.amounts import amount, in_ci

@pytest.mark.parametrize("tries", [(in_ci(2, every_day=1), amount(3, every_day=1))], ids=str)
def test_tries(tries): pass

@pytest.mark.long("it boots")
def test_long(): pass
"""


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("-q", ["test_tries[(1, 1)]"]),
        ("--long", ["test_long", "test_tries[(2, 1)]"]),
        ("--in-full", ["test_long", "test_tries[(2, 3)]"]),
    ],
)
def test_options_say_how_much_runs_in_each_process(
    option: str, names: list[str], processes: int, tmp_path: Path
) -> None:
    said = run_tests(AMOUNTS, tmp_path, option, processes=processes)
    assert sorted(re.findall(r"^PASSED .*::(.+)$", said, re.MULTILINE)) == names


def test_processes_write_their_seconds(tmp_path: Path) -> None:
    run_tests(AMOUNTS, tmp_path, f"--seconds={tmp_path / 'seconds'}", processes=2)
    names = [row.name.partition("::")[2] for row in read_rows(tmp_path / "seconds")]
    assert [name for name in names if name] == ["test_tries[(1, 1)]"]


PLAIN_TIME = """
import pytest

@pytest.mark.plain_time("it waits")
def test_plain(): pass
"""


TIMED = """
from aisrv.board import Board
from aisrv.device import device

def test_time():
    classes, _ = device._time_of(Board())
    assert classes is not device.PLAIN
"""


@pytest.mark.parametrize(("option", "end"), [("-q", "1 passed"), ("--device-time", "1 skipped")])
def test_tests_of_plain_time_are_left_out_in_device_time(option: str, end: str, tmp_path: Path) -> None:
    assert end in run_tests(PLAIN_TIME, tmp_path, option).splitlines()[-1]


def test_devices_are_in_device_time(tmp_path: Path) -> None:
    assert "1 passed" in run_tests(TIMED, tmp_path, "--device-time").splitlines()[-1]
    assert "1 failed" in run_tests(TIMED, tmp_path).splitlines()[-1]


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
