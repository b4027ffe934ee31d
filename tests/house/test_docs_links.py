"""Links to the docs from outside of them; `make docs` checks those between pages."""

import importlib
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from aisrv import __version__
from tests.support.paths import ROOT

SOURCES = ("aisrv", "benchmarks", "examples", "flash_server", "host_tools", "phy", "tests")
LINKING = ("README.md", "CONTRIBUTING.md", "examples/README.md")
GROUPS = ("aisrv.kernel_backends",)  # entry points, not modules
MANUAL = ROOT / ".mkdocs.yml"
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "changes")
"""All pages of the manual: texts for the changelog are none."""
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that the headings of a page have, on the site and on GitHub."""
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", LINKING)
def test_links_lead_to_files_and_headings(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#([^)]+))?\)", (ROOT / name).read_text(encoding="utf-8"))
    assert links
    for path, anchor in links:
        target = (ROOT / name).parent / path
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_headings_that_pages_link_to_exist(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([\w./-]*\.md)?#([^)\s]+)\)", text)
    targets = [(page.parent / name if name else page, anchor) for name, anchor in links]
    missing = [
        f"{target.name}#{anchor}"
        for target, anchor in targets
        if target.exists() and anchor not in anchors(target)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_pages_link_to_nothing_outside_of_the_manual(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    outside = [each for each in targets if not (page.parent / each).resolve().is_relative_to(ROOT / "docs")]
    assert outside == []


@pytest.mark.skipif(not MANUAL.exists(), reason="the tree has no .mkdocs.yml: only a checkout has")
def test_each_page_is_listed_in_the_manual() -> None:
    listed = re.findall(r"(\S+\.md)$", MANUAL.read_text(encoding="utf-8"), re.MULTILINE)
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES]
    assert sorted(listed) == sorted(pages)


def test_pages_named_in_the_sources_exist() -> None:
    named = {
        name
        for folder in SOURCES
        for file in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"docs/[a-z/-]+\.(?:md|svg)", file.read_text(encoding="utf-8"))
    }
    assert "docs/guides/boards.md" in named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_files_and_modules_on_pages_exist(page: Path) -> None:
    quoted = re.findall(
        r"`((?:aisrv|phy|flash_server|host_tools|tests|benchmarks)[./][\w./]+)`", page.read_text()
    )
    assert [name for name in quoted if name not in GROUPS and not exists(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_imports_on_pages_work(page: Path) -> None:
    imports = re.findall(
        r"^ *from ((?:aisrv|phy|flash_server|host_tools)[\w.]*) import ([\w, ]+)$",
        page.read_text(),
        re.MULTILINE,
    )
    names = [
        f"{module}.{name.strip()}" for module, found in imports for name in found.split(",") if name.strip()
    ]
    assert [name for name in names if not exists(name)] == []


def test_the_dependencies_page_has_every_package() -> None:
    page = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[:2] for line in page.splitlines() if line.startswith("| ")]
    first, second = (" ".join(row[column] for row in rows) for column in (0, 1))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert [name for name in names(project["dependencies"]) if name not in first] == []
    assert [name for name in extras if f"`{name}`" not in first] == []
    assert [name for extra in extras for name in names(extras[extra]) if name not in second] == []


def test_the_architecture_page_has_the_floors() -> None:
    page = (ROOT / "docs/inside/architecture.md").read_text(encoding="utf-8")
    floors = [
        re.findall(r"`([\w.]+)`", row) for row in re.findall(r"^\| \d+ \| ([^|]+)\|", page, re.MULTILINE)
    ]
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contract = next(each for each in tool["importlinter"]["contracts"] if each["type"] == "layers")
    assert floors == [layer.split(" | ") for layer in contract["layers"]]


def test_the_modules_for_an_hour_have_the_lines_that_are_said() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.split("### An hour with the whole device\n")[1].split("\n## ")[0]
    said = {name: int(lines) for name, lines in re.findall(r"\]\(([\w/]+\.py)\) \| (\d+) \|", section)}
    there = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in said}
    assert len(said) == 7
    assert [name for name in said if abs(said[name] - there[name]) > there[name] // 5] == []


def test_the_changelog_begins_with_the_version_or_there_are_texts_for_it() -> None:
    headings = re.findall(
        r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert headings[0][0] == __version__ or list((ROOT / "docs/changes").glob("+*"))
    assert [date for _, date in headings] == sorted((date for _, date in headings), reverse=True)


@pytest.mark.parametrize("heading", ["Words of XCORE", "Words of the host"])
def test_the_glossary_is_in_order(heading: str) -> None:
    page = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8")
    section = page.split(f"## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    words = [
        re.sub(r"[^a-z0-9]", "", word.lower())
        for word in re.findall(r"^\| \*\*([^,*]+)", section, re.MULTILINE)
    ]
    assert len(words) > 25
    assert words == sorted(words)


def names(requirements: list[str]) -> list[str]:
    """The packages that are required; those of this project's own extras are named there."""
    found = [re.split(r"[\[<>=;]", requirement)[0].strip() for requirement in requirements]
    return [name for name in found if name != "aisrv" and not name.startswith("types-")]


def exists(name: str) -> bool:
    """Whether a name is a path of the checkout, a module, or an attribute of a module."""
    if (ROOT / name).exists():
        return True
    if "/" in name:
        return False
    try:
        if importlib.util.find_spec(name) is not None:
            return True
    except ModuleNotFoundError:  # the part before the last dot is a module, no package
        pass
    module, _, attribute = name.rpartition(".")
    return hasattr(importlib.import_module(module), attribute)
