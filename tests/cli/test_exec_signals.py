"""`aisrv exec` that is hung up or killed: its program ends, and no file is left."""

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.programs import AISRV, Started, run_process, start_process

PROGRAM = """
import os, signal, sys
if {number}:
    signal.signal({number}, lambda *_: sys.exit(7))
print(os.getpid(), flush=True)
signal.pause()
"""


@contextmanager
def executing(folder: Path, number: int = 0) -> Iterator[tuple[Started, int]]:
    """Execute a program that exits with 7 at a signal; gives `aisrv exec` and a descriptor of the program."""
    command = [*AISRV, "exec", "--", sys.executable, "-c", PROGRAM.format(number=number)]
    variables = os.environ | {"TMPDIR": str(folder)}
    with start_process(command, env=variables) as process:
        try:
            assert process.stdout is not None
            program = os.pidfd_open(int(process.stdout.readline()))
            try:
                yield process, program
            finally:
                os.close(program)
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("t")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_program_gets_the_signal_and_nothing_is_left(folder: Path, number: signal.Signals) -> None:
    with executing(folder, number) as (process, program):
        process.send_signal(number)
        assert process.wait(30) == 7
        assert select.select([program], [], [], 0)[0]
    assert list(folder.iterdir()) == []


def test_program_dies_with_it_and_the_next_removes_what_is_left(folder: Path) -> None:
    with executing(folder) as (process, program):
        process.kill()
        assert select.select([program], [], [], 30)[0]
    assert list(folder.iterdir())
    run_process([*AISRV, "exec", "--", "true"], env=os.environ | {"TMPDIR": str(folder)}, check=True)
    assert list(folder.iterdir()) == []
