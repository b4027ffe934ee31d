"""What a program's run would take on the chip, as `aisrv exec --report` prints it: a table, or JSON."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aisrv.device.device import Device
from aisrv.device.time_account import CommandRow, Spent, TimeAccount

_TICKS_A_MS: Final = 100_000
_NOTHING: Final = "The program sent no command."
_HOST: Final = (
    "The program's own time is that between its commands on this machine, with the way to the device. "
    "The least of a band leaves out estimates of links and loads, the most has them twice."
)


def print_reports(devices: Sequence[Device], console: Console, *, as_json: bool) -> None:
    """Print the report of each device, as a table or as a line of JSON."""
    for device in devices:
        account = device.time_account
        if account is None:
            continue
        if as_json:
            data = report_data(device.board.serial, account)
            console.file.write(msgspec.json.encode(data).decode() + "\n")
        else:
            show_report(console, account)


def total_of(rows: Sequence[CommandRow]) -> Spent:
    """Return what all commands took."""
    return sum((row.spent for row in rows), Spent())


def show_report(console: Console, account: TimeAccount) -> None:
    """Print how long the commands take on the chip, then a row for each kind of command."""
    rows = account.rows
    total = total_of(rows)
    if not rows:
        console.print(Text(_NOTHING))
        return
    band = f"{_ms(total.least)} to {_ms(total.most)}"
    on_chip = f"On the chip this takes {_ms(total.device)} ms ({band})"
    console.print(Text(f"{on_chip}, and {_ms(total.host)} ms are the program's own.", style="bold"))
    console.print(_table(rows))
    console.print(Text(_HOST, style="dim"))


def _table(rows: Sequence[CommandRow]) -> Table:
    parts = {name: [_parts(row.spent)[name] for row in rows] for name in _parts(rows[0].spent)}
    shown = {name: ticks for name, ticks in parts.items() if any(ticks)}
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title="Commands, in ms", title_justify="left")
    table.add_column("link", no_wrap=True)
    table.add_column("command", no_wrap=True)
    for heading in ("times", *shown, "sum"):
        table.add_column(heading, justify="right", no_wrap=True)
    for index, row in enumerate(rows):
        cells = [_ms(ticks[index]) if ticks[index] else "" for ticks in shown.values()]
        table.add_row(row.link, row.command, f"{row.count:,}", *cells, _ms(row.spent.device))
    return table


def _parts(spent: Spent) -> dict[str, Fraction]:
    return {
        "on link": spent.link,
        "tasks": spent.tasks,
        "load": spent.load,
        "flash": spent.flash,
        "inference": spent.inference,
    }


def report_data(serial: str | None, account: TimeAccount) -> dict[str, Any]:
    """Return a report as JSON has it; ticks are of 10 ns, and may have a fraction."""
    rows = account.rows
    return {
        "serial": serial,
        "total": _data(total_of(rows)),
        "late": account.timeline.late,
        "latest": account.timeline.latest,
        "commands": list(_rows_data(rows)),
    }


def _rows_data(rows: Sequence[CommandRow]) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield {"port": row.link, "command": row.command, "count": row.count, **_data(row.spent)}


def _data(spent: Spent) -> dict[str, float]:
    parts = {name.replace("on ", ""): float(ticks) for name, ticks in _parts(spent).items()}
    sums = {"ticks": spent.device, "low": spent.least, "high": spent.most, "host": spent.host}
    return {**parts, **{name: float(ticks) for name, ticks in sums.items()}}


def _ms(ticks: Fraction | int) -> str:
    return f"{float(ticks) / _TICKS_A_MS:,.3f}"
