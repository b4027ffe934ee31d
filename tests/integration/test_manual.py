"""The manual: each page is followed as a reader follows it, and what it shows is what is seen."""

from pathlib import Path

import pytest

from tests.support.benches.c_programs import kept_programs
from tests.support.manual_page import Page, compare
from tests.support.page_session import follow
from tests.support.paths import ROOT
from tests.support.programs import missing

__all__ = ["kept_programs"]

TUTORIALS = sorted((ROOT / "docs/start").glob("*.md"))
GUIDES = ("device-time", "graphs", "jacdac", "relocatable")
EXAMPLES = [ROOT / "docs/guides" / f"{name}.md" for name in GUIDES]
INSIDE = [ROOT / "docs/inside/tracer.md"]
PAGES = [ROOT / "README.md", *TUTORIALS, *EXAMPLES, *INSIDE]
TESTED = "many commands, each of which has its own tests every day"
LONG = {
    "evaluate": "eleven evaluations, two of them on a cluster",
    **dict.fromkeys(("c-program", "device-time", "firmware", "first-steps", "graphs"), TESTED),
    **dict.fromkeys(("host-program", "jacdac", "models", "relocatable"), TESTED),
}
"""Pages that are not followed every day, and why."""
RUN_OR_READ = {"console", "sh", "text"}
"""What a block of a tutorial may be, without a title: commands that are run, and those that no test can."""


def name_of(path: Path) -> str:
    return path.stem


def followed(path: Path) -> object:
    reason = LONG.get(name_of(path))
    return pytest.param(path, marks=pytest.mark.long(reason)) if reason else path


@pytest.mark.parametrize("path", [followed(each) for each in PAGES], ids=name_of)
@pytest.mark.usefixtures("kept_programs")
async def test_a_page_shows_what_a_reader_sees(path: Path, tmp_path: Path) -> None:
    page = Page.read(path)
    if need := page.missing():
        missing(f"{path.name} needs {need}")
    await follow(page, tmp_path, compare)


@pytest.mark.parametrize("path", [ROOT / "README.md", *TUTORIALS], ids=name_of)
def test_a_tutorial_shows_nothing_that_is_not_followed(path: Path) -> None:
    left = [block for block in Page.read(path).blocks() if not block.title]
    assert [(block.line, block.language) for block in left if block.language not in RUN_OR_READ] == []


def test_the_readme_has_less_than_a_hundred_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 100
