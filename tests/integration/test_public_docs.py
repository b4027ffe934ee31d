"""The public API, which docs/reference/api lists: everything in it says what its parameters mean.

A parameter is explained where its name stands: in the docstring of its function, or in backquotes in that of
the class or module. One whose type is a class of this project that bears its name, such as `board: Board`, is
explained there. A field has a string below it, or stands in the docstring of its class.
"""

import ast
import enum
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from msgspec import Struct

import aisrv
from docs.generate.member_docs import member_docs
from tests.support.paths import ROOT

PAGES = sorted((ROOT / "docs/reference/api").glob("*.md"))
MODULES = [name for page in PAGES for name in re.findall(r"^::: ([a-z_.]+)$", page.read_text(), re.MULTILINE)]
"""Those of the pages; a class that stands on a page by itself is of one of them."""
INSIDE = {
    "aisrv.analysis.profile.html_report",
    "aisrv.engine.state",
    "aisrv.graph.binary.words",
    "aisrv.relocatable.container",
    "aisrv.relocatable.memory",
}
"""Modules from which a page takes a single name, and whose others are not for users."""


class PublicCall(NamedTuple):
    """A function, method or class that users call: its name, the text about it, and what it is given."""

    name: str
    function: Callable[..., Any]
    text: str
    around: str
    """Docstrings of its class and module."""
    parameters: list[inspect.Parameter]


def is_named(word: str, text: str) -> bool:
    """Whether a text has a parameter's name, or its words in the singular or plural."""
    words = re.escape(word.strip("_").replace("_", " "))
    flat = " ".join(text.replace("`", "").split())
    return bool(
        re.search(rf"\b{re.escape(word)}\b", text) or re.search(rf"\b{words}(?:e?s)?\b", flat, re.IGNORECASE)
    )


def is_explained(call: PublicCall, parameter: inspect.Parameter) -> bool:
    if parameter.name.startswith("_") or is_named(parameter.name, call.text):
        return True
    if re.search(rf"`\*{{0,2}}{re.escape(parameter.name)}`", call.around):
        return True
    types = re.findall(r"[A-Z]\w+", str(parameter.annotation).rpartition(".")[2])
    last = parameter.name.rpartition("_")[2].rstrip("s")
    return any(last in re.sub(r"s$", "", kind.lower()) for kind in types)


def members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, member in vars(module).items():
        if not name.startswith("_") and getattr(member, "__module__", None) == module.__name__:
            yield name, member


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """The public methods and properties of a class, with whether they have a `self`."""
    for name, member in vars(kind).items():
        is_static = isinstance(member, staticmethod)
        function = getattr(member, "__func__", None) or (
            member.fget if isinstance(member, property) else member
        )
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, function, not is_static


def calls(module: ModuleType) -> Iterator[PublicCall]:
    about = inspect.getdoc(module) or ""
    for name, member in members(module):
        if inspect.isclass(member):
            text = inspect.getdoc(member) or ""
            made = vars(member).get("__init__")
            if (
                inspect.isfunction(made)
                and not is_dataclass(member)
                and not getattr(member, "_is_protocol", False)
            ):
                both = f"{text}\n{made.__doc__ or ''}"
                yield PublicCall(
                    name, made, both, about, list(inspect.signature(made).parameters.values())[1:]
                )
            for method, function, has_self in methods(member):
                given = list(inspect.signature(function).parameters.values())[1 if has_self else 0 :]
                yield PublicCall(
                    f"{name}.{method}", function, inspect.getdoc(function) or "", f"{text}\n{about}", given
                )
        elif inspect.isfunction(inspect.unwrap(member)) if callable(member) else False:
            function = inspect.unwrap(member)
            given = list(inspect.signature(function).parameters.values())
            yield PublicCall(name, function, inspect.getdoc(function) or "", about, given)


def raised(function: Callable[..., Any]) -> set[str]:
    """The exceptions that a function raises itself, by name; those of its inner functions are theirs."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found, waiting = set(), list(tree.body[0].body)  # type: ignore[attr-defined]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if (
            isinstance(node, ast.Raise)
            and isinstance(node.exc, ast.Call)
            and isinstance(node.exc.func, ast.Name)
        ):
            found.add(node.exc.func.id)
        waiting += ast.iter_child_nodes(node)
    return {
        name for name in found if name[0].isupper() and name not in ("AssertionError", "NotImplementedError")
    }


@pytest.mark.parametrize("name", MODULES)
def test_parameters_are_explained(name: str) -> None:
    found = calls(importlib.import_module(name))
    assert [
        f"{call.name}({parameter.name})"
        for call in found
        for parameter in call.parameters
        if not is_explained(call, parameter)
    ] == []


@pytest.mark.parametrize("name", MODULES)
def test_fields_and_members_are_explained(name: str) -> None:
    missing = []
    for title, member in members(importlib.import_module(name)):
        if not inspect.isclass(member):
            continue
        text, docs = inspect.getdoc(member) or "", member_docs(member)
        if issubclass(member, enum.Enum):
            names = [each.name for each in member]
        elif is_dataclass(member):
            names = [each.name for each in fields(member) if each.init and not each.name.startswith("_")]
        elif issubclass(member, Struct):
            names = list(member.__struct_fields__)
        else:
            names = []
        missing += [f"{title}.{each}" for each in names if each not in docs and not is_named(each, text)]
    assert missing == []


@pytest.mark.parametrize("name", MODULES)
def test_errors_that_are_raised_are_named(name: str) -> None:
    found = calls(importlib.import_module(name))
    assert [
        f"{call.name}: {error}"
        for call in found
        for error in sorted(raised(call.function))
        if not re.search(rf"\b{error}s?\b", f"{call.text}\n{call.around}", re.IGNORECASE)
    ] == []


def test_modules_that_pages_import_are_in_the_reference() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"^ *from ([\w.]+) import", page, re.MULTILINE)}
    ours = {name for name in named if name.startswith(("aisrv.", "phy.", "flash_server.", "host_tools."))}
    packages = {name for name in ours if ROOT.joinpath(*name.split(".")).is_dir()}
    assert sorted(ours - packages - set(MODULES) - INSIDE) == []


def test_the_names_of_the_package_are_in_the_reference() -> None:
    homes = {name: getattr(aisrv, name).__module__ for name in aisrv.__all__ if not name.startswith("_")}
    assert [name for name, home in homes.items() if home not in MODULES] == []
