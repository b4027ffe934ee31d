"""TOML files of settings: read within bounds, each key with its line.

A file is untrusted: a large one, one that is nested deep, and what is not a regular file are refused at once.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from aisrv.values.printable import printable
from aisrv.values.regular_file import read_regular
from aisrv.values.settings import toml_lines
from aisrv.values.settings.errors import KeyPath, SettingsError
from aisrv.values.settings.size import KIB

LARGEST_FILE: Final = 64 * KIB
"""Bytes of a file of settings; most take a few hundred."""

LARGEST_NUMBER: Final = 1 << 40
"""Limit of the numbers and sizes in one."""

_POSITION: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")


class TomlFile(Struct, frozen=True):
    """A TOML text as values, with the line of each."""

    name: str
    """Name in messages."""
    directory: Path
    """Base of relative paths in it."""
    values: Mapping[str, Any]
    lines: Mapping[KeyPath, int]

    def error(self, message: str, path: KeyPath = ()) -> SettingsError:
        """Return the error for a key: `board.toml:12: engines[1].arena: message`."""
        return SettingsError(f"{self.place(path)}: {message}", *path)

    def place(self, path: KeyPath) -> str:
        """Return the place of a key, as errors begin: `board.toml:12: engines[1].arena`."""
        if not path:
            return self.name
        key = "".join(map(_step, path))[1:]
        return f"{self.name}:{toml_lines.nearest_line(self.lines, path)}: {key}"


def read_toml(path: Path) -> TomlFile:
    """Read a TOML file of at most LARGEST_FILE bytes. Raises SettingsError."""
    try:
        text = read_bounded(path, LARGEST_FILE).decode()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not a TOML file: no UTF-8 at byte {error.start}") from None
    return parse_toml(text, str(path), path.parent)


def parse_toml(text: str, name: str, directory: Path = Path()) -> TomlFile:
    """Parse TOML text; `name` is for messages. Raises SettingsError, which names the line."""
    text = text.replace("\r\n", "\n")
    if toml_lines.depth_of(text) > toml_lines.DEEPEST:
        raise SettingsError(f"{name}: nested deeper than {toml_lines.DEEPEST} levels")
    try:
        return TomlFile(name, directory, tomllib.loads(text), toml_lines.lines_of(text))
    except ValueError as error:
        raise SettingsError(_syntax_error(name, text, str(error))) from None


def read_bounded(path: Path, largest: int) -> bytes:
    """Read a regular file of at most `largest` bytes, without waiting. Raises SettingsError."""
    try:
        return read_regular(path, largest)
    except OSError as error:
        raise SettingsError(f"{printable(str(path))}: {error.strerror}") from None


def shown(value: object) -> str:
    """Show a value in a message."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "such a number"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _BARE_KEY.fullmatch(key) else f".{shown(key)}"


def _syntax_error(name: str, text: str, message: str) -> str:
    match = _POSITION.search(message)
    if match is None:
        return f"{name}: {message}"
    line = match[1] or text.count("\n") + 1
    return f"{name}:{line}: {message[: match.start()]}"
