"""The table of the operators that the kernels compute."""

from itertools import groupby

from aisrv.addons.kernels.network.operators import OPERATORS


def operator_table() -> str:
    """Return a row for neighboring operators that one computes, of the same types."""
    rows = [
        (each.by, ", ".join(filter(None, (each.types, each.floats and "float32"))), _named(name, each.note))
        for name, each in OPERATORS.items()
    ]
    lines = ["| computed by | types | operators |", "|---|---|---|"]
    for (by, types), group in groupby(rows, lambda row: row[:2]):
        lines.append(f"| {by} | {types} | {', '.join(name for _, _, name in group)} |")
    return "\n".join(lines)


def _named(name: str, note: str) -> str:
    return f"{name} ({note})" if note else name
