"""The tables of figures, from the files that benchmarks write."""

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.results import FOLDER, NOT_RUN, read
from benchmarks.rows import Row
from docs.generate.markdown import table

DENSE: Final = 0.6
"""The share of cells from which rows `LINE: COLUMN` make a table with columns."""

_Cells = Mapping[tuple[str, str], float]
"""Of a line: figures by column and unit."""


def result_names() -> list[str]:
    """Return the benchmarks that have a file."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def result_table(name: str) -> str:
    """Return when, where and at which commit a benchmark ran, and its figures in a table."""
    result = read(name)
    commit = f", commit {result.commit}" if result.commit else ""
    beside = f"; {result.beside}" if result.beside else ""
    return f"{result.date}{commit}; {result.machine}{beside}.\n\n{figures(result.rows)}"


def missing_table() -> str:
    """Return the benchmarks without figures, and why."""
    return table(["benchmark", "why"], [[f"`{name}`", why] for name, why in NOT_RUN.items()])


def figures(rows: Sequence[Row]) -> str:
    """Return rows as a table: with columns where most have a name `LINE: COLUMN`, others in a list."""
    lines: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        line, _, column = row.name.partition(": ")
        lines.setdefault(line, {})[column, row.unit.replace("us", "µs")] = row.value
    wide = {line: cells for line, cells in lines.items() if len(cells) > 1}
    columns = list(dict.fromkeys(column for cells in wide.values() for column in cells))
    if len(wide) < 2 or sum(map(len, wide.values())) < DENSE * len(wide) * len(columns):
        return _list(rows)
    others = [row for row in rows if row.name.partition(": ")[0] not in wide]
    tables = [_matrix(wide, columns), *([_list(others)] if others else [])]
    return "\n\n".join(tables)


def _matrix(lines: Mapping[str, _Cells], columns: Sequence[tuple[str, str]]) -> str:
    """Return a table of lines and columns, the more of which go down."""
    titles = [f"{name}, {unit}" if unit else name for name, unit in columns]
    cells = [
        [_number(line[column]) if column in line else "" for column in columns] for line in lines.values()
    ]
    if len(columns) > len(lines):
        turned = zip(*cells, strict=True)
        return table(["what", *lines], [[title, *row] for title, row in zip(titles, turned, strict=True)])
    return table(["what", *titles], [[name, *row] for name, row in zip(lines, cells, strict=True)])


def _list(rows: Sequence[Row]) -> str:
    shown = [(row.name, f"{_number(row.value)} {row.unit.replace('us', 'µs')}".strip()) for row in rows]
    return table(["what", "figure"], shown)


def _number(value: float) -> str:
    """Return a figure with three digits, or all of a whole number."""
    if value == int(value) or abs(value) >= 100:
        return f"{round(value):,}"
    return f"{value:.3g}"
