"""Locks on files: who may have one beside whom."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from aisrv.values.file_lock import hold_alone, hold_with_readers

Hold = Callable[[int], None]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[int, int]]:
    path = tmp_path / "flash.bin"
    path.write_bytes(b"content")
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    yield first, second
    for file in (first, second):
        with suppress(OSError):  # a test has closed it
            os.close(file)


def test_readers_share_a_file(files: tuple[int, int]) -> None:
    for file in files:
        hold_with_readers(file)


@pytest.mark.parametrize(
    ("first", "second"),
    [(hold_alone, hold_alone), (hold_alone, hold_with_readers), (hold_with_readers, hold_alone)],
)
def test_a_writer_is_alone(files: tuple[int, int], first: Hold, second: Hold) -> None:
    first(files[0])
    with pytest.raises(BlockingIOError):
        second(files[1])


def test_a_lock_ends_with_its_descriptor(files: tuple[int, int]) -> None:
    hold_alone(files[0])
    os.close(files[0])
    hold_alone(files[1])
    assert os.read(files[1], 7) == b"content"
