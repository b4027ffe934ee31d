"""Commands that are forks: the arguments, files and ends of a process of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import AISRV, FLASH, HOST
from tests.support.ready_commands import ReadyCommands, is_command, ready_commands


@pytest.mark.parametrize(
    "words",
    [
        [*AISRV, "--version"],
        [*HOST, "--help"],
        [*FLASH, "no such command"],
        [*AISRV, "model", "show", "nothing.tflite"],
        [*AISRV, "exec", "--", "sh", "-c", "pwd; echo $GIVEN; kill -TERM $$"],
    ],
)
def test_a_fork_does_what_a_new_process_does(words: list[str], tmp_path: Path) -> None:
    variables = os.environ | {"GIVEN": "a value", "COLUMNS": "60"}
    new = subprocess.run(
        words,
        env=variables,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    fork = ready_commands().run(words, variables, tmp_path, 60)
    assert (fork.returncode, fork.stdout, fork.stderr) == (new.returncode, new.stdout, new.stderr)


def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    words = [*AISRV, "exec", "--", "sh", "-c", "echo $PPID > new; mv new number; exec sleep 9"]
    with pytest.raises(subprocess.TimeoutExpired):
        ready_commands().run(words, os.environ, tmp_path, 1)
    number = tmp_path / "number"  # not there where the machine is so busy that it has not begun
    assert not number.exists() or not Path("/proc", number.read_text().strip()).exists()


def test_what_python_reads_when_it_begins_needs_a_new_process() -> None:
    commands = ready_commands()
    assert commands.can_run(os.environ | {"AISRV_SPI": "tcp:1", "TMPDIR": "/nowhere"})
    assert not commands.can_run(os.environ | {"PYTHONPATH": "/nowhere"})
    assert not commands.can_run(os.environ | {"LC_ALL": "C"})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (AISRV, True),
        ([*HOST, "info"], True),
        ([sys.executable, "-P", "-m", "aisrv.addons.firmware.cc"], False),
        ([sys.executable, "-c", "pass"], False),
        (["aisrv", "run"], False),
        ([sys.executable, "-P", "-m"], False),
    ],
)
def test_commands_of_this_python_alone_are_forks(words: list[str], expected: bool) -> None:
    assert is_command(words) is expected


def test_a_command_that_has_begun_takes_lines_and_signals() -> None:
    words = [*AISRV, "exec", "--", "sh", "-c", "read line; echo got $line; echo fine >&2; exec sleep 99"]
    with ready_commands().start(words, os.environ, writes=True) as process:
        assert process.stdin is not None
        process.stdin.write("a line\n")
        process.stdin.close()
        assert (process.stdout.readline(), process.poll()) == ("got a line\n", None)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.kill()
        assert process.communicate(60) == ("", "fine\n")
    assert process.returncode == -signal.SIGKILL
    assert not Path("/proc", str(process.pid)).exists()


def test_a_signal_to_a_command_that_has_ended_reaches_nobody() -> None:
    with ready_commands().start([*AISRV, "--version"], os.environ) as process:
        assert process.communicate(60)[1] == ""
        process.terminate()
    assert process.returncode == 0


def test_it_ends_when_it_is_told_and_a_command_that_has_begun_goes_on() -> None:
    commands = ReadyCommands()
    words = [*AISRV, "exec", "--", "sh", "-c", "read line; echo got $line"]
    with commands.start(words, os.environ, writes=True) as process:
        commands.close()
        assert process.stdin is not None
        process.stdin.write("a line\n")
        assert process.communicate(60) == ("got a line\n", "")
    assert process.returncode == 0


def test_the_time_of_commands_that_have_ended_is_counted() -> None:
    commands = ready_commands()
    before = commands.cpu_seconds
    commands.run([*AISRV, "--version"], os.environ, None, 60)
    assert before < commands.cpu_seconds < before + 60
