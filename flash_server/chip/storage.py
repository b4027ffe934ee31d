"""Storage for the bytes of a chip: memory, or a file that survives the death of its process at any moment.

A write is atomic: after SIGKILL, and after a write that failed, the file has all of it or nothing of it. This
assumes of the kernel only that what a system call wrote stays when the process dies, and not that a call is
done whole. `FileStorage` writes each change to a journal beside the file first, under a checksum, then to the
file, then it clears the journal; the next to open the file finishes the journal's change. A host that loses
power is another matter: nothing waits for the disk.
"""

import errno
import logging
import os
import stat
import struct
import zlib
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Final, Protocol, Self, cast

from aisrv.values.file_lock import hold_alone, hold_with_readers
from aisrv.values.regular_file import ANY_SIZE, opened_regular
from aisrv.values.whole_file import write_whole
from flash_server.errors import StorageError

logger = logging.getLogger(__name__)

LARGEST_WRITE: Final = 65536
"""Bytes of one atomic write: a block."""

_REGISTER_BYTES: Final = 2
"""Bytes of status register and configuration register 1."""

_MAGIC: Final = b"aisrvwal"
_RECORD: Final = struct.Struct(
    "<8sQII"
)  # magic, address, size, CRC-32 of all that follows the magic but itself
_WHAT: Final = struct.Struct("<QI")
_CLEARED: Final = bytes(len(_MAGIC))
_CHUNK: Final = 1 << 20


class Storage(Protocol):
    """The bytes of a chip, which keeps addresses and sizes within `size`. Methods raise StorageError."""

    @property
    def size(self) -> int: ...

    def read(self, address: int, size: int) -> bytes: ...

    def write(self, address: int, data: bytes) -> None:
        """Replace up to `LARGEST_WRITE` bytes, atomically."""

    def read_registers(self) -> bytes | None:
        """Return the two bytes of non-volatile register bits, None if none were stored."""

    def write_registers(self, registers: bytes) -> None:
        """Store two bytes of register bits."""

    def close(self) -> None: ...


class MemoryStorage:
    """Bytes that last as long as the object; erased at first."""

    def __init__(self, size: int) -> None:
        self._bytes = bytearray(b"\xff" * size)
        self._registers: bytes | None = None

    @property
    def size(self) -> int:
        return len(self._bytes)

    def read(self, address: int, size: int) -> bytes:
        """Return a copy of `size` bytes."""
        return bytes(memoryview(self._bytes)[address : address + size])

    def write(self, address: int, data: bytes) -> None:
        self._bytes[address : address + len(data)] = data

    def read_registers(self) -> bytes | None:
        return self._registers

    def write_registers(self, registers: bytes) -> None:
        self._registers = registers

    def close(self) -> None: ...


