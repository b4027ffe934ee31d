"""`aisrv trace summary`: what a trace of devices says, in the terminal."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from aisrv.terminal.file_types import FILE

if TYPE_CHECKING:
    from rich.table import Table

    from aisrv.monitor.trace.summary import Step, Summary

_ROWS: Final = 12
"""Rows of a table, unless all are wanted."""
UNREADABLE: Final = 2
"""Exit code for a file that is no trace."""


class _TraceUnreadable(click.ClickException):
    exit_code = UNREADABLE


@click.group()
def trace() -> None:
    """Look into traces that `--trace` of run, exec and attach records.

    The same files open in Perfetto: ui.perfetto.dev.

    \b
    Examples:
      aisrv exec --trace run.pftrace -- python tool.py
      aisrv trace summary run.pftrace
    """


@trace.command()
@click.argument("file", type=FILE)
@click.option("--command", help="Command whose path is shown. [default: the longest one]")
@click.option("--all", "all_rows", is_flag=True, help=f"Show all rows, and not the first {_ROWS}.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all rows; times in nanoseconds.")
def summary(file: Path, command: str | None, all_rows: bool, as_json: bool) -> None:
    """Say who was busy, who waited for whom, and what a command waited for.

    Times of cores are those of this machine, or of the chip with --device-time. Exit code 2 for a file that
    is no trace, or that has no such command.

    \b
    Examples:
      aisrv trace summary run.pftrace
      aisrv trace summary run.pftrace --command START_INFER
      aisrv trace summary run.pftrace --json
    """
    from aisrv.monitor.trace import summary as summaries
    from aisrv.monitor.trace.reading import TraceError

    try:
        found = summaries.summarize(file, command)
    except TraceError as error:
        raise _TraceUnreadable(str(error)) from None
    except OSError as error:
        raise _TraceUnreadable(f"{file}: {error.strerror or error}") from None
    if as_json:
        click.echo(json.dumps(summaries.as_json(found), indent=1, ensure_ascii=False))
    else:
        _show(found, None if all_rows else _ROWS)


class _Rows(NamedTuple):
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def _show(found: "Summary", most: int | None) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    cut = ", the file is cut" if found.is_cut else ""
    console.print(f"{found.path}: {_time(found.end - found.start)}, {found.events:,} events{cut}")
    for title, columns, rows in _tables(found):
        if rows:
            console.print()
            console.print(_table(title, columns, rows[:most]))
            if most is not None and len(rows) > most:
                console.print(f"  and {len(rows) - most} more: --all shows them")


def _tables(found: "Summary") -> Iterator[_Rows]:
    lasted = found.end - found.start
    several = len({each.process for each in found.cores}) > 1

    def place(process: str, name: str) -> str:
        return f"{process}: {name}" if several and process else name

    yield _Rows(
        "cores",
        ("core", "waited", "in commands"),
        [
            (place(each.process, each.name), _share(each.waiting, lasted), _share(each.commands, lasted))
            for each in found.cores
        ],
    )
    yield _Rows(
        "waits",
        ("core", "waited for", "time"),
        [
            (place(device, core), waker, _time(took))
            for (device, core, waker), took in found.waits.most_common()
        ],
    )
    yield _Rows(
        "commands",
        ("command", "count", "in all", "mean", "longest"),
        [
            (
                place(each.process, each.name),
                f"{each.count:,}",
                _time(each.total),
                _time(each.total // each.count),
                _time(0 if each.longest is None else each.longest.end - each.longest.start),
            )
            for each in found.commands
        ],
    )
    yield _Rows(
        "transfers",
        ("bus", "count", "bytes"),
        [
            (place(device, bus), f"{count:,}", f"{size:,}")
            for (device, bus), (count, size, _) in found.transfers.items()
        ],
    )
    yield _Rows(
        "traps",
        ("core", "reason", "at"),
        [(core, reason, _time(at - found.start)) for at, core, reason in found.traps],
    )
    if found.critical is not None:
        took = found.critical.end - found.critical.start
        yield _Rows(
            f"path of {found.critical.name}, {_time(took)}, at {_time(found.critical.start - found.start)}",
            ("core", "does", "time", "share"),
            [
                (each.core, each.what, _time(each.end - each.start), _share(each.end - each.start, took))
                for each in _merged(found.steps)
            ],
        )


def _merged(steps: Iterable["Step"]) -> list["Step"]:
    """Return the steps with those of a core that are the same in one, the longest first."""
    from aisrv.monitor.trace.summary import Step

    sums: dict[tuple[str, str], int] = {}
    for each in steps:
        key = (each.core, each.what)
        sums[key] = sums.get(key, 0) + each.end - each.start
    longest_first = sorted(sums.items(), key=lambda item: -item[1])
    return [Step(core, what, 0, took) for (core, what), took in longest_first if took]


def _table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        is_text = not number or name in ("waited for", "does", "reason")
        table.add_column(name, justify="left" if is_text else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _time(nanoseconds: int) -> str:
    """Write a time with three digits that count."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds} ns"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"
