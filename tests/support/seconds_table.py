"""Where the time of the tests goes, by folder and by test: `python -m tests.support.seconds_table FOLDER`.

The folder is that of `pytest --seconds=FOLDER`; `make seconds` runs all tests with it.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.support.seconds import COLLECTING, Row, Seconds, read_rows

SLOWEST = 15
"""So many single tests are shown."""


def folder_of(name: str) -> str:
    """Return the folder below tests that a test is in."""
    return "/".join(name.partition("::")[0].split("/")[:2]) if "/" in name else name


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Return the lines of a table in Markdown: folders, those that take the most CPU time first."""
    yield "| folder | tests | pytest | started programs | clock |"
    yield "|---|---|---|---|---|"
    groups: defaultdict[str, list[Seconds]] = defaultdict(list)
    for row in rows:
        groups[folder_of(row.name)].append(row.seconds)
    for name, seconds in sorted(groups.items(), key=lambda group: -cpu(group[1])):
        shown = f"{name}, {len(seconds)} processes" if name == COLLECTING else f"`{name}`"
        yield line(shown, 0 if name == COLLECTING else len(seconds), seconds)
    tests = [row for row in rows if row.name != COLLECTING]
    yield line("all", len(tests), [row.seconds for row in rows])


def slowest(rows: Sequence[Row], key: Callable[[Seconds], float]) -> Iterator[str]:
    """Return the lines of a table of the tests that take the most of what `key` says."""
    yield "| test | pytest | started programs | clock |"
    yield "|---|---|---|---|"
    tests = sorted((row for row in rows if row.name != COLLECTING), key=lambda row: -key(row.seconds))
    for row in tests[:SLOWEST]:
        yield f"| `{row.name}` | {columns([row.seconds], 1)} |"


def line(name: str, tests: int, seconds: Sequence[Seconds]) -> str:
    return f"| {name} | {f'{tests:,}' if tests else ''} | {columns(seconds, 0)} |"


def columns(seconds: Sequence[Seconds], digits: int) -> str:
    sums = (sum(getattr(each, field) for each in seconds) for field in ("own", "programs", "clock"))
    return " | ".join(f"{each:.{digits}f} s" for each in sums)


def cpu(seconds: Sequence[Seconds]) -> float:
    return sum(each.own + each.programs for each in seconds)


def report(rows: Sequence[Row]) -> str:
    """Return all tables, with what each one shows."""
    return "\n".join(
        [
            "CPU seconds by folder:",
            "",
            *table(rows),
            "",
            "The most CPU time:",
            "",
            *slowest(rows, lambda each: each.own + each.programs),
            "",
            "The longest waits:",
            "",
            *slowest(rows, lambda each: each.clock - each.own - each.programs),
        ]
    )


if __name__ == "__main__":
    print(report(read_rows(Path(sys.argv[1]))))
