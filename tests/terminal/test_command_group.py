"""Groups of commands, as processes: suggestions, and standard output that takes no more."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import run_process

BIN = Path(sys.executable).parent
FULL = Path("/dev/full")


@pytest.mark.parametrize(
    ("program", "word", "meant"),
    [("aisrv", "rum", "run"), ("aisrv-host", "inof", "info"), ("aisrv-flash", "inpect", "inspect")],
)
def test_a_misspelled_command_gets_the_nearest(program: str, word: str, meant: str) -> None:
    done = run_process([BIN / program, word])
    assert done.returncode == 2
    assert done.stderr.endswith(f"Error: No such command {word!r}. Did you mean {meant!r}?\n")


def test_a_command_that_is_near_to_none_gets_no_suggestion() -> None:
    assert run_process([BIN / "aisrv", "zzz"]).stderr.endswith("Error: No such command 'zzz'.\n")


@pytest.mark.parametrize(
    "command",
    [
        ("aisrv", "--help"),
        ("aisrv", "boards"),
        ("aisrv", "boards", "--json"),
        ("aisrv-host", "--help"),
        ("aisrv-flash", "--help"),
    ],
)
def test_a_full_disk_ends_a_command_with_one_line(command: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [BIN / command[0], *command[1:]], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == f"{command[0]}: standard output: No space left on device\n"


@pytest.mark.parametrize("command", [("aisrv", "run", "--help"), ("aisrv", "boards")])
def test_a_reader_that_is_gone_ends_a_command_without_a_word(command: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [BIN / command[0], *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 1