class _OpenFile:
    """Base of the two kinds of files; `_file` is the descriptor, below 0 once closed."""

    _file: int

    def __init__(self, path: str | os.PathLike[str], size: int) -> None:
        self.path: Final = _real(path)
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes. Raises StorageError if the file has become shorter."""
        try:
            data = os.pread(self._file, size, address)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be read at {address:#x}: {error.strerror}") from error
        if len(data) < size:
            raise StorageError(
                f"{self.path}: {len(data)} of {size} bytes at {address:#x}; the file was cut short"
            )
        return data

    def read_registers(self) -> bytes | None:
        """Return the register bits in the file beside this one. StorageError if it holds anything else."""
        registers = _registers_of(self.path)
        try:
            with opened_regular(registers, ANY_SIZE) as file:
                found = file.read(_REGISTER_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{registers}: cannot be read: {error.strerror}") from error
        if len(found) != _REGISTER_BYTES:
            raise StorageError(f"{registers} does not hold {_REGISTER_BYTES} bytes of registers; remove it")
        return found


class FileStorage(_OpenFile):
    """A file of exactly `size` bytes, which no other process may open meanwhile; created erased if missing.

    Raises StorageError for a file of another size, one that is in use, and one that may not be opened.
    """

    def __init__(self, path: str | os.PathLike[str], size: int) -> None:
        super().__init__(path, size)
        self._whole = True
        _create_if_missing(self.path, size)
        self._file = _open_locked(self.path, size, os.O_RDWR, hold_alone)
        with ExitStack() as undone:
            undone.callback(os.close, self._file)
            _check_one_name(self._file, self.path)
            self._journal = _Journal(_journal_of(self.path), os.O_RDWR | os.O_CREAT)
            undone.callback(self._journal.close, remove=False)
            self.repaired: Final = self._repair()
            """Whether the last process died within a write, which was then finished."""
            undone.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others open the file; a second call does nothing."""
        if self._file >= 0:
            file, self._file = self._file, -1
            self._journal.close(remove=self._whole)
            os.close(file)

    def write(self, address: int, data: bytes) -> None:
        """Replace up to `LARGEST_WRITE` bytes, atomically. Raises StorageError for errors of the file system.

        The next write, or the next to open the file, finishes or drops that one first, which it can as soon
        as there is room.
        """
        if len(data) > LARGEST_WRITE:
            raise StorageError(
                f"{self.path}: {len(data)} bytes at once; {LARGEST_WRITE} are written atomically"
            )
        if not self._whole:
            self._repair()
            self._whole = True
        old = self.read(address, len(data))
        if old == data:
            return
        self._whole = False
        try:
            self._journal.record(address, old, data)
            _write_all(self._file, data, address)
            self._journal.clear()
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be written at {address:#x}: {error.strerror}") from error
        self._whole = True

    def write_registers(self, registers: bytes) -> None:
        """Store register bits in a file beside this one, which is replaced whole."""
        path = _registers_of(self.path)
        try:
            write_whole(path, [registers])
        except OSError as error:
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from error

    def _repair(self) -> bool:
        found = self._journal.recorded(self._size)
        if found is None:
            return False
        address, old, new = found
        now = self.read(address, len(new))
        # Each byte is as before or as after, unless somebody has put another file in the place of this one.
        ours = all(byte in each for byte, *each in zip(now, old, new, strict=True))
        try:
            if ours:
                _write_all(self._file, new, address)
            else:
                logger.warning("%s is another file than its journal is of; journal dropped", self.path)
            self._journal.clear()
        except OSError as error:
            raise StorageError(f"{self.path}: a write cannot be finished: {error.strerror}") from error
        return ours


class ReadOnlyFileStorage(_OpenFile):
    """A file of exactly `size` bytes, for reading only; several processes may have it open so.

    Raises StorageError as `FileStorage` does, for a missing file too, and for one whose last writer died
    within a write.
    """

    def __init__(self, path: str | os.PathLike[str], size: int) -> None:
        super().__init__(path, size)
        self._file = _open_locked(self.path, size, os.O_RDONLY, hold_with_readers)
        try:
            self._check_journal()
        except BaseException:
            os.close(self._file)
            raise

    def _check_journal(self) -> None:
        path = _journal_of(self.path)
        if not path.exists():
            return
        journal = _Journal(path, os.O_RDONLY)
        try:
            if journal.recorded(self._size) is not None:
                raise StorageError(
                    f"{self.path}: its last writer died within a write; open it for writing once"
                )
        finally:
            journal.close(remove=False)

    def write(self, address: int, data: bytes) -> None:
        raise StorageError(
            f"{self.path} is open for reading only: {len(data)} bytes at {address:#x} not written"
        )

    def write_registers(self, _registers: bytes) -> None:
        raise StorageError(f"{self.path} is open for reading only: its registers not written")

    def close(self) -> None:
        """Let others write the file; a second call does nothing."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)


class _Journal:
    """One record of a change: the bytes before and after it."""

    def __init__(self, path: Path, flags: int) -> None:
        self._path = path
        try:
            self._file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StorageError(f"{path}: the journal cannot be opened: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            os.close(self._file)
            raise StorageError(f"{path}: the journal is not a regular file; remove it")

    def record(self, address: int, old: bytes, new: bytes) -> None:
        """Record a change that is about to be made."""
        what = _WHAT.pack(address, len(new))
        checksum = zlib.crc32(new, zlib.crc32(old, zlib.crc32(what)))
        _write_all(self._file, _RECORD.pack(_MAGIC, address, len(new), checksum) + old + new, 0)

    def clear(self) -> None:
        """Drop the change: it has been made."""
        _write_all(self._file, _CLEARED, 0)

    def recorded(self, limit: int) -> tuple[int, bytes, bytes] | None:
        """Return address, old and new bytes of a change that may be half made; None if there is none."""
        raw = os.pread(self._file, _RECORD.size + 2 * LARGEST_WRITE, 0)
        if len(raw) < _RECORD.size:
            return None
        magic, address, size, checksum = _RECORD.unpack_from(raw)
        body = raw[_RECORD.size : _RECORD.size + 2 * size]
        if magic != _MAGIC or len(body) < 2 * size or address + size > limit:
            return None
        if zlib.crc32(body, zlib.crc32(_WHAT.pack(address, size))) != checksum:
            return None  # its writer died while it wrote the journal: the file is as before
        return address, body[:size], body[size:]

    def close(self, *, remove: bool) -> None:
        """Close the journal; remove it unless a change is half made."""
        os.close(self._file)
        if remove:
            self._path.unlink(missing_ok=True)


def _registers_of(path: Path) -> Path:
    return path.with_name(path.name + ".registers")


def _journal_of(path: Path) -> Path:
    return path.with_name(path.name + ".journal")


def _write_all(file: int, data: bytes, offset: int) -> None:
    done = os.pwrite(file, data, offset)
    while done < len(data):
        done += os.pwrite(file, data[done:], offset + done)


def _create_if_missing(path: Path, size: int) -> None:
    try:
        path.stat()
    except FileNotFoundError:
        _create_erased(path, size)
    except OSError:
        return  # opening it will tell


def _create_erased(path: Path, size: int) -> None:
    """Create the file without a name first, so that it appears whole or not at all."""
    try:
        with _nameless(path) as file:
            for offset in range(0, size, _CHUNK):
                file.write(b"\xff" * min(_CHUNK, size - offset))
            file.flush()
            with suppress(FileExistsError):  # unlike a rename it spares a file that came there meanwhile
                # With a descriptor Python calls linkat, which can follow the link in /proc.
                os.link(_name_of(file), path, src_dir_fd=file.fileno())
    except OSError as error:
        raise StorageError(f"{path} cannot be made: {error.strerror}") from error


def _nameless(path: Path) -> IO[bytes]:
    """Open a new file in the folder of `path`; of a random name if the file system needs one."""
    try:
        return os.fdopen(os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666), "wb")
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL):
            raise
    return cast("IO[bytes]", NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".new"))


def _name_of(file: IO[bytes]) -> str:
    return file.name if isinstance(file.name, str) else f"/proc/self/fd/{file.fileno()}"


def _real(path: str | os.PathLike[str]) -> Path:
    """Follow links: the journal lies beside the file, by whichever name that is opened."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        raise StorageError(f"{path} cannot be opened: {error}") from error


def _check_one_name(file: int, path: Path) -> None:
    """Refuse a file of several names: a journal beside one of them is not seen by who opens another."""
    names = os.fstat(file).st_nlink
    if names > 1:
        raise StorageError(f"{path} has {names} names (hard links); a chip's file must have one: copy it")


def _open_locked(path: Path, size: int, flags: int, hold: Callable[[int], None]) -> int:
    try:
        file = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)  # not to wait where it is a pipe
    except OSError as error:
        raise StorageError(f"{path} cannot be opened: {error.strerror}") from error
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise StorageError(f"{path} is not a regular file")
        try:
            hold(file)
        except BlockingIOError:
            raise StorageError(f"{path} is in use by another process, such as a running device") from None
        except OSError as error:
            raise StorageError(f"{path} cannot be locked: {error.strerror}") from error
        found = os.fstat(file)
        if found.st_size != size:
            raise StorageError(
                f"{path} has {found.st_size} bytes, the part has {size}; name another file or part"
            )
    except BaseException:
        os.close(file)
        raise
    return file
