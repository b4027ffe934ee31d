"""The page on reliability: each promise with a test that is there."""

import re

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "docs/reference/reliability.md").read_text(encoding="utf-8")
TABLES = {
    title: [row.split("|")[1:-1] for row in re.findall(r"^\|(?!---).*\|$", text, re.MULTILINE)]
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"tests/[\w/]+(?:\.py)?", PAGE))))
def test_file_that_the_page_names_is_there(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("title", ["Who may send what", "What each layer guarantees"])
def test_each_promise_has_its_tests(title: str) -> None:
    head, *rows = TABLES[title]
    assert head[-1].strip() == "tests"
    assert rows
    for row in rows:
        assert len(row) == len(head), row[0]
        assert re.fullmatch(r" `tests/[\w/]+\.py`(, `tests/[\w/]+\.py`)* ", row[-1]), row[0]
