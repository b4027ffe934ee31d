"""Directories of one user's: they go with their process, and with the next one where it was killed."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aisrv.values.private_directory import LOCK, PREFIX, private_directory

HOLD = """
import tempfile, sys, time
tempfile.tempdir = sys.argv[1]
from aisrv.values.private_directory import private_directory
with private_directory() as directory:
    (directory / "deep" / "er").mkdir(parents=True)
    print(directory, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("t")
    monkeypatch.setattr("tempfile.tempdir", str(path))
    return path


@contextmanager
def holder(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """A process that holds a directory, until it is killed."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_it_is_of_this_user_alone_and_goes_at_the_end() -> None:
    with private_directory() as directory:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert not directory.exists()


def test_what_a_killed_process_left_goes_with_the_next_start(folder: Path) -> None:
    with holder(folder) as (process, left):
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (left / "deep" / "er").is_dir()
    with private_directory() as directory:
        assert list(folder.iterdir()) == [directory]


def test_the_directory_of_a_process_that_lives_stays(folder: Path) -> None:
    with holder(folder) as (_, other), private_directory():
        assert (other / "deep" / "er").is_dir()


@pytest.mark.parametrize("kind", ["empty", "plain file", "fifo", "symlink", "of another name"])
def test_what_others_have_there_stays(folder: Path, kind: str) -> None:
    other = folder / ("others" if kind == "of another name" else f"{PREFIX}others")
    if kind == "plain file":
        other.touch()
    elif kind == "symlink":
        (folder / "target").mkdir()
        (folder / "target" / LOCK).touch()
        other.symlink_to(folder / "target")
    else:
        other.mkdir()
        if kind == "fifo":
            os.mkfifo(other / "fifo")
        if kind == "of another name":
            (other / LOCK).touch()
    with private_directory():
        assert other.exists()
        assert not (folder / "target").exists() or (folder / "target" / LOCK).exists()


def test_a_long_path_goes_to_another_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = folder / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with private_directory("socket") as directory:
        assert len(os.fsencode(directory / "socket")) <= 103
