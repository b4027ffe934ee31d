"""Sampled signals as input tensors: windows of a WAV or CSV file, quantized or as they are.

A frame is a window of so many samples, each with all its channels: rows of channels, in the byte order of the
device. The next frame begins a hop later. A rest shorter than a window is not delivered. Files are read at
the start; samples of a WAV file are converted when their frame is asked for.
"""

import csv
import enum
import io
import math
import wave
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.sensors.image.frame import Encoding, SourceError
from aisrv.sensors.sources.files import open_file
from aisrv.sensors.sources.numbered import NumberedSource
from aisrv.values.parser_errors import parser_errors
from aisrv.values.printable import printable

Values = npt.NDArray[Any]
Whole = npt.NDArray[np.int64]

LARGEST_WAV: Final = 64 << 20
LARGEST_CSV: Final = 8 << 20
"""Largest CSV file, in bytes."""
MOST_ROWS: Final = 1 << 19
"""Samples of a CSV file: as many are read in half a second."""
_SHOWN: Final = 60
"""Characters of a line in messages."""
_BLOCK: Final = 1 << 16
"""Samples that are converted at once."""


class SampleType(enum.Enum):
    """Type of the tensor's elements; its value is NumPy's name, little-endian."""

    INT8 = "<i1"
    INT16 = "<i2"


@dataclass(frozen=True, slots=True)
class SampleQuantization:
    """Quantization of reals: round(value / scale) + zero point, halves away from 0, saturated.

    Source: TensorFlow Lite 8-bit quantization specification; the operator QUANTIZE.
    """

    scale: float
    zero_point: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise SourceError(f"a scale of {self.scale}: it is above 0")

    def __call__(self, values: Values, element: SampleType) -> Values:
        limits = np.iinfo(element.value)
        with np.errstate(over="ignore"):  # infinity saturates as well
            scaled = values / self.scale
        rounded = np.trunc(scaled + np.copysign(0.5, scaled)) + self.zero_point
        elements: Values = np.clip(rounded, limits.min, limits.max).astype(element.value)
        return elements


Conversion = Callable[[Values], Values]
"""Makes elements of samples: (samples, channels), of whatever a file has."""


def _as_they_are(elements: Values) -> Values:
    return elements


