"""Files that sources read: there, regular, and no larger than allowed."""

from pathlib import Path

from aisrv.sensors.image.frame import SourceError


def file_size(path: Path, largest: int | None = None) -> int:
    """Bytes of a file. SourceError where it is not a file, or has more than the largest allowed."""
    try:
        regular, size = path.is_file(), path.stat().st_size
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise SourceError(f"{path}: {error.strerror if isinstance(error, OSError) else error}") from None
    if not regular:
        raise SourceError(f"{path}: not a regular file")
    if largest is not None and size > largest:
        raise SourceError(f"{path}: {size} bytes, above the {largest} allowed")
    return size
