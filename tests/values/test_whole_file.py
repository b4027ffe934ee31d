"""Files that appear whole or not at all."""

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aisrv.values.whole_file import remove_left, write_whole
from tests.support.paths import ROOT


def test_file_replaces_the_old_one_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"old")

    def pieces() -> Any:
        yield b"new"
        assert target.read_bytes() == b"old"
        yield b"er"

    write_whole(target, pieces())
    assert target.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError])
def test_interrupted_file_leaves_the_old_one(error: type[BaseException], tmp_path: Path) -> None:
    def pieces() -> Any:
        yield b"new"
        raise error

    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(error):
        write_whole(tmp_path / "f", pieces())
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]
    assert (tmp_path / "f").read_bytes() == b"old"


def test_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    write_whole(tmp_path / "f", [b"x"])
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o666 & ~mask


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("f")
    write_whole(tmp_path / "link", [b"x"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "f").read_bytes() == b"x"


def test_device_is_written_and_not_replaced() -> None:
    write_whole(Path("/dev/null"), [b"x"])
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_directory_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "f" / "inside").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "f", [b"new"])
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_an_error_names_the_file() -> None:
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write_whole(Path("/dev/full"), [b"x"])


KILLED = """
import os, signal, sys
from pathlib import Path
from aisrv.values.whole_file import write_whole

def pieces():
    yield b"half"
    os.kill(os.getpid(), signal.SIGKILL)

write_whole(Path(sys.argv[1]), pieces())
"""


def test_what_a_killed_process_left_is_removed_by_the_next_to_write_the_file(tmp_path: Path) -> None:
    target, beside = tmp_path / "a[b]", tmp_path / ".a[b].part"
    beside.write_bytes(b"the user's")
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", KILLED, target], check=False, cwd=ROOT)
        assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2, "the second removes what the first left"
    write_whole(target, [b"x"])
    assert sorted(tmp_path.iterdir()) == sorted([target, beside])


def test_what_is_being_written_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "f"

    def pieces() -> Any:
        yield b"first"
        write_whole(target, [b"second"])
        yield b" of all"

    write_whole(target, pieces())
    assert target.read_bytes() == b"first of all"
    assert list(tmp_path.iterdir()) == [target]


def test_file_is_written_where_there_are_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    left = tmp_path / ".f.01234567.part"
    left.write_bytes(b"half")
    monkeypatch.setattr(fcntl, "flock", flock)
    write_whole(tmp_path / "f", [b"x"])
    assert sorted(tmp_path.iterdir()) == [left, tmp_path / "f"]


def test_what_killed_writers_left_is_removed_but_not_of_those_that_write(tmp_path: Path) -> None:
    (tmp_path / ".one.0123abcd.part").write_bytes(b"1")
    (tmp_path / ".two.json.0123abcd.part").write_bytes(b"2")
    (tmp_path / ".own.part").write_bytes(b"3")
    with (tmp_path / ".held.0123abcd.part").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remove_left(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == [".held.0123abcd.part", ".own.part"]
