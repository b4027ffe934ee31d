"""The public API, which docs/reference/api lists: its docstrings say what names and types cannot.

Numbers have units, arrays have shapes, and errors that a function raises itself are named. A docstring begins
with a noun or a verb, and no sentence says a name a second time. A method without a docstring has that of the
method that it overrides.
"""

import ast
import dis
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
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
    "aisrv.addons.graph.binary.words",
    "aisrv.addons.kernels.relocatable.memory",
    "aisrv.addons.predict.profile.html_report",
    "aisrv.engine.state",
    "aisrv.model.relocatable.container",
    "aisrv.xcore.timed.classes",
}
"""Modules from which a page takes a single name, and whose others are not for users."""

RAISING = dis.opmap["RAISE_VARARGS"]
"""The instruction that `raise` becomes."""

cached_docs: Callable[[type], dict[str, str]] = functools.cache(member_docs)
"""Several tests ask for those of each class, whose source is parsed."""


class PublicCall(NamedTuple):
    """A function, method or class that users call: its name, the text about it, and what it is given."""

    name: str
    function: Callable[..., Any]
    text: str
    around: str
    """Docstrings of its class and module."""
    parameters: list[inspect.Parameter]


QUANTITIES = re.compile(
    r"age|capacity|clock|delay|duration|frequency|interval|length|limit|offset|period|rate|room|size|time|timeout"
)
"""Last words of the names of numbers that say nothing without a unit."""
UNITS = re.compile(
    r"(?<![a-z'])(bits?|bytes?|characters?|columns?|[kmg]?hz|hertz|[kmg]i?b|elements?|entries|frames?|instructions?"
    r"|instants?|lines?|[µmnu]?s|(milli|micro|nano)?seconds?|operators?|packets?|pages?|pixels?|rows?|runs|samples?"
    r"|sectors?|ticks?|tokens?|transfers?|words?)(?![a-z])",
    re.IGNORECASE,
)
SHAPES = re.compile(
    r"\bshaped?\b|\[\w+(, \w+)*\]|\(\w+(, \w+)+\)|\b(dimension|row|column)s?\b|\b(flat|one-dimensional)\b"
)
NEITHER_NOUN_NOR_VERB = re.compile(
    r"(as|by|for|from|here|how|if|in|its?|not|of|on|so|than|that|there|these|they|this|those|to|until|what"
    r"|whatever|when|where|which|while|who|whoever|whose|why|with)\b",
    re.IGNORECASE,
)
"""First words of what leaves open what it speaks of."""
EMPTY = re.compile(r"(an?|all|and|are|as|at|be|by|each|for|in|is|its?|of|on|one|or|that|the|this|to|which)")


def is_number(annotation: object) -> bool:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return bool(re.fullmatch(r"(int|float)( \| (int|float|None))*", text))


def is_array(annotation: object) -> bool:
    """Whether a type is an array of numbers; one of bytes is plain memory."""
    return "ndarray" in str(annotation) and "uint8" not in str(annotation)


def sentences_of(name: str, text: str) -> str:
    """The sentences of a text that have a name in backquotes."""
    return " ".join(
        each for each in re.split(r"(?<=\.)\s", text) if re.search(rf"`\*{{0,2}}{re.escape(name)}`", each)
    )


def repeats(name: str, text: str, types: str = "") -> bool:
    """Whether a text has no word that is not in the name or its types already."""

    def stems(words: str) -> set[str]:
        split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", words).replace("_", " ").lower()
        return {
            re.sub(r"(e?s|ed|ing)$", "", each)
            for each in re.findall(r"-?[a-z0-9]+", split)
            if not EMPTY.fullmatch(each)
        }

    return stems(text) <= stems(f"{name} {types}")


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


@functools.cache
def calls(module: ModuleType) -> tuple[PublicCall, ...]:
    return tuple(_calls(module))


def _calls(module: ModuleType) -> Iterator[PublicCall]:
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
                    f"{name}.{method}",
                    function,
                    inspect.getdoc(getattr(member, method)) or "",
                    f"{text}\n{about}",
                    given,
                )
        elif inspect.isfunction(inspect.unwrap(member)) if callable(member) else False:
            function = inspect.unwrap(member)
            given = list(inspect.signature(function).parameters.values())
            yield PublicCall(name, function, inspect.getdoc(function) or "", about, given)


def raised(function: Callable[..., Any]) -> set[str]:
    """The exceptions that a function raises itself, by name; those of its inner functions are theirs."""
    if RAISING not in inspect.unwrap(function).__code__.co_code[::2]:
        return set()  # its source need not be looked for
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


class Value(NamedTuple):
    """A parameter, a result or a field: what it is called, its type, and all that is said of it."""

    owner: str
    name: str
    annotation: object
    text: str


@functools.cache
def values(module: ModuleType) -> tuple[Value, ...]:
    return tuple(_values(module))


