"""Lines of texts and manifests: reading files of a bounded size, words, numbers and data lines."""

import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from aisrv.addons.graph.errors import Messages, Place, shown
from aisrv.values.printable import PrintableError
from aisrv.values.regular_file import read_regular

LARGEST_FILE: Final = 1 << 19
"""Bytes of the largest text, manifest or file of words that is read: as many are compiled in a second."""
MOST_VALUES: Final = 65536
"""Values on one data line."""

_DATA_LINE: Final = re.compile(
    r"\s*(\d{1,9})\s*[;,]?\s*([uish](?:8|16|32|64)|f32|f64|c)\s*[;:,]?(?:\s+|(?<=[;:,])|$)(.*)"
)
_INTEGER: Final = re.compile(r"[+-]?\d{1,30}|0[xX][0-9a-fA-F]{1,30}|h[0-9a-fA-F]{1,30}")
_STRING: Final = re.compile(r'"([^"]*)"|([^\s,;]+)')
_FORMATS: Final = {
    **{f"{letter}{bits}": bits // 8 for letter in "uish" for bits in (8, 16, 32, 64)},
    "f32": 4,
    "f64": 8,
}


class FileError(PrintableError):
    """A file that cannot be read as text."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text: its place, its words before the comment, and all of it for data lines."""

    place: Place
    words: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Data:
    """A data line: its type and its bytes, little-endian."""

    place: Place
    type: str
    value: bytes


class DataReader(Protocol):
    """Reads a data line; errors go to `messages`; None if a line is not data."""

    def __call__(self, line: Line, messages: Messages, /) -> Data | None: ...


def read_text(path: Path) -> str:
    """Read the text of a file. Raises FileError."""
    try:
        data = read_regular(path, LARGEST_FILE)
    except FileNotFoundError:
        raise FileError("no such file") from None
    except OSError as error:
        raise FileError(error.strerror or str(error)) from None
    return data.decode("utf-8", "replace")


def read_lines(path: Path, place: Place, messages: Messages) -> list[Line]:
    """Read the lines of a file; none, and an error at `place`, if it cannot be read."""
    try:
        return split_lines(read_text(path), str(path))
    except FileError as error:
        messages.error(place, f"{path}: {error}")
        return []


def split_lines(text: str, name: str) -> list[Line]:
    """Split the lines that have words, without comments; `name` is the file's name in messages."""
    lines = []
    for number, each in enumerate(text.split("\n"), 1):
        words = tuple(each.partition(";")[0].replace(",", " ").split())
        if words:
            lines.append(Line(Place(name, number), words, each))
    return lines


def integer(word: str) -> int | None:
    """Read a whole number as texts write them: decimal, `0x…` or `h…`; None for another word."""
    if not _INTEGER.fullmatch(word):
        return None
    if word[0] == "h":
        return int(word[1:], 16)
    return int(word, 16) if word[:2] in ("0x", "0X") else int(word)


def hexadecimal(word: str) -> int | None:
    """Read a number in hexadecimal, with or without `h` or `0x` in front."""
    bare = word[1:] if word[:1] == "h" else word
    return int(bare, 16) if re.fullmatch(r"(0[xX])?[0-9a-fA-F]{1,30}", bare) else None


def number(word: str) -> float | None:
    """Read a finite number, whole or not; None for another word."""
    whole = integer(word)
    if whole is not None:
        return float(whole)
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def is_data_line(line: Line) -> bool:
    """Check whether a line starts as data lines do: a count, then a type."""
    return _DATA_LINE.match(line.text) is not None


def read_data(line: Line, messages: Messages, *, hex_is_zero: bool = False) -> Data | None:
    """Read `n type; v1 … vn`; None if the line is not data.

    A value too wide for its type gives a warning and its low bits. `hex_is_zero` reads `0x…` as 0, as the
    public compiler does in the parameters of scripts.
    """
    match = _DATA_LINE.match(line.text)
    if match is None:
        return None
    count, kind = int(match[1]), match[2]
    if count > MOST_VALUES:
        messages.error(line.place, f"a data line has at most {MOST_VALUES} values, not {count}")
        return Data(line.place, kind, b"")
    rest = match[3]
    if kind == "c":
        strings = [quoted or bare for quoted, bare in _STRING.findall(rest)][:count]
        if len(strings) < count:
            messages.error(line.place, f"the line announces {count} strings and has {len(strings)}")
        return Data(line.place, kind, b"".join(each.encode() + b"\0" for each in strings))
    words = rest.partition(";")[0].replace(",", " ").split(maxsplit=count)[:count]
    if len(words) < count:
        messages.error(line.place, f"the line announces {count} values and has {len(words)}")
    return Data(
        line.place, kind, b"".join(_value(word, kind, line.place, messages, hex_is_zero) for word in words)
    )


def _value(word: str, kind: str, place: Place, messages: Messages, hex_is_zero: bool) -> bytes:
    size = _FORMATS[kind]
    if kind[0] == "f":
        real = number(word)
        if real is None:
            messages.error(place, f"{shown(word)} is not a number")
            return bytes(size)
        try:
            return struct.pack("<f" if size == 4 else "<d", real)
        except OverflowError:
            messages.error(place, f"{shown(word)} does not fit {kind}")
            return bytes(size)
    whole = hexadecimal(word) if kind[0] == "h" else integer(word)
    if whole is None:
        messages.error(place, f"{shown(word)} is not a {'hexadecimal' if kind[0] == 'h' else 'whole'} number")
        return bytes(size)
    if hex_is_zero and word[:2] in ("0x", "0X"):
        whole = 0
    bits = 8 * size
    if not -(1 << (bits - 1)) <= whole < 1 << bits:
        messages.warn(place, f"{shown(word)} is wider than {kind}: its low {bits} bits are kept")
    return (whole & ((1 << bits) - 1)).to_bytes(size, "little")
