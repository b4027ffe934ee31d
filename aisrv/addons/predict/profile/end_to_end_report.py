"""Predicted times of a host's commands, as a table for the terminal and as data for JSON."""

from fractions import Fraction
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aisrv.addons.predict.profile.end_to_end import EndToEnd, Row
from aisrv.addons.predict.profile.model_profile import ModelProfile
from aisrv.addons.predict.profile.wording import describe, title

_TICKS_A_MS = 100_000
_LARGE = 10
"""From so many ms on a tenth is exact enough."""
_WIDE = 100
"""Columns of a terminal with room for what each figure rests on."""
_EXPLANATION = (
    "The engine is on another tile than the links, and the framing is the classic one. The least of a band "
    "leaves out what is an estimate of links and channels, the most has it twice."
)
_POLLED = " Over SPI the host polls while the device works: both are in the column of the link."


def show_end_to_end(console: Console, profile: ModelProfile, times: EndToEnd) -> None:
    """Print the time and the rate of an inference, then a row for each command."""
    band = f"{_ms(times.low, times.ticks)} to {_ms(times.high, times.ticks)}"
    cycle = f"{title(profile)} over {times.link}: {_ms(times.ticks)} ms from input to output ({band})"
    console.print(Text(f"{cycle}, {times.rate:,.1f} a second.", style="bold"))
    console.print(Text(describe(profile.configuration)))
    if any(row.host for row in times.rows):
        in_flight = f"With the next commands in flight: {times.pipelined_rate:,.1f} a second."
        console.print(Text(in_flight))
    console.print(_table(times, is_wide=console.width >= _WIDE))
    if (stream := times.stream) is not None:
        frames = f"Of {stream.frames + stream.dropped:,} frames {stream.frames:,} are inferred"
        rate = f"{float(stream.rate):,.1f} inferences a second"
        console.print(Text(f"A camera of {float(stream.fps):g} frames a second: {rate}. {frames}."))
    console.print(Text(_EXPLANATION + (_POLLED if times.link.startswith("spi") else ""), style="dim"))


def _table(times: EndToEnd, *, is_wide: bool) -> Table:
    """Make a table without the parts that no command has; a narrow one has neither bytes nor basis."""
    rows = (times.upload, *times.rows)
    parts = {name: [_parts(row)[name] for row in rows] for name in _parts(rows[0])}
    shown = {name: ticks for name, ticks in parts.items() if any(ticks)}
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title="Commands, in ms", title_justify="left")
    table.add_column("command", no_wrap=True)
    size = ["bytes"] if is_wide else []
    for heading in (*size, *shown, "sum", "band"):
        table.add_column(heading, justify="right", no_wrap=True)
    if is_wide:
        table.add_column("basis", no_wrap=True)
    for index, row in enumerate(rows):
        cells = [_ms(ticks[index]) if ticks[index] else "" for ticks in shown.values()]
        band = f"{_ms(row.low, row.ticks)} to {_ms(row.high, row.ticks)}"
        nbytes, basis = ([f"{row.time.nbytes:,}"], [row.basis.value]) if is_wide else ([], [])
        table.add_row(row.time.command.name, *nbytes, *cells, _ms(row.ticks), band, *basis)
    return table


def _parts(row: Row) -> dict[str, Fraction]:
    time = row.time
    return {"link": time.link, "device": time.device, "inference": time.inference, "host": row.host}


def end_to_end_data(times: EndToEnd) -> dict[str, Any]:
    """Return the commands as JSON has them; ticks are of 10 ns, and may have a fraction."""
    stream = times.stream
    return {
        "link": times.link,
        "ticks": times.ticks,
        "low": times.low,
        "high": times.high,
        "ms": times.ticks / _TICKS_A_MS,
        "rate": times.rate,
        "pipelined_rate": times.pipelined_rate,
        "upload": _row_data(times.upload),
        "commands": [_row_data(row) for row in times.rows],
        "stream": None
        if stream is None
        else {
            "fps": float(stream.fps),
            "frames": stream.frames,
            "dropped": stream.dropped,
            "rate": float(stream.rate),
        },
    }


def _row_data(row: Row) -> dict[str, Any]:
    return {
        "command": row.time.command.name,
        "bytes": row.time.nbytes,
        **{name: float(ticks) for name, ticks in _parts(row).items()},
        "ticks": float(row.ticks),
        "low": float(row.low),
        "high": float(row.high),
        "basis": row.basis.value,
    }


def _ms(ticks: Fraction | int, like: Fraction | int | None = None) -> str:
    """Format ticks as ms, in microseconds below ten, or with as many decimals as `like`."""
    scale = float(ticks if like is None else like) / _TICKS_A_MS
    return f"{float(ticks) / _TICKS_A_MS:,.{3 if scale < _LARGE else 1}f}"
