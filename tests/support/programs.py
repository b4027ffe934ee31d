"""Processes of tests: the three commands, `aisrv run` while it is used, Pythons with few packages."""

import os
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest

from aisrv.protocol.engine_kind import default_kind
from tests.support.ready_commands import ForkedCommand, is_command, ready_commands

AISRV = [sys.executable, "-P", "-m", "aisrv"]
HOST = [sys.executable, "-P", "-m", "host_tools"]
FLASH = [sys.executable, "-P", "-m", "flash_server"]
TIMEOUT = 60
"""Seconds after which a program hangs."""


Started = ForkedCommand | subprocess.Popen[str]
"""A program that has begun."""


def run_process(
    command: Sequence[object],
    *,
    check: bool = False,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, with nothing to read; `check` wants exit code 0."""
    words = _words(command)
    variables = os.environ if env is None else env
    if is_command(words) and ready_commands().can_run(variables):
        done = ready_commands().run(words, variables, cwd, TIMEOUT)
    else:
        done = subprocess.run(
            words,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=TIMEOUT,
            check=False,
            env=env,
            cwd=cwd,
        )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def run_python(
    code: str,
    python: Path | str = sys.executable,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Return what a piece of code prints; it must end well and say nothing on stderr."""
    done = run_process([python, "-c", code], env=env, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def refusal(*arguments: object) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of `aisrv`."""
    done = run_process([*AISRV, *arguments])
    return done.returncode, done.stdout, done.stderr


def default_engine_line() -> str:
    """Return what `aisrv run` says on standard error where no engine is named and its board names none."""
    return f"aisrv: engine {default_kind()}; --engine KIND takes another\n"


def next_command_line(place: str) -> str:
    """Return what `aisrv run` tells to type next, by the addresses of its ready line."""
    return f"aisrv: try aisrv-host --device {place.partition(', ')[0]} info\n"


def start_process(
    command: Sequence[object],
    *,
    writes: bool = False,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Started:
    """Start a program; with `writes` it reads from a pipe, else there is nothing to read."""
    words = _words(command)
    variables = os.environ if env is None else env
    if is_command(words) and ready_commands().can_run(variables):
        return ready_commands().start(words, variables, cwd, writes=writes)
    return subprocess.Popen(
        words,
        stdin=subprocess.PIPE if writes else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        cwd=cwd,
    )


@contextmanager
def running(*options: str) -> Iterator[tuple[Started, str]]:
    """Run `aisrv run` on a free port: its process, and the addresses of its ready line."""
    process = start_process([*AISRV, "run", "--port", "0", *options])
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield process, line.removeprefix("aisrv: ready at ").strip()
    finally:
        process.kill()
        process.communicate()


def new_python(home: Path, package: Path | None = None) -> Path:
    """Create a virtual environment with one package at most; return its interpreter."""
    venv.create(home, symlinks=True)
    if package is not None:
        (packages,) = home.glob("lib/python*/site-packages")
        (packages / package.name).symlink_to(package)
    return home / "bin" / "python"


def need_package(name: str, requirement: str) -> Any:
    """Import a package that not every system has a wheel of; without it, skip the test or module."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        missing(f'{name} is not installed: pip install "{requirement}"')


def _words(command: Sequence[object]) -> list[str]:
    return [os.fspath(word) if isinstance(word, Path) else str(word) for word in command]


def missing(reason: str) -> NoReturn:
    """Skip a test whose program or package is not installed, but fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)
