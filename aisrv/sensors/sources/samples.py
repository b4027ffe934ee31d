"""Sampled signals as input tensors: windows of a WAV or CSV file, quantized or as they are.

A frame is a window of so many samples, each with all its channels: rows of channels, in the byte order of the
device. The next frame begins a hop later. A rest shorter than a window is not delivered. Files are read and
converted at the start.
"""

import csv
import enum
import io
import math
import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.sensors.image.frame import Encoding, SourceError
from aisrv.sensors.sources.files import open_file
from aisrv.sensors.sources.numbered import NumberedSource

Values = npt.NDArray[Any]
Whole = npt.NDArray[np.int64]

LARGEST_WAV: Final = 64 << 20
LARGEST_CSV: Final = 16 << 20
"""Largest CSV file, in bytes."""


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


class SampleSource(NumberedSource):
    """Windows of elements (samples, channels), once or in a loop."""

    def __init__(
        self, name: str, elements: Values, window: int, hop: int | None = None, loop: bool = False
    ) -> None:
        hop = window if hop is None else hop
        if window < 1 or hop < 1:
            raise SourceError(f"{name}: a window of {window} samples every {hop}: both are 1 or more")
        samples, channels = elements.shape
        if samples < window:
            raise SourceError(f"{name}: {samples} samples, fewer than the {window} of a window")
        width = channels * elements.dtype.itemsize
        super().__init__(name, width, window, Encoding.SAMPLES, (samples - window) // hop + 1, loop)
        self._elements = elements
        self._hop = hop

    def _data(self, number: int) -> bytes:
        start = number * self._hop
        return self._elements[start : start + self._height].tobytes()


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
    whole, bits = _read_wav(path)
    if quantization is not None:
        elements = quantization(whole / float(1 << bits - 1), element)
    else:
        shift = bits - 8 * np.dtype(element.value).itemsize
        elements = (whole >> shift if shift >= 0 else whole << -shift).astype(element.value)
    return SampleSource(str(path), elements, window, hop, loop)


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


def _read_wav(path: Path) -> tuple[Whole, int]:
    try:
        with open_file(path, LARGEST_WAV) as content, wave.open(content) as file:
            channels, width = file.getnchannels(), file.getsampwidth()
            data = file.readframes(file.getnframes())
    except (
        OSError,
        EOFError,
        RuntimeError,
        wave.Error,
    ) as error:  # RuntimeError: a chunk longer than the file
        raise SourceError(f"{path}: not a readable WAV file: {str(error) or 'it ends too early'}") from None
    if width not in _PCM:
        raise SourceError(f"{path}: samples of {width} bytes; those of {', '.join(map(str, _PCM))} are known")
    data = data[: len(data) - len(data) % (width * channels)]
    return _PCM[width](data).reshape(-1, channels), 8 * width


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


def _read_csv(path: Path) -> tuple[Values, list[int]]:
    """Return the values, and the line of each sample."""
    rows: list[list[float]] = []
    lines: list[int] = []
    try:
        with open_file(path, LARGEST_CSV) as content:
            reader = csv.reader(io.TextIOWrapper(content, encoding="utf-8", newline=""))
            for fields in filter(None, reader):  # without empty lines
                row = _numbers(fields)
                if row is None and reader.line_num == 1:
                    continue
                if row is None or (rows and len(row) != len(rows[0])):
                    expected = len(rows[0]) if rows else len(fields)
                    said = ",".join(fields)
                    raise SourceError(
                        f"{path}, line {reader.line_num}: not {expected} finite numbers: {said:.60}"
                    )
                rows.append(row)
                lines.append(reader.line_num)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{path}: not a readable CSV file: {error}") from None
    if not rows:
        raise SourceError(f"{path}: no samples in it")
    return np.array(rows), lines


def _numbers(fields: list[str]) -> list[float] | None:
    try:
        row = [float(field) for field in fields]
    except ValueError:
        return None
    return row if all(map(math.isfinite, row)) else None
