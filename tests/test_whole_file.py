"""Files that appear whole or not at all."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from aisrv.whole_file import write_whole


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
