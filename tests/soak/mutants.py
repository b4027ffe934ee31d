"""Mutants of modules that guard data or processes: a statement or condition is changed; tests must notice.

    python -m tests.soak.mutants chanend                                  all of a module of the list below
    python -m tests.soak.mutants storage --lines 100-140                  those of some lines
    python -m tests.soak.mutants aisrv/xcore/tile.py --tests tests/xcore  of any module, with its tests

Prints each one that lives, and ends with 1 where there is any. Some are no faults: they change a message, or
what is only quicker. The checkout stays as it is: the tests run in a copy, whose other processes import the
mutant, too.
"""

import argparse
import ast
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.soak.check import Check, Figures
from tests.support.paths import ROOT


class Target(NamedTuple):
    """A module, and the files of tests that must notice; the quickest that find most come first."""

    path: str
    tests: Sequence[str]


_PROCESS: Final = "tests/inference/process"


def _substrate(module: str, *tests: str) -> Target:
    return Target(f"aisrv/xcore/{module}.py", tuple(f"tests/xcore/test_{each}.py" for each in tests))


_ENDS: Final = (
    *("chanend", "chanend_packets", "switch_routes", "select_on_call", "select", "verb", "channel_at_once"),
    *("runtime_fairness", "trace_runs", "xcore_statistics", "report", "node_deadlock", "tile_resource_rules"),
    *("verb_cancellation", "xcore_against_oracle", "chanend_shortcuts", "trace"),
)
"""The tests of channel ends."""

_PORTS: Final = ("port", "port_protocol", "clockblock", "edges", "port_against_oracle", "timed_port")
"""The tests of ports."""

TARGETS: Final = {
    "storage": Target("flash_server/chip/storage.py", ("tests/flash_server/chip/test_storage.py",)),
    "programmer": Target("flash_server/chip/programmer.py", ("tests/flash_server/chip/test_serprog.py",)),
    "sandbox": Target(
        "aisrv/inference/process/sandbox.py",
        tuple(f"{_PROCESS}/test_sandbox{each}.py" for each in ("_layers", "_filter", "")),
    ),
    "isolation": Target(
        "aisrv/inference/process/isolation.py",
        tuple(
            f"{_PROCESS}/test_{each}.py" for each in ("worker", "isolation_distrust", "isolation_watchdog")
        ),
    ),
    "verb_runner": _substrate("verb_runner", *_ENDS, "verb_whole"),
    "routes": _substrate("routes", *_ENDS),
    "chanend": _substrate("chanend", *_ENDS),
    "handover": _substrate(
        "handover", "channel_at_once", "array", "channel_protocols", "trace_runs", "chanend_shortcuts"
    ),
    "select": _substrate(
        "select",
        *("select", "select_on_call", "xcore_statistics", "report", "node_deadlock", "tile_resource_rules"),
        "runtime_fairness",
    ),
    "port": _substrate("port", *_PORTS),
    "port_input": _substrate("port_input", *_PORTS),
    "port_output": _substrate("port_output", *_PORTS),
    "port_arithmetic": _substrate("port_arithmetic", *_PORTS),
    "port_stepped": _substrate("port_stepped", *_PORTS),
    "port_ready": _substrate("port_ready", *_PORTS),
    "port_ready_edges": _substrate("port_ready_edges", *_PORTS),
    "clockblock": _substrate("clockblock", *_PORTS),
    "pin": _substrate("pin", "pin", "pins", "wire", *_PORTS),
    "array": _substrate("array", "array", "trace_runs", "xcore_against_oracle"),
}
SECONDS: Final = 180
"""After which the tests count as failed: many a mutant loops."""
COPIED: Final = ("aisrv", "flash_server", "host_tools", "phy", "tests")
MOST_LIVING: Final = 0.05
"""Share of mutants that may live, of those that are tried."""

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
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name("logger")))):
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


