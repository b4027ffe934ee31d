"""A chip in a file, read and written from outside a device, as a programmer would."""

from pathlib import Path
from typing import Final, Self

from flash_server.chip.part import MX25R6435F, PARTS, FlashPart
from flash_server.chip.sector_change import sector_steps, touched
from flash_server.chip.storage import FileStorage, ReadOnlyFileStorage, Storage
from flash_server.errors import ProtectedError, StorageError
from flash_server.files import Progress, ignore

_READ: Final = 65536


def part_of_file(path: Path) -> FlashPart:
    """Return the known part of the file's size; without such a file or part, the MX25R6435F."""
    size = path.stat().st_size if path.is_file() else 0
    return next((part for part in PARTS.values() if part.size == size), MX25R6435F)


class ChipFile:
    """The chip in a file, for one process at a time; closed at the end of a `with`.

    Opened for writing, a missing file is created, erased. Every method raises StorageError for errors of the
    file, and PartError for addresses that the part does not have.
    """

    def __init__(self, path: Path, part: FlashPart | None = None, *, writing: bool = False) -> None:
        self.part: Final = part or part_of_file(path)
        self._path: Final = path
        kind = FileStorage if writing else ReadOnlyFileStorage
        self._storage: Final[Storage] = kind(path, self.part.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._storage.close()

    def identify(self) -> FlashPart:
        return self.part

    def read(self, address: int, size: int, progress: Progress = ignore) -> bytes:
        self.part.check_range(address, size)
        pieces = []
        for start in range(0, size, _READ):
            count = min(_READ, size - start)
            pieces.append(self._storage.read(address + start, count))
            progress(start + count, size)
        return b"".join(pieces)

    def write(self, address: int, data: bytes, progress: Progress = ignore) -> None:
        """Write the bytes from an address on, leave all others alone, and verify.

        Each sector is old or new at any moment, and the first one changes last. Raises ProtectedError.
        """
        self.part.check_range(address, len(data))
        sectors = touched(address, len(data), self.part.sector_size)
        self._check_unprotected(sectors)
        steps = sector_steps(address, data, self.read(sectors.start, len(sectors)), self.part.sector_size)
        for done, step in enumerate(steps, 1):
            self._storage.write(step.start, step.new)
            progress(len(data) * done // len(steps), len(data))
        if self.read(address, len(data)) != data:
            raise StorageError(f"{self._path}: what was written from {address:#x} on reads back otherwise")

    def _check_unprotected(self, sectors: range) -> None:
        from flash_server.chip.nor import Nor

        start, end = Nor(self.part, self._storage).protected
        if sectors.start < end and start < sectors.stop:
            raise ProtectedError(
                f"{self._path}: 0x{start:06X} to 0x{end - 1:06X} is protected by the status register of "
                f"{self.part.name}, in {self._path}.registers"
            )
