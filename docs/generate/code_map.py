"""The map of the code: every package with one line, by the floors of the import contract."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.generate.markdown import code, plain, table

ROOT: Final = Path(__file__).parents[2]
BESIDE: Final = ("docs", "benchmarks")
"""Packages of the checkout that no installed code imports."""


class MapError(ValueError):
    """A package that the import contract or its own docstring leaves out."""


def code_map() -> str:
    """The packages by floor, from the highest; those beside the product come last."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(each["layers"] for each in settings["contracts"] if each["type"] == "layers")
    blocks: list[str] = []
    found: set[str] = set()
    for height, layer in enumerate(reversed(layers)):
        rows = [row for room in layer.split(" | ") for row in _rows(room)]
        found |= {name for name, _ in rows}
        blocks.insert(0, f"### Floor {height}\n\n" + _table(rows))
    missing = {name for root in settings["root_packages"] for name, _ in _rows(root)} - found - {"aisrv"}
    if missing:
        raise MapError(f"no floor in pyproject.toml has {', '.join(sorted(missing))}")
    beside = "### Beside the product\n\n" + _table([row for name in BESIDE for row in _rows(name)])
    return "\n\n".join((*blocks, beside))


def _rows(room: str) -> Iterator[tuple[str, str]]:
    """A package with those in it, or a module, each with its first line."""
    path = ROOT.joinpath(*room.split("."))
    if not path.is_dir():
        yield room, _first_line(path.with_suffix(".py"))
        return
    for package in sorted(path.rglob("__init__.py")):
        yield ".".join(package.parent.relative_to(ROOT).parts), _first_line(package)


def _first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not docstring:
        raise MapError(f"{path.relative_to(ROOT)} has no docstring")
    return docstring.splitlines()[0]


def _table(rows: list[tuple[str, str]]) -> str:
    return table(("package", "what it is"), [(code(name), plain(line)) for name, line in rows])
