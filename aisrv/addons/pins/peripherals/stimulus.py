"""Levels of pins from files: VCD (IEEE 1364, section 18), as simulators and analyzers write it, and CSV.

A CSV file has a line for each change: the time in seconds, and a level for each signal, 0, 1, x or z. Its
first line has their names: `time,scl,sda`.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from aisrv.addons.pins.peripherals.driver import PinDriver
from aisrv.addons.pins.peripherals.signal_changes import LEVELS, Changes, SignalChanges, Signals
from aisrv.addons.pins.peripherals.vcd_reader import read_vcd
from aisrv.values.parser_errors import parser_errors
from aisrv.values.printable import PrintableError, printable
from aisrv.values.regular_file import read_regular
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.ports.pin import Pin

LARGEST_FILE: Final = 8 << 20
"""Bytes."""
_LONGEST_SHOWN: Final = 100
_LONGEST_NAMES: Final = 300
_MOST_COLUMNS: Final = 1024
_MOST_LINES: Final = 1 << 18
"""Of a CSV file: it takes less than a second then."""


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
            found = _chosen(signals, (signal,) if signal else names)
            if found is None and len(signals) == 1 and not signal:
                found = next(iter(signals))
            changes = () if found is None else signals[found]().kept()
        except _Malformed as error:
            raise StimulusError(f"{shown}: {error}") from None
    if found is None:
        wanted = signal or " or ".join(names)
        known = printable(", ".join(list(signals)[:12]), _LONGEST_NAMES) or "none"
        raise StimulusError(f"{shown}: it has no signal {wanted!r}; there are {known}")
    return Stimulus(printable(path.name), changes)


def _chosen(signals: Signals, names: Sequence[str]) -> str | None:
    for name in filter(None, names):
        for signal in signals:
            if signal == name or signal.endswith(f".{name}"):
                return signal
    return None


class _Malformed(Exception):
    """What is wrong with a file."""


def _read_csv(content: bytes) -> Signals:
    lines = TextIOWrapper(BytesIO(content), "utf-8", newline="")
    header = next(csv.reader(lines, strict=True), [])
    if len(header) < 2:
        raise _Malformed('the first line has the names, as "time,scl,sda"')
    if len(header) > _MOST_COLUMNS:
        raise _Malformed(f"the first line has {len(header):,} columns, at most {_MOST_COLUMNS:,} are read")
    return {
        name.strip(): partial(_csv_changes, content, column, len(header))
        for column, name in enumerate(header[1:], 1)
    }


def _csv_changes(content: bytes, column: int, columns: int) -> SignalChanges:
    found = SignalChanges()
    rows = csv.reader(TextIOWrapper(BytesIO(content), "utf-8", newline=""), strict=True)
    next(rows)
    before = 0
    for line, row in enumerate(rows, 2):
        if line > _MOST_LINES:
            raise _Malformed(f"more than {_MOST_LINES:,} lines; a VCD file takes more changes")
        if row:
            if len(row) != columns:
                raise _Malformed(f"line {line} has {len(row)} columns, the first line has {columns}")
            tick, level = _values(line, row, column)
            if tick < before:
                raise _Malformed(f"line {line}: the time is before that of a line above")
            before = tick
            found.add(tick, level)
    return found


def _values(line: int, row: Sequence[str], column: int) -> tuple[int, int]:
    try:
        seconds = Decimal(row[0])
        level = LEVELS[row[column].strip()]
    except (InvalidOperation, KeyError):
        text = printable(",".join(row[:_LONGEST_SHOWN]), _LONGEST_SHOWN)
        raise _Malformed(f"line {line}: a time in seconds and levels 0, 1, x or z, not {text!r}") from None
    if not (seconds.is_finite() and 0 <= seconds < 10**9):
        raise _Malformed(f"line {line}: the time {printable(row[0], 20)} is not 0 s or later")
    return round(seconds * TICKS_PER_SECOND), level


_READERS: Final[Mapping[str, Callable[[bytes], Signals]]] = MappingProxyType(
    {".vcd": read_vcd, ".csv": _read_csv}
)
