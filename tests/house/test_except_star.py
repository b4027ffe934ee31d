"""No handler of `except*` raises a new exception: Python 3.11.0 to 3.11.3 would put it into a group."""

import ast
from collections.abc import Iterator

from tests.support.paths import ROOT, product_sources

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def raised(node: ast.AST) -> Iterator[ast.Raise]:
    """New exceptions that run as a part of this node."""
    if isinstance(node, ast.Raise) and node.exc is not None:
        yield node
    if not isinstance(node, FUNCTIONS):
        for child in ast.iter_child_nodes(node):
            yield from raised(child)


def raised_in_handlers(source: str) -> list[int]:
    """Lines of what handlers of `except*` raise."""
    return [
        each.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.TryStar)
        for handler in node.handlers
        for each in raised(handler)
    ]


def test_it_is_found() -> None:
    source = "try: f()\nexcept* E:\n  if g():\n    raise G() from None\n  raise\n"
    assert raised_in_handlers(source) == [4]


def test_no_handler_raises_a_new_exception() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, source in product_sources(r"except\s*\*").items()
        for line in raised_in_handlers(source)
    ]
    assert places == []