class SampleSource(NumberedSource):
    """Windows of samples (samples, channels), once or in a loop, each converted to elements."""

    def __init__(
        self,
        name: str,
        samples: Values,
        window: int,
        hop: int | None = None,
        loop: bool = False,
        convert: Conversion = _as_they_are,
    ) -> None:
        """Take the samples; what they are converted to shows on the first of them. Raises SourceError."""
        hop = window if hop is None else hop
        if window < 1 or hop < 1:
            raise SourceError(f"{name}: a window of {window} samples every {hop}: both are 1 or more")
        count = len(samples)
        if count < window:
            raise SourceError(f"{name}: {count} samples, fewer than the {window} of a window")
        width = convert(samples[:1]).nbytes
        super().__init__(name, width, window, Encoding.SAMPLES, (count - window) // hop + 1, loop)
        self._samples = samples
        self._convert = convert
        self._hop = hop

    def _data(self, number: int) -> bytes:
        start = number * self._hop
        window = self._samples[start : start + self._height]
        blocks = (window[place : place + _BLOCK] for place in range(0, len(window), _BLOCK))
        return b"".join(self._convert(block).tobytes() for block in blocks)


def wav_source(
    path: Path,
    window: int,
    hop: int | None = None,
    *,
    quantization: SampleQuantization | None = None,
    element: SampleType = SampleType.INT8,
    loop: bool = False,
) -> SampleSource:
    """Open a WAV file of PCM samples.

    Quantized, a sample is the real value of -1 up to 1; otherwise its highest 8 or 16 bits are the element.
    Raises SourceError.
    """
    samples, width = _read_wav(path)
    bits = 8 * width
    shift = bits - 8 * np.dtype(element.value).itemsize

    def convert(stored: Values) -> Values:
        whole = _PCM[width](stored.tobytes()).reshape(len(stored), -1)
        if quantization is not None:
            return quantization(whole / float(1 << bits - 1), element)
        return (whole >> shift if shift >= 0 else whole << -shift).astype(element.value)

    return SampleSource(str(path), samples, window, hop, loop, convert)


def csv_source(
    path: Path,
    window: int,
    hop: int | None = None,
    *,
    quantization: SampleQuantization | None = None,
    element: SampleType = SampleType.INT8,
    loop: bool = False,
) -> SampleSource:
    """Open a CSV file: a sample a line, a channel a column; a first line that is not of numbers is a header.

    Without quantization, values are the elements: whole numbers within their type. Raises SourceError.
    """
    values, lines = _read_csv(path)
    if quantization is not None:
        return SampleSource(str(path), quantization(values, element), window, hop, loop)
    limits = np.iinfo(element.value)
    wrong = np.argwhere((values < limits.min) | (values > limits.max) | (values != np.trunc(values)))
    if len(wrong):
        row, column = wrong[0]
        raise SourceError(
            f"{path}, line {lines[row]}: {values[row, column]} is not an {element.name.lower()};"
            " give a scale to quantize real values"
        )
    return SampleSource(str(path), values.astype(element.value), window, hop, loop)


def _read_wav(path: Path) -> tuple[Values, int]:
    """Return the samples of a file as they are stored, rows of bytes of all channels, and their width."""
    name = printable(str(path))
    with (
        open_file(path, LARGEST_WAV) as content,
        parser_errors(f"{name}: not a WAV file that can be read", SourceError),
        wave.open(content) as file,
    ):
        channels, width = file.getnchannels(), file.getsampwidth()
        data = file.readframes(file.getnframes())
    if width not in _PCM:
        raise SourceError(f"{name}: samples of {width} bytes; those of {', '.join(map(str, _PCM))} are known")
    whole = len(data) - len(data) % (width * channels)
    return np.frombuffer(data, np.uint8, whole).reshape(-1, width * channels), width


def _pcm8(data: bytes) -> Whole:
    return np.frombuffer(data, np.uint8).astype(np.int64) - 128  # the only unsigned one


def _pcm16(data: bytes) -> Whole:
    return np.frombuffer(data, "<i2").astype(np.int64)


def _pcm24(data: bytes) -> Whole:
    parts = np.frombuffer(data, np.uint8).reshape(-1, 3).astype(np.int64)
    return (parts[:, 0] | parts[:, 1] << 8 | parts[:, 2] << 16) - ((parts[:, 2] >> 7) << 24)


def _pcm32(data: bytes) -> Whole:
    return np.frombuffer(data, "<i4").astype(np.int64)


_PCM: Final[dict[int, Callable[[bytes], Whole]]] = {1: _pcm8, 2: _pcm16, 3: _pcm24, 4: _pcm32}


def _read_csv(path: Path) -> tuple[Values, Sequence[int]]:
    """Return the values, and the line of each sample."""
    values, lines = array("d"), array("L")
    channels = 0
    name = printable(str(path))
    with (
        open_file(path, LARGEST_CSV) as content,
        parser_errors(f"{name}: not a CSV file that can be read", SourceError),
    ):
        reader = csv.reader(io.TextIOWrapper(content, encoding="utf-8", newline=""))
        for fields in filter(None, reader):  # without empty lines
            row = _numbers(fields)
            if row is None and reader.line_num == 1:
                continue
            channels = channels or len(fields)
            if row is None or len(row) != channels:
                said = printable(",".join(fields[:_SHOWN]), _SHOWN)
                raise SourceError(f"{name}, line {reader.line_num}: not {channels} finite numbers: {said}")
            if len(lines) >= MOST_ROWS:
                raise SourceError(f"{name}: more than {MOST_ROWS:,} samples; a WAV file may have more")
            values.extend(row)
            lines.append(reader.line_num)
    if not lines:
        raise SourceError(f"{name}: no samples in it")
    return np.frombuffer(values).reshape(-1, channels), lines


def _numbers(fields: list[str]) -> list[float] | None:
    try:
        row = [float(field) for field in fields]
    except ValueError:
        return None
    return row if all(map(math.isfinite, row)) else None
