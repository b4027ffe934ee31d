"""Where things stand in a TOML text."""

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.values.settings.errors import KeyPath
from aisrv.values.settings.toml_lines import depth_of, lines_of, nearest_line
from tests.support.amounts import in_ci

TEXT = """# a comment with [brackets] = "and quotes
title = "a # is not a comment here, [nor] a table" # but here

[node]
clock = 600
size.width = 3
"""


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        (TEXT, ("title",), 2),
        (TEXT, ("node",), 4),
        (TEXT, ("node", "clock"), 5),
        (TEXT, ("node", "size"), 6),
        (TEXT, ("node", "size", "width"), 6),
        ("[[engines]]\n[[engines]]\narena = 1\n", ("engines",), 1),
        ("[[engines]]\n[[engines]]\narena = 1\n", ("engines", 0), 1),
        ("[[engines]]\n[[engines]]\narena = 1\n", ("engines", 1), 2),
        ("[[engines]]\n[[engines]]\narena = 1\n", ("engines", 1, "arena"), 3),
        ("[[a]]\n[a.b]\nc=1\n[[a]]\n[a.b]\nc=2\n", ("a", 1, "b", "c"), 6),
        ("[[a]]\n[[a.b]]\n[[a.b]]\nx=1\n[[a]]\n[[a.b]]\nx=2\n", ("a", 0, "b", 1, "x"), 4),
        ("[[a]]\n[[a.b]]\n[[a.b]]\nx=1\n[[a]]\n[[a.b]]\nx=2\n", ("a", 1, "b", 0, "x"), 7),
        ("a = [\n  1, # ], \n\n  2,\n]\nb = 3", ("a", 1), 4),
        ("a = [\n  1, # ], \n\n  2,\n]\nb = 3", ("b",), 6),
        ("a = [{b = 1},\n{b = 2, c = {d = 3}}]\n", ("a", 1, "c", "d"), 2),
        ('a = """one\n]\n""\n"""\nb = 1', ("b",), 5),
        ('a = """x\\\n  \\""" y"""""\nb = 1', ("b",), 3),
        ("a = '''\n\"\n''''\nb = 1", ("b",), 4),
        ('a = "\\"]"\nb = 1', ("b",), 2),
        ("a = '\\'\nb = 1", ("b",), 2),
        ('"a.b" . c = 1.5\nd = 2', ("a.b", "c"), 1),
        ("\n'a b' = 1979-05-27 07:32:00Z\nd = 2", ("a b",), 2),
        ('"\\u00e4" = 1', ("ä",), 1),
        ("a = 1\r\nb = 2\r\n", ("b",), 2),
        ("[ a . 'b' ]\nc = 1", ("a", "b", "c"), 2),
        ("a = []\nb = {}\n[c]", ("c",), 3),
    ],
)
def test_line_of_a_path(text: str, path: KeyPath, line: int) -> None:
    tomllib.loads(text)
    assert lines_of(text)[path] == line


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("engines", 1, "arena"), 3),
        (("engines", 1, "threads"), 2),
        (("engines", 7), 1),
        (("usb", "tile"), 1),
        ((), 1),
    ],
)
def test_what_is_not_there_is_sought_around(path: KeyPath, line: int) -> None:
    assert nearest_line(lines_of("[[engines]]\n[[engines]]\narena = 1\n"), path) == line


PIECES = (
    *("\n", "\n", " ", "=", "=", ".", ",", "[", "]", "[[", "]]", "{", "}", "#"),
    *(
        "a",
        "b",
        "a = 1\n",
        "b=",
        "'",
        '"',
        "'''",
        '"""',
        "\\",
        "1.5",
        "true",
        "1979-05-27",
        "[a]\n",
        "[[b]]\n",
    ),
    *('"x#"', "'[y'", "[1, 2]", "{c=1}", '"""\n]"""', "a.b = 2\n", "[b.a]\n"),
)


def paths_of(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    """Every path in what a text says."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path}.union(*(paths_of(each, (*path, key)) for key, each in inner))


@settings(max_examples=in_ci(800, every_day=160), deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_everything_that_a_text_says_has_its_line(text: str) -> None:
    try:
        values = tomllib.loads(text)
    except ValueError:
        return
    lines = lines_of(text)
    assert {(), *lines} == paths_of(values)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


VALUES = st.recursive(
    st.sampled_from(["1", "'#'", '"]"', '"""\n"""', "''' \n '''", "true"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda values: "[\n" + ", # ,\n".join(values) + "\n]")
        | st.lists(inner, max_size=2).map(
            lambda values: (
                "{" + ", ".join(f"k{number} = {value}" for number, value in enumerate(values)) + "}"
            )
        )
    ),
    max_leaves=6,
)


@settings(max_examples=in_ci(200, every_day=40), deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 2), VALUES), min_size=1, max_size=6))
def test_keys_after_any_values_stand_where_they_were_put(entries: list[tuple[int, str]]) -> None:
    text, expected = "", {}
    for number, (blank, value) in enumerate(entries):
        text += "# [x]\n" * blank
        expected[(f"key{number}",)] = text.count("\n") + 1
        text += f"key{number} = {value}\n"
    lines = lines_of(text)
    assert {path: lines[path] for path in expected} == expected
    assert {(), *lines} == paths_of(tomllib.loads(text))


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("", 0),
        ("a = 1", 0),
        ("a.b = 1.5", 1),
        ("[a.b.c]", 2),
        ("'a.b' . \"c.d\" . e = 1", 2),
        ("[[a]]\n[[b]]", 2),
        ("a = [[], [{b = [1]}]]", 4),
        ("a = '[[[[' # [[[[", 0),
        ('a = """\n[[[\n...\n"""', 0),
        ("a = '''\n[[[''''\nb = [1]", 1),
        ('a = """[[[', 0),
        ('a = "[[[\nb = [1]', 1),
    ],
)
def test_depth_of_a_text(text: str, depth: int) -> None:
    assert depth_of(text) == depth


@settings(max_examples=in_ci(300, every_day=60), deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_any_text_has_a_depth(text: str) -> None:
    assert 0 <= depth_of(text) <= len(text)
