"""Mutants of a module of the substrate: one statement or condition is changed, and its tests must notice.

    python -m tests.soak.mutants chanend                  all of them
    python -m tests.soak.mutants array --lines 100-140    those of some lines
    python -m tests.soak.mutants select --tests test_select.py test_select_on_call.py

Prints each one that lives, and ends with 1 where there is any. Some are no faults: they change a message, or
what is only quicker. The files stay as they are: a process of its own imports another tree.
"""

import argparse
import ast
import importlib.abc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, NamedTuple

import pytest

from tests.support.paths import ROOT

TESTS: Final = (
    "test_chanend.py",
    "test_switch_routes.py",
    "test_select_on_call.py",
    "test_array.py",
    "test_select.py",
    "test_channel_protocols.py",
    "test_xcore_against_oracle.py",
    ".",
)
"""In this order, since the quickest find most."""
SECONDS: Final = 120
"""After which the tests count as failed: many a mutant loops."""

_OTHERS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


class Mutant(NamedTuple):
    """One thing that was changed."""

    line: int
    change: str
    tree: ast.Module
    """Has the change until the next mutant is made."""


def mutants(source: bytes) -> Iterator[Mutant]:
    """Make all mutants of the functions of a module."""
    tree = ast.parse(source)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in list(ast.walk(function)):
            for line, change in _changes(node):
                yield Mutant(line, change, tree)


def _changes(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Change one thing of a node after another, and say which; each is undone before the next."""
    for name in ("body", "orelse", "finalbody"):
        if isinstance(body := getattr(node, name, None), list):
            yield from _without_statements(body)
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            yield from _with_the_other_condition(node)
        case ast.BoolOp():
            yield from _without_operands(node)
        case ast.Compare(ops=[operator, *_]) if type(operator) in _OTHERS:
            text = ast.unparse(node)
            node.ops[0] = _OTHERS[type(operator)]()
            yield node.lineno, f"{ast.unparse(node)} for {text}"
            node.ops[0] = operator


def _without_statements(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    for i, statement in enumerate(body):
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Pass():
                continue
        body[i] = ast.copy_location(ast.Pass(), statement)
        yield statement.lineno, f"without {ast.unparse(statement).splitlines()[0]}"
        body[i] = statement


def _with_the_other_condition(node: ast.If | ast.While | ast.IfExp) -> Iterator[tuple[int, str]]:
    condition = node.test
    node.test = ast.UnaryOp(ast.Not(), condition)
    yield node.lineno, f"not: {ast.unparse(condition)}"
    node.test = condition


def _without_operands(node: ast.BoolOp) -> Iterator[tuple[int, str]]:
    operands = node.values
    for operand in operands:
        others = [other for other in operands if other is not operand]
        node.values = others * 2 if len(others) == 1 else others
        yield operand.lineno, f"without operand {ast.unparse(operand)}"
    node.values = operands


class _Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a mutant in place of its module."""

    def __init__(self, name: str, code: CodeType) -> None:
        self._name = name
        self._code = code

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


def lives(module: str, path: Path, mutant: Mutant, tests: Sequence[str]) -> bool:
    """Whether all tests pass with the mutant, in a copy of this process, which lacks the module yet."""
    code = compile(ast.fix_missing_locations(mutant.tree), path, "exec")
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        signal.alarm(SECONDS)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        sys.meta_path.insert(0, _Importer(module, code))
        options = ["-x", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]
        status = int(pytest.main([*options, *(str(ROOT / "tests/xcore" / test) for test in tests)]))
    finally:
        os._exit(status)


def main() -> None:
    """Try the mutants of a module as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("module", help="of aisrv.xcore, such as chanend")
    parser.add_argument("--lines", default="1-9999", help="FIRST-LAST")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files of tests/xcore")
    options = parser.parse_args()
    first, last = map(int, options.lines.split("-"))
    path = ROOT / "aisrv/xcore" / f"{options.module}.py"
    tried = living = 0
    for mutant in mutants(path.read_bytes()):
        if first <= mutant.line <= last:
            tried += 1
            if lives(f"aisrv.xcore.{options.module}", path, mutant, options.tests):
                living += 1
                print(f"{options.module} {mutant.line}: {mutant.change}", flush=True)
    print(f"{options.module}: {tried} mutants, {living} live", flush=True)
    sys.exit(living > 0)


if __name__ == "__main__":
    main()
