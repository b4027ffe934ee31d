"""Manifests of IOs: their direction, domain and units, and the formats that they take."""

from pathlib import Path
from typing import Final

from aisrv.addons.graph.binary.tables import UNITS
from aisrv.addons.graph.errors import Messages, Place, nearest, shown
from aisrv.addons.graph.platform.options import read_options
from aisrv.addons.graph.platform.values import IoManifest
from aisrv.addons.graph.text.source import Line, integer, number, read_lines

_TAG_ALIASES: Final = {"io_sampling_accuracy": "io_sampling_rate_accuracy"}
_IO_OPTIONS: Final = (
    "raw_format", "interleaving", "nb_channels", "frame_length", "frame_duration", "sampling_rate",
    "sampling_period", "sampling_period_s", "sampling_period_day", "sampling_rate_accuracy",
    "time_stamp_format",
)  # fmt: skip


def read_io(path: Path, place: Place, messages: Messages) -> IoManifest:
    """Read an IO's manifest; `place` is the row of the top manifest."""
    manifest = IoManifest(Place(str(path), 1))
    bare: list[str] = []
    for line in read_lines(path, place, messages):
        tag = _TAG_ALIASES.get(line.words[0], line.words[0])
        if tag in ("end", "_end_"):
            break
        if (
            len(bare) < 2
            and len(line.words) == 1
            and not (tag in _IO_FLAGS or tag in ("io_name", "io_domain"))
        ):
            bare.append(tag)
            continue
        _io_tag(manifest, tag, Line(line.place, (tag, *line.words[1:]), line.text), messages)
    if bare:
        manifest.name = bare[0]
    if len(bare) > 1:
        manifest.domain = bare[1]
    return manifest


_IO_FLAGS: Final = {
    "io_commander0_servant1": "servant",
    "io_set0copy1": "copy",
    "io_direction_rx0tx1": "tx",
    "io_buffer_allocation": "copy",
}


def _io_tag(manifest: IoManifest, tag: str, line: Line, messages: Messages) -> None:
    name = tag.removeprefix("io_")
    if tag in _IO_FLAGS:
        value = number(line.words[1]) if len(line.words) > 1 else None
        if value is None:
            messages.error(line.place, f"{tag} has a number")
        else:
            setattr(manifest, _IO_FLAGS[tag], int(value > 0))
    elif tag in ("io_name", "io_domain") and len(line.words) > 1:
        setattr(manifest, name, line.words[1])
    elif name in _IO_OPTIONS:
        read_options(manifest.options, name, line, messages)
    elif tag in ("io_units_rescale", "io_subtype_units"):
        _check_units(tag, line, messages)
    elif not tag.startswith("io_"):  # others are for the IO's domain alone
        messages.error(
            line.place, f"unknown tag {shown(tag)}{nearest(tag, [f'io_{each}' for each in _IO_OPTIONS])}"
        )


def _check_units(tag: str, line: Line, messages: Messages) -> None:
    """Check a unit, and a, b, max of P = a(D - b); the first grammar gives the unit alone."""
    unit = line.words[1].upper() if len(line.words) > 1 else ""
    code = integer(unit)
    if unit not in UNITS and not (code is not None and 0 <= code < len(UNITS)):
        messages.warn(line.place, f"unknown unit {shown(unit)}{nearest(unit, UNITS)}")
    numbers = [word for word in line.words[2:5] if number(word) is not None]
    if tag != "io_subtype_units" and len(numbers) != 3:
        messages.error(line.place, f"{tag} has a unit and three numbers")
