"""Lines of Python that each room of the product has, and may have: `lines.toml` says how many.

A room is what the import contracts name in `aisrv`, an add-on, or one of the other packages.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.paths import ROOT, product_modules

BUDGETS: Final = Path(__file__).with_name("lines.toml")
ADD_ONS: Final = ("aisrv", "addons")
LEAST_SLACK: Final = 200
"""Lines that a room may lie below its budget; a larger one a tenth of it."""
FEWEST_WORDS: Final = 4
"""Words of a reason."""


def room_of(module: Path) -> str:
    """Return the room of a module, by its path in the checkout."""
    parts = module.parts[:-1]
    if parts[:2] == ADD_ONS:
        return "/".join(parts[:3])
    return "/".join(parts[:2]) if parts[0] == "aisrv" else parts[0]


def measured() -> Counter[str]:
    """Return how many lines each room has."""
    lines: Counter[str] = Counter()
    for path in product_modules():
        lines[room_of(path.relative_to(ROOT))] += path.read_bytes().count(b"\n")
    return lines


def budgets(table: Mapping[str, Any]) -> Counter[str]:
    """Return how many lines each room may have: what it had, and what it has grown by for a reason."""
    lines = Counter(table["rooms"])
    for grown in table.get("grown", ()):
        lines[grown["room"]] += grown["lines"]
    return lines


def faults(lines: Mapping[str, int], table: Mapping[str, Any]) -> list[str]:
    """Return what is wrong between the lines that there are and the table, each with what to do."""
    budget = budgets(table)
    total = sum(lines.values())
    found = [f"{room}: no such room: take it out of lines.toml" for room in budget if room not in lines]
    found += [f"{room}: a new room: give it its lines in lines.toml" for room in lines if room not in budget]
    for room in lines.keys() & budget.keys():
        has, may = lines[room], budget[room]
        if has > may:
            found.append(f"{room}: {has} lines, its budget is {may}: cut, or grow it in lines.toml, and why")
        elif may - has > max(LEAST_SLACK, has // 10):
            found.append(f"{room}: {has} lines, its budget is {may}: lower it to what is there")
    if total > table["total"]:
        found.append(f"all: {total} lines, the budget is {table['total']}: cut")
    return sorted(found + _without_reason(table.get("grown", ())))


def _without_reason(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{row['room']}: say in lines.toml why it grows by {row['lines']} lines"
        for row in rows
        if len(row.get("why", "").split()) < FEWEST_WORDS
    ]


def read_budgets() -> dict[str, Any]:
    """Return the table of this checkout."""
    return tomllib.loads(BUDGETS.read_text(encoding="utf-8"))
