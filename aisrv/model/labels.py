"""Names of classes in a model file: a text file, a name a line, in the zip archive at the file's end.

TensorFlow Lite's metadata are stored so: the files that belong to a model are packed behind the flatbuffer.
"""

import io
import zlib
from typing import Final

LARGEST_LABELS: Final = 1 << 20
"""Bytes of a text of labels; a longer one is left out."""

_LARGEST_READ: Final = LARGEST_LABELS + 1

_END_OF_ARCHIVE: Final = b"PK\5\6"
_LARGEST_END: Final = 22 + 0xFFFF
"""Bytes from that mark to the end of a file, with the longest comment that an archive may have."""


class _View(io.RawIOBase):
    """Bytes in memory as a file, not copied as a whole; a read of more than a piece is an OSError.

    Archives are read in one go only for the list of their files, and for parts of a file.
    """

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        if start + offset < 0:
            raise OSError(f"a place {-start - offset} bytes before the start")
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, len(self._data) - self._at)
        size = left if size is None or size < 0 else min(size, left)
        if size > _LARGEST_READ:
            raise OSError(f"{size} bytes in one go, at most {_LARGEST_READ} are read")
        piece = bytes(self._data[self._at : self._at + size])
        self._at += size
        return piece


def labels_of(data: bytes | bytearray | memoryview) -> tuple[str, ...]:
    """Return the names in a model file, from class 0; none if it has none, or none that can be read."""
    if _END_OF_ARCHIVE not in bytes(data[-_LARGEST_END:]):
        return ()
    import zipfile

    with _View(memoryview(data)) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                texts = [each for each in archive.infolist() if each.filename.lower().endswith(".txt")]
                # Models with several texts, such as vocabularies, call that of the classes labels.
                texts.sort(key=lambda each: "label" not in each.filename.lower())
                if not texts or texts[0].file_size > LARGEST_LABELS:
                    return ()
                with archive.open(texts[0]) as member:
                    text = member.read(LARGEST_LABELS + 1)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            NotImplementedError,
            RuntimeError,
            ValueError,
        ):
            return ()
    return labels_in(text)


def labels_in(text: bytes) -> tuple[str, ...]:
    """Return the printable characters of each line of a text in UTF-8; none if it is not UTF-8."""
    if len(text) > LARGEST_LABELS:
        return ()
    try:
        lines = text.decode().splitlines()
    except UnicodeDecodeError:
        return ()
    return tuple("".join(filter(str.isprintable, line)) for line in lines)
