"""Tests mirror the code: each test file lies where the module that it tests lies, and bears its name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

TESTS = ROOT / "tests"
ACROSS = {"support", "house", "integration", "browser", "guest", "golden", "soak"}
"""Folders of tests with no counterpart in the code."""
TOP_LEVEL = {"phy", "flash_server", "host_tools", "docs", "benchmarks", "examples"}
"""What tests/ has a folder for and does not lie in aisrv/."""


def counterpart(folder: Path) -> Path:
    """Return the folder of code that a folder of tests mirrors."""
    parts = folder.relative_to(TESTS).parts
    return ROOT.joinpath(*parts) if parts[:1] and parts[0] in TOP_LEVEL else ROOT.joinpath("aisrv", *parts)


def mirrors() -> Iterator[Path]:
    for path in sorted(TESTS.rglob("test_*.py")):
        if path.relative_to(TESTS).parts[0] not in ACROSS:
            yield path


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in mirrors()}), ids=lambda folder: str(folder.relative_to(TESTS))
)
def test_a_test_file_begins_with_the_name_of_its_module_or_package(folder: Path) -> None:
    code = counterpart(folder)
    assert code.is_dir(), f"{folder} mirrors no folder of code"
    names = {each.stem for each in code.glob("*.py")} | {
        each.name for each in code.iterdir() if each.is_dir()
    }
    for path in folder.glob("test_*.py"):
        topic = path.stem.removeprefix("test_") + "_"
        assert any(topic.startswith(f"{name}_") for name in {*names, code.name}), (
            f"no module of {code} is named as {path.name} begins"
        )
