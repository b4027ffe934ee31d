"""The table of what communication takes on the chip, from the constants and the strings below them."""

import ast
import inspect
from collections.abc import Iterator

from aisrv.xcore.timed import device_costs
from docs.generate.markdown import code, plain, table

ESTIMATE, DECISION = "Estimate:", "Decision."
UNITS = {
    "SLOTS": "issue slots",
    "CLOCKS": "clocks of a core",
    "TICKS": "ticks",
    "ROUTES": "routes",
    "HZ": "Hz",
}


def device_cost_table() -> str:
    """Return the constants of `aisrv.xcore.timed.device_costs`, each with its unit, meaning and basis."""
    rows = (
        (code(name), f"{value:,} {_unit(name)}", plain(text), _basis(text))
        for name, value, text in _constants()
    )
    return table(("constant", "value", "what it is", "basis"), rows)


def _constants() -> Iterator[tuple[str, int, str]]:
    """Yield name, value and text of each constant; those in a row without a text have that of the last."""
    waiting: list[str] = []
    for statement in ast.parse(inspect.getsource(device_costs)).body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            waiting.append(statement.target.id)
        elif waiting and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            for name in waiting:
                yield name, getattr(device_costs, name), str(statement.value.value)
            waiting.clear()


def _unit(name: str) -> str:
    """Return the unit that the last word of a name says; issue slots are clocks of their own."""
    return "clocks" if name == "ISSUE_SLOTS" else UNITS[name.rpartition("_")[2]]


def _basis(text: str) -> str:
    return "estimate" if ESTIMATE in text else "decision" if DECISION in text else "fact"
