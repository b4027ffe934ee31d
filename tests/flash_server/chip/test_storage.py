"""Storage of a chip: atomic writes, killed writers, files that are missing, wrong, in use or read-only."""

import errno
import itertools
import os
import re
import struct
import sys
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from flash_server.chip.nor import Nor
from flash_server.chip.part import MX25R3235F
from flash_server.chip.storage import LARGEST_WRITE, FileStorage, MemoryStorage, ReadOnlyFileStorage
from flash_server.errors import StorageError
from tests.support.paths import ROOT
from tests.support.programs import run_process

SIZE = 65536


class PowerCut(BaseException):
    """Ends a process's writing, as SIGKILL does: nothing catches it."""


def killed(path: Path, kills: int, kind: str) -> list[int]:
    done = run_process(
        [sys.executable, "-m", "tests.support.oracles.killed_writer", path, str(kills), kind], cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [int(word) for word in done.stdout.split()]


@pytest.mark.long("it checks a check, by a hundred processes that are killed")
def test_the_check_notices_torn_writes(tmp_path: Path) -> None:
    assert killed(tmp_path / "chip", 100, "torn")[2] > 0


def test_protection_survives_a_restart(tmp_path: Path) -> None:
    """All that a status write changes but the volatile bits: BP3 to BP0, QE, SRWD, and TB for good."""
    path = tmp_path / "chip"
    with FileStorage(path, MX25R3235F.size) as storage:
        nor = Nor(MX25R3235F, storage)
        nor.execute(b"\x06")
        nor.execute(b"\x01\x84\x48\x02")
        nor.finish()
    assert path.stat().st_size == MX25R3235F.size
    with FileStorage(path, MX25R3235F.size) as storage:
        nor = Nor(MX25R3235F, storage)
        assert (nor.execute(b"\x05", 1), nor.execute(b"\x15", 2)) == (b"\x84", b"\x08\0")
        assert nor.protected == (0, 65536)
        nor.execute(b"\x06")
        assert nor.refusal(0, 1) == "0x000000 to 0x00FFFF is protected by the status register"
        nor.execute(b"\x01\x40")
        nor.finish()
    with closing(ReadOnlyFileStorage(path, MX25R3235F.size)) as storage:
        assert Nor(MX25R3235F, storage).execute(b"\x05", 1) == b"\x40"


def test_a_chip_that_was_never_told_otherwise_has_no_file_of_registers(tmp_path: Path) -> None:
    with FileStorage(tmp_path / "chip", MX25R3235F.size) as storage:
        nor = Nor(MX25R3235F, storage)
        nor.execute(b"\x06")
        nor.execute(b"\x01\x40")
    assert [each.name for each in tmp_path.iterdir()] == ["chip"]


@pytest.mark.parametrize("content", [b"", b"\x40", b"\x40\0\0"])
def test_registers_of_another_size_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "chip.registers").write_bytes(content)
    refusal = re.escape("chip.registers does not hold 2 bytes of registers; remove it")
    with (
        FileStorage(tmp_path / "chip", MX25R3235F.size) as storage,
        pytest.raises(StorageError, match=refusal),
    ):
        Nor(MX25R3235F, storage)


def cut_short(
    storage: FileStorage,
    monkeypatch: pytest.MonkeyPatch,
    address: int,
    data: bytes,
    call: int,
    part: float = 0,
) -> None:
    """Cut a write within its system call of that number: 1 the journal, 2 the file, 3 the journal's end."""
    numbers = itertools.count(1)
    real = os.pwrite

    def pwrite(file: int, data: bytes, offset: int) -> int:
        if next(numbers) == call:
            real(file, data[: int(len(data) * part)], offset)
            raise PowerCut
        return real(file, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        with pytest.raises(PowerCut):
            storage.write(address, data)
    storage.close()


@pytest.mark.parametrize("size", [1, 256, 4096, LARGEST_WRITE])
@pytest.mark.parametrize("call", [1, 2, 3])
@pytest.mark.parametrize("part", [0, 0.5, 1])
def test_a_write_cut_within_any_call_is_done_or_not(
    size: int, call: int, part: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, chip = tmp_path / "chip", 2 * LARGEST_WRITE
    address, beside = chip - size, b"\xff" * (chip - 2 * size)
    old, new, other = b"\x5a" * size, b"\xa5" * size, bytes(size)
    storage = FileStorage(path, chip)
    storage.write(address, old)
    storage.write(0, other)  # what the journal holds where its next record is cut short
    cut_short(storage, monkeypatch, address, new, call, part)
    with FileStorage(path, chip) as again:
        assert again.read(0, chip) == other + beside + (new if (call, part) >= (1, 1) else old)
    assert sorted(tmp_path.iterdir()) == [path]


def test_short_system_calls_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: real(file, data[:7], offset))
    with FileStorage(tmp_path / "chip", SIZE) as storage:
        storage.write(5, b"ab" * 50)
        assert storage.read(4, 102) == b"\xff" + b"ab" * 50 + b"\xff"


def full_at(failing: range) -> Callable[[int, bytes, int], int]:
    """A disk on which writes of these numbers find no room."""
    numbers = itertools.count()
    real = os.pwrite

    def write(file: int, data: bytes, offset: int) -> int:
        if next(numbers) in failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data, offset)

    return write


