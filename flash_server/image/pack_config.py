"""The TOML file that says what an image is made of.

    generation = "fast"      # design, 1.2 or fast
    nibbles = "swapped"      # or straight
    size = "4M"              # of the data partition: a number of bytes, or a text with K or M
    align = 16
    fill = true
    missing = "placed"       # or zero

    [[engine]]
    model = "person.tflite"
    parameters = "person.params"

Everything but the engines may be left out. Paths are relative to the TOML file.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flash_server.files import InputError
from flash_server.image import Generation, Part
from flash_server.image.image_file import EngineFiles
from flash_server.image.pack_options import PackOptions

GENERATIONS: Final = {generation.value: generation for generation in Generation}
NIBBLES: Final = {"swapped": True, "straight": False}
MISSING: Final = {"placed": True, "zero": False}

_SIZE: Final = re.compile(r"(0x[0-9a-f]+|[0-9]+) ?([KMG]?)(i?B)?", re.IGNORECASE | re.ASCII)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class PackConfig:
    """What a TOML file says; the settings only where it says them."""

    engines: tuple[EngineFiles, ...]
    settings: Mapping[str, object]


def parse_size(text: str) -> int:
    """A number of bytes: 4096, 0x1000, 4K or 4M (binary units); InputError for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if not match or len(text) > 20:
        raise InputError(f"{text!r} is no size: give bytes, like 4096 or 0x1000, or 4K or 4M")
    return int(match[1], 0 if match[1][:2].lower() == "0x" else 10) * _UNITS[match[2].upper()]


def read_config(path: Path) -> PackConfig:
    """Read a TOML file; InputError says what in it makes no sense. The settings are `PackOptions` by name."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no TOML file: {error}") from error
    engines = document.pop("engine", [])
    if not isinstance(engines, list) or not all(isinstance(engine, dict) for engine in engines):
        raise InputError(f"{path}: engines are tables, each under [[engine]]")
    return PackConfig(
        tuple(_engine(path, number, engine) for number, engine in enumerate(engines)),
        dict(_setting(path, name, value) for name, value in document.items()),
    )


def describe(engines: Sequence[EngineFiles], options: PackOptions) -> str:
    """The text of a TOML file that `read_config` reads as these."""
    swapped = options.generation.usually_swapped if options.swapped is None else options.swapped
    lines = [
        f'generation = "{options.generation.value}"',
        f'nibbles = "{"swapped" if swapped else "straight"}"',
        f"align = {options.alignment}",
        f'missing = "{"placed" if options.places_missing else "zero"}"',
    ]
    if options.size is not None:
        lines += [f"size = {options.size}", f"fill = {str(options.fill).lower()}"]
    for engine in engines:
        lines += ["", "[[engine]]"]
        # JSON's strings are TOML's, too.
        lines += [f"{part.label} = {_quoted(str(engine[part]))}" for part in Part if engine[part] is not None]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def _engine(path: Path, number: int, table: Mapping[str, object]) -> EngineFiles:
    labels = [part.label for part in Part]
    files: dict[str, Path] = {}
    for name, value in table.items():
        if name not in labels:
            raise InputError(f"{path}: engine {number}: {name!r} is none of {', '.join(labels)}")
        if not isinstance(value, str) or not value or "\0" in value:
            raise InputError(f"{path}: engine {number}: {name}: give the name of a file, not {value!r}")
        files[name] = path.parent / value
    return EngineFiles(**files)


def _setting(path: Path, name: str, value: object) -> tuple[str, object]:
    words: Mapping[str, tuple[str, Mapping[str, object]]] = {
        "generation": ("generation", GENERATIONS),
        "nibbles": ("swapped", NIBBLES),
        "missing": ("placed", MISSING),
    }
    if name in words:
        option, values = words[name]
        if not isinstance(value, str) or value not in values:
            raise InputError(f"{path}: {name} is one of {', '.join(values)}, not {value!r}")
        return option, values[value]
    if name == "fill" and isinstance(value, bool):
        return "fill", value
    if name in ("size", "align") and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            number = parse_size(str(value))
        except InputError as error:
            raise InputError(f"{path}: {name}: {error}") from error
        return ("alignment" if name == "align" else name), number
    known = ("generation", "nibbles", "size", "align", "fill", "missing", "[[engine]]")
    raise InputError(f"{path}: {name} = {value!r} makes no sense; known are {', '.join(known)}")
