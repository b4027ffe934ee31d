"""A chip in a file, read and written from outside a device, as a programmer would."""

from pathlib import Path
from typing import Final, Self

from flash_server.chip.part import MX25R6435F, PARTS, FlashPart
from flash_server.chip.sector_change import SectorChange, by_sector
from flash_server.chip.storage import FileStorage, ReadOnlyFileStorage, Storage
from flash_server.errors import StorageError
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
        """Write the bytes from an address on, leave all others alone, and verify."""
        import trio

        self.part.check_range(address, len(data))
        trio.run(self._write, address, data, progress)
        if self.read(address, len(data)) != data:
            raise StorageError(f"{self._path}: what was written from {address:#x} on reads back otherwise")

    async def _write(self, address: int, data: bytes, progress: Progress) -> None:
        from flash_server.chip.chip import FlashChip

        chip = FlashChip(self.part, self._storage)
        done = 0
        for piece in by_sector(address, data, self.part.sector_size):
            old = await chip.read(piece.start, self.part.sector_size)
            change = SectorChange.of(old, piece, self.part.page_size)
            if change.erases:
                await chip.write_enable()
                await chip.erase_sector(piece.start)
            for offset, page in change.programs:
                await chip.write_enable()
                await chip.program_page(piece.start + offset, page)
            done += len(piece.data)
            progress(done, len(data))