@pytest.mark.parametrize("first", [0, 1, 2])  # the journal, the file, the journal's end
def test_writes_go_on_as_soon_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    with FileStorage(tmp_path / "chip", SIZE) as storage:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full_at(range(first, 100)))
            for _ in range(2):
                with pytest.raises(StorageError, match="No space left on device"):
                    storage.write(16, b"new")
        storage.write(0, b"other")
        assert storage.read(0, 5) == b"other"
        assert storage.read(15, 5) == (b"\xffnew\xff" if first else b"\xff" * 5)


def test_a_failed_write_is_finished_when_the_file_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FileStorage(tmp_path / "chip", SIZE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full_at(range(1, 2)))
        with pytest.raises(StorageError, match="cannot be written at 0x10: No space left on device"):
            storage.write(16, b"new")
    storage.close()
    with FileStorage(tmp_path / "chip", SIZE) as again:
        assert again.repaired
        assert again.read(15, 5) == b"\xffnew\xff"


def test_journal_lies_beside_the_file_whatever_name_it_is_opened_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that was begun under one name is finished under another."""
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link"
    link.symlink_to(tmp_path / "chip")
    FileStorage(tmp_path / "chip", SIZE).close()
    storage = FileStorage(link, SIZE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full_at(range(1, 2)))
        with pytest.raises(StorageError):
            storage.write(16, b"new")
    storage.close()
    assert [each.name for each in link.parent.iterdir()] == ["link"]
    with FileStorage(tmp_path / "chip", SIZE) as again:
        assert again.read(16, 3) == b"new"


def test_file_of_two_names_is_refused(tmp_path: Path) -> None:
    FileStorage(tmp_path / "chip", SIZE).close()
    (tmp_path / "second").hardlink_to(tmp_path / "chip")
    for name in "chip", "second":
        with pytest.raises(StorageError, match="has 2 names"):
            FileStorage(tmp_path / name, SIZE)


def test_nothing_is_left_where_a_file_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match="cannot be made: No space left on device"):
        FileStorage(tmp_path / "chip", SIZE)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_of_another_file_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chip"
    storage = FileStorage(path, SIZE)
    cut_short(storage, monkeypatch, 0, b"new", call=2)
    path.write_bytes(bytes(SIZE))
    with FileStorage(path, SIZE) as again:
        assert not again.repaired
        assert again.read(0, SIZE) == bytes(SIZE)


@pytest.mark.parametrize("size", [0, 1, 23, 24, 25, 8216])
def test_nonsense_in_the_journal_changes_nothing(size: int, tmp_path: Path) -> None:
    path = tmp_path / "chip"
    FileStorage(path, SIZE).close()
    (tmp_path / "chip.journal").write_bytes(b"aisrvwal".ljust(size, b"\xff")[:size])
    with FileStorage(path, SIZE) as storage:
        assert storage.read(0, SIZE) == b"\xff" * SIZE


def test_a_missing_file_is_made_erased(tmp_path: Path) -> None:
    path = tmp_path / "chip"
    FileStorage(path, 3 * 1024 * 1024 + 4096).close()
    assert path.read_bytes() == b"\xff" * (3 * 1024 * 1024 + 4096)
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    with FileStorage(tmp_path / "chip", SIZE) as storage:
        storage.write(1000, b"kept")
    with FileStorage(tmp_path / "chip", SIZE) as storage:
        assert storage.read(999, 6) == b"\xffkept\xff"


@pytest.mark.parametrize("length", [0, SIZE - 1, SIZE + 1])
def test_a_file_of_another_size(length: int, tmp_path: Path) -> None:
    (tmp_path / "chip").write_bytes(bytes(length))
    with pytest.raises(StorageError, match=f"chip has {length} bytes, the part has {SIZE}"):
        FileStorage(tmp_path / "chip", SIZE)
    assert (tmp_path / "chip").read_bytes() == bytes(length)


def test_a_file_in_use_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "chip"
    with FileStorage(path, SIZE):
        for kind in (FileStorage, ReadOnlyFileStorage):
            with pytest.raises(StorageError, match="chip is in use by another process"):
                kind(path, SIZE)
    FileStorage(path, SIZE).close()


def test_several_may_read_and_none_writes_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "chip"
    FileStorage(path, SIZE).close()
    first, second = ReadOnlyFileStorage(path, SIZE), ReadOnlyFileStorage(path, SIZE)
    assert first.read(0, 4) == second.read(SIZE - 4, 4) == b"\xff" * 4
    with pytest.raises(StorageError, match="in use"):
        FileStorage(path, SIZE)
    with pytest.raises(StorageError, match="open for reading only: 3 bytes at 0x4 not written"):
        first.write(4, b"abc")
    first.close()
    second.close()


def test_reading_only_does_not_make_a_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="chip cannot be opened: No such file"):
        ReadOnlyFileStorage(tmp_path / "chip", SIZE)
    assert not list(tmp_path.iterdir())


def test_reading_only_refuses_a_half_made_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chip"
    storage = FileStorage(path, SIZE)
    cut_short(storage, monkeypatch, 0, b"new", call=2)
    with pytest.raises(StorageError, match="open it for writing once"):
        ReadOnlyFileStorage(path, SIZE)
    FileStorage(path, SIZE).close()
    ReadOnlyFileStorage(path, SIZE).close()


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="pipe is not a regular file"):
        FileStorage(tmp_path / "pipe", SIZE)
    with pytest.raises(StorageError, match="cannot be opened: Is a directory"):
        FileStorage(tmp_path, SIZE)
    with pytest.raises(StorageError, match="cannot be made: No such file or directory"):
        FileStorage(tmp_path / "nowhere" / "chip", SIZE)


def test_a_file_cut_short_while_open(tmp_path: Path) -> None:
    with FileStorage(tmp_path / "chip", SIZE) as storage:
        os.truncate(tmp_path / "chip", 10)
        with pytest.raises(StorageError, match="2 of 4 bytes at 0x8; the file was cut short"):
            storage.read(8, 4)


def test_memory_is_erased_at_first_and_keeps_what_is_written() -> None:
    storage = MemoryStorage(8)
    storage.write(3, b"ab")
    assert storage.read(0, 8) == b"\xff\xff\xffab\xff\xff\xff"


@pytest.mark.parametrize("kind", [FileStorage, ReadOnlyFileStorage])
def test_a_journal_that_is_a_pipe_is_refused_at_once(
    kind: type[FileStorage] | type[ReadOnlyFileStorage], tmp_path: Path
) -> None:
    FileStorage(tmp_path / "chip", SIZE).close()
    os.mkfifo(tmp_path / "chip.journal")
    with pytest.raises(StorageError, match=r"chip\.journal: the journal is not a regular file; remove it"):
        kind(tmp_path / "chip", SIZE)


def test_registers_that_are_a_pipe_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "chip.registers")
    with (
        FileStorage(tmp_path / "chip", SIZE) as storage,
        pytest.raises(StorageError, match=r"chip\.registers: cannot be read: not a regular file"),
    ):
        storage.read_registers()


def journal(address: int, old: bytes, new: bytes, checksum: int | None = None) -> bytes:
    """A record, by the description at the head of the module: magic, address, size, CRC-32, old, new."""
    what = struct.pack("<QI", address, len(new))
    if checksum is None:
        checksum = zlib.crc32(what + old + new)
    return b"aisrvwal" + what + struct.pack("<I", checksum) + old + new


def test_a_sound_journal_is_finished(tmp_path: Path) -> None:
    FileStorage(tmp_path / "chip", SIZE).close()
    (tmp_path / "chip.journal").write_bytes(journal(SIZE - 4, b"\xff" * 4, b"data"))
    with FileStorage(tmp_path / "chip", SIZE) as storage:
        assert (storage.repaired, storage.read(SIZE - 4, 4)) == (True, b"data")


def test_a_journal_of_another_checksum_is_dropped(tmp_path: Path) -> None:
    FileStorage(tmp_path / "chip", SIZE).close()
    sound = journal(0, b"\xff" * 4, b"data")
    for place in (8, 16, 20, len(sound) - 8, len(sound) - 1):
        wrong = bytearray(sound)
        wrong[place] ^= 1
        if place == 16:
            wrong += bytes(2)  # as long as it says
        (tmp_path / "chip.journal").write_bytes(wrong)
        with FileStorage(tmp_path / "chip", SIZE) as storage:
            assert (storage.repaired, storage.read(0, SIZE)) == (False, b"\xff" * SIZE)


@pytest.mark.parametrize("address", [SIZE - 3, SIZE, 1 << 40, (1 << 64) - 1])
def test_a_journal_of_bytes_that_the_file_does_not_have_is_dropped(address: int, tmp_path: Path) -> None:
    FileStorage(tmp_path / "chip", SIZE).close()
    (tmp_path / "chip.journal").write_bytes(journal(address, b"\xff" * 4, b"data"))
    with FileStorage(tmp_path / "chip", SIZE) as storage:
        assert not storage.repaired
        assert storage.read(0, SIZE) == b"\xff" * SIZE
    assert (tmp_path / "chip").stat().st_size == SIZE


@pytest.mark.parametrize("kind", [FileStorage, ReadOnlyFileStorage])
def test_a_journal_that_is_a_link_is_refused_and_what_it_names_left(
    kind: type[FileStorage] | type[ReadOnlyFileStorage], tmp_path: Path
) -> None:
    FileStorage(tmp_path / "chip", SIZE).close()
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "chip.journal").symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError, match=r"chip\.journal: the journal cannot be opened: Too many levels"):
        kind(tmp_path / "chip", SIZE)
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_a_disk_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pread(file: int, size: int, address: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with FileStorage(tmp_path / "chip", SIZE) as storage:
        monkeypatch.setattr(os, "pread", pread)
        with pytest.raises(StorageError, match="chip: cannot be read at 0x10: Input/output error"):
            storage.read(16, 4)
        monkeypatch.undo()
