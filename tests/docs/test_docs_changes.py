"""Texts in docs/changes, of which a release makes its section of the changelog."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.programs import missing, run_process

CHANGES = ROOT / "docs/changes"
FRAGMENTS = sorted(path for path in CHANGES.iterdir() if path.name != "README.md")
TOOL = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_text_has_a_known_type(path: Path) -> None:
    name = re.fullmatch(r"\+[a-z0-9-]+\.([a-z]+)\.md", path.name)
    assert name is not None, "name it +NAME.TYPE.md"
    assert name[1] in [each["directory"] for each in TOOL["type"]]


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_text_is_one_paragraph_whose_links_lead_to_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)", text)
    assert text.strip()
    assert "\n\n" not in text
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_section_has_each_text() -> None:
    if importlib.util.find_spec("towncrier") is None:
        missing("towncrier is not installed")
    draft = [
        sys.executable,
        "-m",
        "towncrier",
        "build",
        "--draft",
        "--version",
        "9.9.9",
        "--date",
        "2099-01-01",
    ]
    section = run_process(draft, cwd=ROOT, check=True).stdout
    assert section.startswith("## 9.9.9 (2099-01-01)\n") or not FRAGMENTS
    words = " ".join(section.split())
    assert [
        path.name for path in FRAGMENTS if " ".join(path.read_text(encoding="utf-8").split()) not in words
    ] == []