def _values(module: ModuleType) -> Iterator[Value]:
    for call in calls(module):
        for each in call.parameters:
            text = call.text + (
                call.around if is_array(each.annotation) else sentences_of(each.name, call.around)
            )
            yield Value(call.name, each.name, each.annotation, text)
        name = call.name.rpartition(".")[2]
        yield Value(
            call.name, name, inspect.signature(call.function).return_annotation, call.text + call.around
        )
    for title, member in members(module):
        if inspect.isclass(member) and (is_dataclass(member) or issubclass(member, Struct)):
            docs, about = cached_docs(member), inspect.getdoc(member) or ""
            for name, annotation in vars(member).get("__annotations__", {}).items():
                if not name.startswith("_"):
                    yield Value(title, name, annotation, docs.get(name, "") + about)


@functools.cache
def docstrings(module: ModuleType) -> tuple[tuple[str, str], ...]:
    """Each docstring of a module with its owner's name; strings below fields count as such."""
    return tuple(_docstrings(module))


def _docstrings(module: ModuleType) -> Iterator[tuple[str, str]]:
    yield module.__name__, inspect.getdoc(module) or ""
    for title, member in members(module):
        if inspect.isclass(member):
            yield title, member.__doc__ or ""
            yield from ((f"{title}.{name}", text) for name, text in cached_docs(member).items())
            yield from ((f"{title}.{name}", each.__doc__ or "") for name, each, _ in methods(member))
        elif inspect.isfunction(inspect.unwrap(member)) if callable(member) else False:
            yield title, member.__doc__ or ""


@pytest.mark.parametrize("name", MODULES)
def test_everything_has_a_docstring_of_its_own_or_inherits_one(name: str) -> None:
    found = calls(importlib.import_module(name))
    assert [each.name for each in found if not each.text.strip()] == []


@pytest.mark.parametrize("name", MODULES)
def test_numbers_have_units(name: str) -> None:
    found = values(importlib.import_module(name))
    assert [
        f"{each.owner}: {each.name}"
        for each in found
        if is_number(each.annotation)
        and QUANTITIES.fullmatch(each.name.rpartition("_")[2])
        and not UNITS.search(f"{each.name} {each.text}")
    ] == []


@pytest.mark.parametrize("name", MODULES)
def test_arrays_have_shapes(name: str) -> None:
    found = values(importlib.import_module(name))
    assert [
        f"{each.owner}: {each.name}"
        for each in found
        if is_array(each.annotation) and not SHAPES.search(each.text)
    ] == []


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_begin_with_a_noun_or_a_verb(name: str) -> None:
    found = docstrings(importlib.import_module(name))
    assert [
        f"{owner}: {text.splitlines()[0]}" for owner, text in found if NEITHER_NOUN_NOR_VERB.match(text)
    ] == []


@pytest.mark.parametrize("name", MODULES)
def test_no_sentence_says_a_name_again(name: str) -> None:
    """Neither the string below a field, nor a sentence such as "`bus` is the bus."."""
    module = importlib.import_module(name)
    again = []
    for title, member in members(module):
        if inspect.isclass(member):
            given = {key: str(each) for key, each in vars(member).get("__annotations__", {}).items()}
            again += [
                f"{title}.{field}"
                for field, text in cached_docs(member).items()
                if repeats(field, text, f"{title} {given.get(field, '').partition('Meta(')[0]}")
            ]
    for owner, text in docstrings(module):
        for said in re.finditer(r"`(\w+)` (?:is|are) ([^.;,`]+)[.;,]", text):
            if repeats(said[1], said[2]):
                again.append(f"{owner}: {said[0]}")
    assert again == []


@pytest.mark.parametrize("name", MODULES)
def test_errors_that_are_raised_are_named(name: str) -> None:
    found = calls(importlib.import_module(name))
    assert [
        f"{call.name}: {error}"
        for call in found
        for error in sorted(raised(call.function))
        if not re.search(rf"\b{error}s?\b", f"{call.text}\n{call.around}", re.IGNORECASE)
    ] == []


def test_modules_that_pages_for_users_import_are_in_the_reference() -> None:
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "inside"]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    named = {name for text in texts for name in re.findall(r"^ *from ([\w.]+) import", text, re.MULTILINE)}
    ours = {name for name in named if name.startswith(("aisrv.", "phy.", "flash_server.", "host_tools."))}
    packages = {name for name in ours if ROOT.joinpath(*name.split(".")).is_dir()}
    assert sorted(ours - packages - set(MODULES) - INSIDE) == []


def test_the_names_of_the_package_are_in_the_reference() -> None:
    homes = {name: getattr(aisrv, name).__module__ for name in aisrv.__all__ if not name.startswith("_")}
    assert [name for name, home in homes.items() if home not in MODULES] == []
