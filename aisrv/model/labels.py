"""Names of classes in a model file: a text file, a name a line, in the zip archive at the file's end.

TensorFlow Lite's metadata are stored so: the files that belong to a model are packed behind the flatbuffer.
"""

import io
import zipfile
import zlib
from typing import Final

LARGEST_LABELS: Final = 1 << 20
"""Bytes of a text of labels; a longer one is left out."""


def labels_of(data: bytes | memoryview) -> tuple[str, ...]:
    """Return the names in a model file, from class 0; none where it has none, or none that can be read."""
    with io.BytesIO(data) as file:
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
    """Return the lines of a text of labels in UTF-8; none where it is none."""
    try:
        return tuple(text.decode().splitlines()) if len(text) <= LARGEST_LABELS else ()
    except UnicodeDecodeError:
        return ()
