"""Settings of a TOML file: values that know where they stand, and how each kind of them is read.

Whatever is wrong with one is reported with the file, the line and its place in it.
"""

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aisrv.board import KIB, BoardFileError, toml_lines

LARGEST_INTEGER: Final = 1 << 40

_UNITS: Final = {"": 1, "K": KIB, "M": KIB * KIB}
_SIZE: Final = re.compile(r"([0-9]{1,12})([KM]?)", re.IGNORECASE | re.ASCII)

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")


def parse_size(text: str) -> int:
    """Read a number of bytes, with K or M for KiB or MiB: "448K". Raises ValueError."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no size; write bytes as 458752, 448K or 16M")
    return int(match[1]) * _UNITS[match[2].upper()]


@dataclass(frozen=True, slots=True)
class Source:
    """The text that settings come from."""

    name: str
    directory: Path
    lines: Mapping[toml_lines.Path, int]

    def wrong(self, message: str, path: toml_lines.Path) -> BoardFileError:
        """Say what is wrong at a place of the text; the empty path is the text as a whole."""
        if not path:
            return BoardFileError(f"{self.name}: {message}")
        place = "".join(map(_step, path))[1:]
        line = toml_lines.nearest_line(self.lines, path)
        return BoardFileError(f"{self.name}:{line}: {place}: {message}", *path)


@dataclass(frozen=True, slots=True)
class Setting:
    """A value of the file."""

    source: Source
    path: toml_lines.Path
    value: Any

    def wrong(self, message: str) -> BoardFileError:
        """Say what is wrong with the value, and where it stands."""
        return self.source.wrong(message, self.path)

    def of(self, key: str | int) -> "Setting":
        """Return an entry of a table or an element of an array."""
        return Setting(self.source, (*self.path, key), self.value[key])


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _BARE_KEY.fullmatch(key) else f".{shown(key)}"


Read = Callable[[Setting], Any]
Keys = Mapping[str, tuple[str, Read]]
"""For each key of a table the field that it gives, and how its value is read."""


def read_integer(setting: Setting) -> int:
    """Read a whole number."""
    value = setting.value
    if type(value) is not int or abs(value) > LARGEST_INTEGER:
        raise setting.wrong(f"{shown(value)} where a whole number stands")
    return value


def read_number(setting: Setting) -> float:
    """Read a number, whole or not."""
    if type(setting.value) is float:
        if not math.isfinite(setting.value):
            raise setting.wrong(f"{setting.value} is no number to work with")
        return setting.value
    return float(read_integer(setting))


def read_text(setting: Setting) -> str:
    """Read a text."""
    if not isinstance(setting.value, str):
        raise setting.wrong(f"{shown(setting.value)} where a text in quotes stands")
    return setting.value


def read_boolean(setting: Setting) -> bool:
    """Read true or false."""
    if not isinstance(setting.value, bool):
        raise setting.wrong(f"{shown(setting.value)} where true or false stands")
    return setting.value


def read_size(setting: Setting) -> int:
    """Read bytes, as a number or such as "448K"."""
    if not isinstance(setting.value, str):
        return read_integer(setting)
    try:
        return parse_size(setting.value)
    except ValueError as error:
        raise setting.wrong(str(error)) from None


def read_kib(setting: Setting) -> int:
    """Read a size that is whole KiB, in KiB."""
    size = read_size(setting)
    if size % KIB:
        raise setting.wrong(f"{size} bytes are not whole KiB")
    return size // KIB


def read_megahertz(setting: Setting) -> int:
    """Read MHz, in Hz."""
    return read_integer(setting) * 1_000_000


def read_path(setting: Setting) -> Path:
    """Read the path of a file, relative to the directory of the text."""
    text = read_text(setting)
    if not text or "\0" in text:
        raise setting.wrong(f"{text!r} is no path of a file")
    return setting.source.directory / text


def read_elements(setting: Setting, read: Read, of: str) -> tuple[Any, ...]:
    """Read an array, element by element; `of` ends the message where it is none."""
    if not isinstance(setting.value, list):
        raise setting.wrong(f"{shown(setting.value)} where {of}")
    return tuple(read(setting.of(number)) for number in range(len(setting.value)))


def read_texts(setting: Setting) -> tuple[str, ...]:
    """Read an array of texts."""
    return read_elements(setting, read_text, 'an array of texts stands, such as ["red", "green"]')


def choice_of(choices: Mapping[str, Any]) -> Read:
    """Make what reads one of `choices` by name."""

    def read(setting: Setting) -> Any:  # noqa: ANN401 - as many types as there are choices
        text = read_text(setting)
        if text not in choices:
            raise setting.wrong(unknown(text, choices))
        return choices[text]

    return read


def read_table(setting: Setting, keys: Keys, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read a table into fields by name; only keys of `keys`, and all of `required`."""
    if not isinstance(setting.value, dict):
        raise setting.wrong(f"{shown(setting.value)} where a table stands, with {', '.join(keys)}")
    fields = {}
    for key in setting.value:
        if key not in keys:
            raise setting.of(key).wrong(unknown(key, keys))
        field, read = keys[key]
        fields[field] = read(setting.of(key))
    for key in required:
        if key not in setting.value:
            raise setting.wrong(f"it has no {key}, which must be given")
    return fields


def unknown(name: str, known: Mapping[str, Any]) -> str:
    """Say that a name is not known, and which may be meant."""
    near = difflib.get_close_matches(name[:100], known, 1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    return f"{shown(name)} is not known here; {hint}"


def shown(value: object) -> str:
    """Show a value in a message."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "such a number"
    return text if len(text) <= 60 else f"{text[:57]}..."
