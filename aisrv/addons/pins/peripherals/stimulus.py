"""Levels of pins from files: VCD (IEEE 1364, section 18), as simulators and analyzers write it, and CSV.

A CSV file has a line for each change: the time in seconds, and a level for each signal, 0, 1, x or z. Its
first line has their names: `time,scl,sda`.
"""

import csv
import itertools
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from vcd.reader import TokenKind, tokenize

from aisrv.addons.pins.peripherals.driver import PinDriver
from aisrv.values.parser_errors import parser_errors
from aisrv.values.printable import PrintableError, printable
from aisrv.values.regular_file import read_regular
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.ports.pin import HIGH, LOW, Pin, Z

LARGEST_FILE: Final = 8 << 20
"""Bytes."""
_LONGEST_SHOWN: Final = 100
_LONGEST_NAMES: Final = 300
_LEVELS: Final = {"0": LOW, "1": HIGH, "z": Z, "Z": Z, "x": Z, "X": Z}
"""What is unknown in the file is not driven."""
_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15}

Changes = tuple[tuple[int, int], ...]
"""Tick and level of each change."""


class StimulusError(PrintableError, ValueError):
    """A file that is no stimulus; the message says why, and names the file."""


class Stimulus(Struct, frozen=True):
    """The changes of one signal."""

    name: str
    """Name of the file, for messages."""
    changes: Changes

    def drive(self, pin: Pin, start: int) -> None:
        """Drive a pin; `start` is the tick of the file's time 0."""
        ticks = [start + tick for tick, _ in self.changes]
        pin.drive_at(ticks, [level for _, level in self.changes], PinDriver(self.name))


def read_stimulus(path: Path, signal: str = "", *, names: Sequence[str] = ()) -> Stimulus:
    """Read a signal of a file: the one of that name, or else of one of `names`, or the only one.

    A name is a signal's whole one, as `top.i2c.scl`, or its last parts. Raises StimulusError and OSError.
    """
    content = read_regular(path, LARGEST_FILE)
    shown = printable(str(path))
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise StimulusError(f"{shown}: a stimulus is a file .vcd or .csv")
    with parser_errors(f"{shown}: no {path.suffix[1:].upper()} file", StimulusError, (_Malformed,)):
        try:
            signals = reader(content)
        except _Malformed as error:
            raise StimulusError(f"{shown}: {error}") from None
    found = _chosen(signals, (signal,) if signal else names)
    if found is None and len(signals) == 1 and not signal:
        found = next(iter(signals))
    if found is None:
        wanted = signal or " or ".join(names)
        known = printable(", ".join(list(signals)[:12]), _LONGEST_NAMES) or "none"
        raise StimulusError(f"{shown}: it has no signal {wanted!r}; there are {known}")
    return Stimulus(printable(path.name), signals[found].kept())


class _Signal:
    """The changes of a signal as a file has them: ticks that never go back, and levels."""

    def __init__(self) -> None:
        self._ticks = array("q")
        self._levels = bytearray()

    def add(self, tick: int, level: int) -> None:
        """Add a change; OverflowError for a tick beyond 64 bits."""
        self._ticks.append(tick)
        self._levels.append(level)

    def kept(self) -> Changes:
        """Return the changes without what lasts no tick, and without levels that are the same as before."""
        return tuple(self._kept())

    def _kept(self) -> Iterator[tuple[int, int]]:
        before: int | None = None
        following = itertools.chain(itertools.islice(self._ticks, 1, None), (None,))
        for tick, level, after in zip(self._ticks, self._levels, following, strict=False):
            if tick != after and level != before:
                yield tick, level
                before = level


def _chosen(signals: Mapping[str, _Signal], names: Sequence[str]) -> str | None:
    for name in filter(None, names):
        for signal in signals:
            if signal == name or signal.endswith(f".{name}"):
                return signal
    return None


class _Malformed(Exception):
    """What is wrong with a file."""


def _read_vcd(content: bytes) -> dict[str, _Signal]:
    names: dict[str, list[str]] = {}
    found: dict[str, _Signal] = {}
    scopes: list[str] = []
    ticks = Fraction(TICKS_PER_SECOND, 10**9)
    tick = 0
    for token in tokenize(BytesIO(content)):
        if token.kind is TokenKind.TIMESCALE:
            ticks = Fraction(token.timescale.magnitude * TICKS_PER_SECOND, _UNITS[token.timescale.unit.value])
        elif token.kind is TokenKind.SCOPE:
            scopes.append(token.scope.ident)
        elif token.kind is TokenKind.UPSCOPE:
            scopes.pop()
        elif token.kind is TokenKind.VAR and token.var.size == 1:
            names.setdefault(token.var.id_code, []).append(".".join((*scopes, token.var.reference)))
            found.setdefault(token.var.id_code, _Signal())
        elif token.kind is TokenKind.CHANGE_TIME:
            before, tick = tick, round(token.time_change * ticks)
            if tick < before:
                raise ValueError("the time goes back")
        elif token.kind is TokenKind.CHANGE_SCALAR and token.scalar_change.id_code in found:
            found[token.scalar_change.id_code].add(tick, _LEVELS[token.scalar_change.value])
    return {name: found[code] for code, each in names.items() for name in each}


def _read_csv(content: bytes) -> dict[str, _Signal]:
    rows = csv.reader(TextIOWrapper(BytesIO(content), "utf-8", newline=""), strict=True)
    header = next(rows, [])
    if len(header) < 2:
        raise _Malformed('the first line has the names, as "time,scl,sda"')
    signals = [_Signal() for _ in header[1:]]
    before = 0
    for line, row in enumerate(rows, 2):
        if row:
            tick, levels = _row(line, row, len(header))
            if tick < before:
                raise _Malformed(f"line {line}: the time is before that of a line above")
            before = tick
            for signal, level in zip(signals, levels, strict=True):
                signal.add(tick, level)
    return {name.strip(): signal for name, signal in zip(header[1:], signals, strict=True)}


def _row(line: int, row: Sequence[str], columns: int) -> tuple[int, list[int]]:
    if len(row) != columns:
        raise _Malformed(f"line {line} has {len(row)} columns, the first line has {columns}")
    try:
        seconds = Decimal(row[0])
        levels = [_LEVELS[cell.strip()] for cell in row[1:]]
    except (InvalidOperation, KeyError):
        text = printable(",".join(row[:_LONGEST_SHOWN]), _LONGEST_SHOWN)
        raise _Malformed(f"line {line}: a time in seconds and levels 0, 1, x or z, not {text!r}") from None
    if not (seconds.is_finite() and 0 <= seconds < 10**9):
        raise _Malformed(f"line {line}: the time {printable(row[0], 20)} is not 0 s or later")
    return round(seconds * TICKS_PER_SECOND), levels


_READERS: Final[Mapping[str, Callable[[bytes], dict[str, _Signal]]]] = MappingProxyType(
    {".vcd": _read_vcd, ".csv": _read_csv}
)