class Copy:
    """A copy of the checkout, in which a module is another while its tests run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs = 0
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)

    def source(self, target: Target) -> bytes:
        """Return what a module is without a mutant."""
        return (self._folder / target.path).read_bytes()

    def passes(self, target: Target, source: str) -> bool:
        """Whether all tests of a module pass where its source is another."""
        path = self._folder / target.path
        own = self.source(target)
        path.write_text(source, encoding="utf-8")
        self._runs += 1
        os.utime(path, (self._runs, self._runs))  # what Python keeps compiled goes by the time
        options = ["--long", "-x", "-q", "--tb=no", "--assert=plain", "-p", "no:xdist"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *target.tests],
            cwd=self._folder,
            env=os.environ | {"PYTHONPATH": str(self._folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(SECONDS) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            path.write_bytes(own)


@contextmanager
def copied() -> Iterator[Copy]:
    """Copy the checkout for as long as the block lasts."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Copy(Path(folder))


def living(copy: Copy, target: Target, numbers: Sequence[int]) -> Iterator[tuple[Mutant, bool]]:
    """Try the mutants of these numbers, and yield each with whether it lives.

    Raises AssertionError where the tests fail without any: then they would notice nothing.
    """
    source = copy.source(target)
    assert copy.passes(target, ast.unparse(ast.parse(source))), f"{target.tests}: they fail without a mutant"
    wanted = set(numbers)
    for number, mutant in enumerate(mutants(source)):
        if number in wanted:
            yield mutant, copy.passes(target, ast.unparse(mutant.tree))


def run(size: int, seed: int) -> Figures:
    """Try so many mutants, drawn from all of all modules; a share of `MOST_LIVING` may live."""
    if not size:
        return {"share": "0.0%"}
    figures: dict[str, str] = {}
    alive: list[str] = []
    with copied() as copy:
        everyone = [
            (name, number)
            for name, target in TARGETS.items()
            for number, _ in enumerate(mutants(copy.source(target)))
        ]
        drawn = random.Random(seed).sample(everyone, min(size, len(everyone)))
        for name, target in TARGETS.items():
            numbers = [number for each, number in drawn if each == name]
            if not numbers:
                continue
            found = [
                f"{name} {mutant.line}: {mutant.change}"
                for mutant, lives in living(copy, target, numbers)
                if lives
            ]
            figures[name] = f"{len(found)} of {len(numbers)} live"
            alive += found
            print(*found, sep="\n", end="\n" if found else "", flush=True)
    share = len(alive) / len(drawn)
    assert len(alive) <= math.ceil(MOST_LIVING * len(drawn)), f"{share:.1%} live:\n" + "\n".join(alive)
    return {**figures, "share": f"{share:.1%}"}


CHECK: Final = Check(
    "mutants",
    "mutants of modules that guard data or processes, under their tests",
    "mutants",
    400,
    0,  # the tests of a module take seconds: test_mutants.py has a quicker one
    60,
    run,
)


def main() -> None:
    """Try the mutants of a module as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("module", help=f"{', '.join(TARGETS)}, or the path of another")
    parser.add_argument("--lines", default="1-9999", help="FIRST-LAST")
    parser.add_argument("--tests", nargs="+", default=None, help="files or folders of tests")
    options = parser.parse_args()
    first, last = map(int, options.lines.split("-"))
    known = TARGETS.get(options.module)
    tests = options.tests or (known.tests if known else ())
    if not tests:
        parser.error(f"--tests names the tests of {options.module}")
    target = Target(known.path if known else options.module, tests)
    counts: Counter[bool] = Counter()
    with copied() as copy:
        within = [
            number
            for number, mutant in enumerate(mutants(copy.source(target)))
            if first <= mutant.line <= last
        ]
        for mutant, lives in living(copy, target, within):
            counts[lives] += 1
            if lives:
                print(f"{target.path}:{mutant.line}: {mutant.change}", flush=True)
    print(f"{target.path}: {counts.total()} mutants, {counts[True]} live", flush=True)
    sys.exit(counts[True] > 0)


if __name__ == "__main__":
    main()
