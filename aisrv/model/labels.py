"""Names of classes in a model file: a text file, a name a line, in the zip archive at the file's end.

TensorFlow Lite's metadata are stored so: the files that belong to a model are packed behind the flatbuffer.
"""

from typing import Final

LARGEST_LABELS: Final = 1 << 20
"""Bytes of a text of labels; a longer one is left out."""

_END_OF_ARCHIVE: Final = b"PK\5\6"
_LARGEST_END: Final = 22 + 0xFFFF
"""Bytes from that mark to the end of a file, with the longest comment that an archive may have."""


class _NoLabels(Exception):
    """An archive that cannot be read."""


def labels_of(data: bytes | bytearray | memoryview) -> tuple[str, ...]:
    """Return the names in a model file, from class 0; none if it has none, or none that can be read."""
    if _END_OF_ARCHIVE not in bytes(data[-_LARGEST_END:]):
        return ()
    from aisrv.values.untrusted_archive import opened_archive, opened_member

    try:
        with opened_archive(memoryview(data), "labels", _NoLabels) as archive:
            texts = [each for each in archive.infolist() if each.filename.lower().endswith(".txt")]
            # Models with several texts, such as vocabularies, call that of the classes labels.
            texts.sort(key=lambda each: "label" not in each.filename.lower())
            if not texts or texts[0].file_size > LARGEST_LABELS:
                return ()
            with opened_member(archive, texts[0]) as member:
                text = member.read(LARGEST_LABELS + 1)
    except _NoLabels:
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
