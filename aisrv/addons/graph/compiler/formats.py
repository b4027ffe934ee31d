"""Stream formats: conversion of a text's `format_…` tags to the four words of the binary."""

import dataclasses
import struct
from fractions import Fraction
from typing import Final

from aisrv.addons.graph.binary.model import Format
from aisrv.addons.graph.binary.tables import DOMAINS, RAW_BY_NAME, RAW_TYPES, UNITS
from aisrv.addons.graph.compiler.dialect import Dialect
from aisrv.addons.graph.errors import FieldError, Messages, nearest, shown
from aisrv.addons.graph.platform.options import Options
from aisrv.addons.graph.text.sections import TextSection
from aisrv.addons.graph.text.source import integer

MOST_FORMATS: Final = 31
LARGEST_FRAME: Final = (1 << 22) - 1
_RATIOS: Final = {Fraction(1): 1, Fraction(4, 3): 2, Fraction(16, 9): 3, Fraction(3, 2): 4}
_TAGS: Final = {
    "frame_bytes": "format_frame_length",
    "raw": "format_raw_data",
    "other_channels": "format_nbchan",
    "deinterleaved": "format_interleaving",
    "time_stamp": "format_time_stamp",
    "subtype": "format_sdomain",
}


def read_formats(texts: dict[int, TextSection], dialect: Dialect, messages: Messages) -> tuple[Format, ...]:
    """Return the formats from 0 to the highest index; those that the text does not declare are zeros."""
    found: dict[int, Format] = {}
    for index, text in texts.items():
        if not 0 <= index < MOST_FORMATS:
            messages.error(text.place, f"a graph has formats 0 to {MOST_FORMATS - 1}, not {index}")
            continue
        try:
            form = _format(text, messages)
            form.words()
            found[index] = form
        except FieldError as error:
            tag = _TAGS.get(error.field.partition(".")[2], "format_index")
            messages.error(text.place_of(tag), f"{tag}: {error}")
    return tuple(found.get(index, dialect.undeclared) for index in range(max(found, default=-1) + 1))


def _format(text: TextSection, messages: Messages) -> Format:
    frame = text.whole("format_frame_length", 1)
    if not 0 < frame <= LARGEST_FRAME:
        place = text.place_of("format_frame_length")
        messages.error(place, f"a frame has 1 to {LARGEST_FRAME} bytes, not {frame}")
        frame = 1
    form = Format(
        frame_bytes=frame,
        raw=_raw(text, messages),
        other_channels=text.whole("format_nbchan", 1) - 1,
        deinterleaved=text.whole("format_interleaving"),
        time_stamp=text.whole("format_time_stamp"),
        domain=_code(text, "format_domain", DOMAINS, messages),
        subtype=_code(text, "format_sdomain", UNITS, messages),
    )
    return dataclasses.replace(form, rate_bits=_rate(text, messages), mapping=_mapping(text, messages))


def _raw(text: TextSection, messages: Messages) -> int:
    statement = text.find("format_raw_data")
    if statement is None:
        return 17
    word = str(statement.values[0])
    code = integer(word)
    if code is None:
        name = word.removeprefix("STREAM_")
        if name not in RAW_BY_NAME:
            messages.error(statement.place, f"unknown raw type {shown(word)}{nearest(name, RAW_BY_NAME)}")
            return 17
        return RAW_BY_NAME[name].code
    if not 0 <= code < len(RAW_TYPES):
        messages.error(statement.place, f"a raw type is 0 to {len(RAW_TYPES) - 1}, not {code}")
        return 17
    return code


def _code(text: TextSection, tag: str, names: tuple[str, ...], messages: Messages) -> int:
    """Return the number of a domain or unit, given as it is or by name."""
    statement = text.find(tag)
    if statement is None:
        return 0
    word = str(statement.values[0])
    code = integer(word)
    if code is not None:
        return code
    bare = word.removeprefix("STREAM_SUBT_ANA_")
    for each in (bare, bare.upper()):
        if each in names:
            return names.index(each)
    messages.error(statement.place, f"{tag}: unknown name {shown(word)}{nearest(word, names)}")
    return 0


def _rate(text: TextSection, messages: Messages) -> int:
    rate = text.real("format_sampling_rate", 0.0)
    if not 0 <= rate <= 1e12:
        messages.error(
            text.place_of("format_sampling_rate"), f"a sampling rate of {rate:g} Hz is not possible"
        )
        return 0
    bits: int = struct.unpack("<I", struct.pack("<f", rate))[0]
    return bits >> 8


def _mapping(text: TextSection, messages: Messages) -> int:
    """Return word W3: audio channels, a motion code or the size of an image."""
    sizes = [text.find(f"format_2d_{name}") for name in ("height", "width", "border")]
    given = [tag for tag in ("format_audio_mapping", "format_motion_mapping") if text.find(tag)]
    if any(sizes):
        given.append("format_2d_…")
    if len(given) > 1:
        messages.error(text.place, f"{' and '.join(given)} exclude each other")
        return 0
    limits = {"format_audio_mapping": 1 << 20, "format_motion_mapping": 16}
    for tag in given:
        if tag in limits:
            value = text.whole(tag)
            if not 0 <= value < limits[tag]:
                messages.error(text.place_of(tag), f"{tag} is 0 to {limits[tag] - 1}, not {value}")
                return 0
            return value
    if not given:
        return 0
    height, width = text.whole("format_2d_height"), text.whole("format_2d_width")
    border = text.whole("format_2d_border")
    small, large = sorted((height, width))
    if not 0 < small < 4096 or not 0 <= border < 4:
        messages.error(text.place, f"an image of {width} x {height} with border {border} is not possible")
        return 0
    ratio = _RATIOS.get(Fraction(large, small), 0)
    if not ratio:
        messages.warn(
            text.place, f"{width} x {height} is not one of 1:1, 4:3, 16:9 and 3:2: the words have no ratio"
        )
    return small | ratio << 12 | (height > width) << 15 | border << 16


def samples(form: Format) -> float:
    """Return the samples of one channel in a frame; 0 if the raw type has no size."""
    bits = RAW_TYPES[form.raw].bits if form.raw < len(RAW_TYPES) else 0
    return form.frame_bytes * 8 / (bits * form.channels) if bits else 0


def mismatches(form: Format, options: dict[str, Options]) -> list[str]:
    """Describe the properties of a format that the options of a manifest do not allow."""
    values = {
        "raw_format": float(form.raw),
        "nb_channels": float(form.channels),
        "frame_length": samples(form),
        "interleaving": float(form.deinterleaved),
    }
    if form.sampling_rate:
        values["sampling_rate"] = form.sampling_rate
    return [
        f"{name.replace('_', ' ')} {value:g} (possible: {options[name]})"
        for name, value in values.items()
        if name in options and value not in options[name]
    ]
