"""The page of lib_xcore's names: each is on it once, and is where it says."""

import importlib
import inspect
import json
import re
from functools import reduce

import pytest

from aisrv.xcore import lib_xcore
from docs.generate.lib_xcore_names import ABSENT, COUNTERPARTS, lib_xcore_tables, names_of, python_name
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/inside/lib-xcore.md").read_text(encoding="utf-8")
NAMES: dict[str, list[str]] = json.loads((ROOT / "tests/golden/lib_xcore/names.json").read_text())
"""What lib_xcore's public headers declare."""
ELSEWHERE = {"get_reference_time"}
"""Names of lib_xcore that another of our headers has, which theirs includes."""
ROWS = re.findall(r"^\| `(\w+)` \| (.*?) \| (?:`([\w.]+)` )?\|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("header", NAMES)
def test_page_has_each_name_of_a_header(header: str) -> None:
    section = re.search(rf"^### xcore/{re.escape(header)}$(.*?)^#", PAGE, re.MULTILINE | re.DOTALL)
    row = re.search(rf"^\| xcore/{re.escape(header)} \| (.*) \|$", PAGE, re.MULTILINE)
    assert (section is None) == (row is not None)
    found = re.findall(r"`(\w+)`", (section or row or [""])[0])
    assert set(NAMES[header]) - set(found) - ELSEWHERE == set()


def test_page_has_each_name_in_one_row() -> None:
    names = [name for name, _, _ in ROWS]
    assert sorted(set(names)) == sorted(names)
    assert names.count("get_reference_time") == 1


@pytest.mark.parametrize("path", sorted({path for _, _, path in ROWS if path}))
def test_names_are_where_the_page_says(path: str) -> None:
    module, *attributes = path.split(".")
    found = reduce(getattr, attributes, importlib.import_module(f"aisrv.xcore.{module}"))
    assert found is not None


def test_page_has_all_functions_of_the_module() -> None:
    functions = inspect.getmembers(lib_xcore, inspect.isfunction)
    own = {name for name, each in functions if each.__module__ == lib_xcore.__name__ and name[0] != "_"}
    assert own <= {path.partition(".")[2] for _, _, path in ROWS if path.startswith("lib_xcore.")}


def test_what_has_another_name_in_python_is_a_name_of_c() -> None:
    assert set(COUNTERPARTS) - {name for name, _, _ in ROWS} == set()


def test_what_no_header_declares_is_not_listed_twice() -> None:
    for header, names in ABSENT.items():
        assert [names_of(header)[name] for name in names] == ["no"] * len(names)


def test_a_function_of_the_same_name_is_found_by_itself() -> None:
    assert python_name("xscope_int") == "xscope.xscope_int"
    assert python_name("chan_in_word") == "channels.channel.chan_in_word"
    assert python_name("printintln") is None


def test_a_method_of_the_same_name_is_found_by_itself() -> None:
    assert python_name("port_out_part_word") == "ports.port.Port.out_part_word"
    assert python_name("port_in") == "ports.port.Port.in_"
    assert python_name("port_no_such") is None


def test_what_is_refused_says_why() -> None:
    assert "| `chanend_set_network` | no: there is one network here | |" in lib_xcore_tables()
