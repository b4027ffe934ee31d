"""The strings below the members of a class, which say what each of them is."""

import ast
import functools
import inspect
import itertools
import sys
from types import ModuleType


def member_docs(kind: type) -> dict[str, str]:
    """Return what the strings below the members of a class and its bases say, by the member's name.

    Members are fields, constants and members of an enum. Those without a string are left out. Raises
    OSError for a class whose source is not there.
    """
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        if not base.__module__.startswith(("aisrv", "phy", "flash_server", "host_tools", "docs", "tests")):
            continue
        body = _definition(base).body
        for member, after in itertools.pairwise(body):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                docs |= dict.fromkeys(_names(member), inspect.cleandoc(str(after.value.value)))
    return docs


def _definition(kind: type) -> ast.ClassDef:
    found = _definitions(sys.modules[kind.__module__])
    if kind.__qualname__ not in found:
        raise OSError(f"the source of {kind.__qualname__} is not in its module")
    return found[kind.__qualname__]


@functools.cache
def _definitions(module: ModuleType) -> dict[str, ast.ClassDef]:
    """Return the classes of a module by their qualified names."""
    found: dict[str, ast.ClassDef] = {}

    def look(node: ast.AST, before: str) -> None:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.ClassDef):
                found.setdefault(before + each.name, each)
                look(each, f"{before}{each.name}.")
            elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                look(each, f"{before}{each.name}.<locals>.")
            elif isinstance(each, ast.stmt):
                look(each, before)

    look(ast.parse(inspect.getsource(module)), "")
    return found


def _names(member: ast.stmt) -> list[str]:
    targets = member.targets if isinstance(member, ast.Assign) else [getattr(member, "target", None)]
    return [each.id for each in targets if isinstance(each, ast.Name)]
