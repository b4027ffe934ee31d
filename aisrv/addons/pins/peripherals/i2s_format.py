"""I2S: samples in slots of a bit clock and a word clock; its pins and WAV files as frames of it.

Source: Philips, "I2S bus specification" (1996): data change with the falling edge of the bit clock, the most
significant bit a period after the word clock has changed; the word clock is low for the left channel.
"""

import struct
import wave
from collections.abc import Sequence
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from aisrv.values.parser_errors import parser_errors
from aisrv.values.printable import PrintableError, printable
from aisrv.values.regular_file import opened_regular
from aisrv.values.whole_file import write_whole
from aisrv.xcore.ports.pin import Pin

CHANNELS: Final = 2
LARGEST_FILE: Final = 16 << 20
"""Bytes of a WAV file."""
WIDTHS: Final = (16, 24, 32)
"""Bits of a sample that WAV files here have."""


class I2sPins(NamedTuple):
    """The pins of a bus: bit clock, word clock and data."""

    bclk: Pin
    lrclk: Pin
    data: Pin


class Sound(Struct, frozen=True):
    """Samples of two channels, left and right in turn, as signed whole numbers."""

    rate: int
    """Frames a second."""
    width: int
    """Bits of a sample: 16, 24 or 32."""
    samples: Sequence[int]


class SoundError(PrintableError, ValueError):
    """A WAV file that cannot be played; the message says why."""


def read_wav(path: Path) -> Sound:
    """Read a WAV file; a mono one plays on both channels. Raises SoundError and OSError."""
    name = printable(str(path))
    with (
        opened_regular(path, LARGEST_FILE) as opened,
        parser_errors(f"{name} is no WAV file of whole samples", SoundError),
        wave.open(opened) as file,
    ):
        channels, size, rate, frames = file.getparams()[:4]
        data = file.readframes(frames)
    if channels not in (1, CHANNELS) or size * 8 not in WIDTHS:
        raise SoundError(
            f"{name} has {channels} channels of {size * 8} bits; 1 or 2 of 16, 24 or 32 bits can be played"
        )
    whole = len(data) - len(data) % (size * channels)
    samples = _samples(data[:whole], size)
    if channels == 1:
        samples = tuple(chain.from_iterable(zip(samples, samples, strict=True)))
    return Sound(rate, size * 8, samples)


def _samples(data: bytes, size: int) -> tuple[int, ...]:
    """Return the samples of `size` bytes each."""
    code = {2: "h", 4: "i"}.get(size)
    if code is not None:
        return struct.unpack(f"<{len(data) // size}{code}", data)
    places = range(0, len(data), size)
    return tuple(int.from_bytes(data[at : at + size], "little", signed=True) for at in places)


def write_wav(path: Path, sound: Sound) -> None:
    """Write a WAV file of two channels. Raises OSError."""
    size = sound.width // 8
    data = b"".join(sample.to_bytes(size, "little", signed=True) for sample in sound.samples)
    content = BytesIO()
    with wave.Wave_write(content) as file:
        file.setnchannels(CHANNELS)
        file.setsampwidth(size)
        file.setframerate(sound.rate)
        file.writeframes(data)
    write_whole(path, (content.getvalue(),))
