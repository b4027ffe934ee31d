"""Commands that install what is missing work for a checkout, a wheel and git: no index has aisrv."""

import re
import tomllib
from collections import namedtuple
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from aisrv.values.extras import EXTRAS, install_command
from tests.support.paths import ROOT

FOR_DEVELOPERS = {"docs", "test"}
FROM_AN_INDEX = re.compile(r"pip3? install\s[^#`\n]*(?<![\w./:\[-])aisrv(?![\w./-])")
"""A command that asks an index for aisrv: not `-e .`, not `dist/aisrv-1.whl`, not `aisrv @ git+https://…`."""

SPOKEN = (
    "aisrv",
    "phy",
    "flash_server",
    "host_tools",
    "docs",
    "examples",
    "tests/support",
    ".ci",
    ".container",
)
SUFFIXES = {".py", ".md", ".yml", ".toml", ".j2", ".lua", ".txt", ""}


def packages_of(extra: str, extras: dict[str, list[str]]) -> set[str]:
    """Names of an extra's packages, and of those of the extras that it takes over."""
    names = set()
    for requirement in map(Requirement, extras[extra]):
        inner = (
            [packages_of(each, extras) for each in requirement.extras] if requirement.name == "aisrv" else []
        )
        names |= set().union(*inner) if inner else {requirement.name}
    return names


def test_packages_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert {name: set(packages) for name, packages in EXTRAS.items()} == {
        name: packages_of(name, extras) for name in extras.keys() - FOR_DEVELOPERS
    }


@pytest.mark.parametrize(
    ("version", "command"),
    [((3, 11), "pip install xmos-ai-tools"), ((3, 12), "pip install --no-deps xmos-ai-tools")],
)
def test_the_engine_of_xmos_goes_without_numpy_1_on_later_pythons(
    version: tuple[int, int], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aisrv.values.extras.sys", namedtuple("Sys", "version_info")(version))
    assert install_command("xcore") == command


def test_several_packages_are_one_command() -> None:
    assert install_command("relocatable") == "pip install pyelftools unicorn"


@pytest.mark.parametrize(
    "text",
    ["pip install aisrv", 'pip install "aisrv[tflm]"', "pip install --prefer-binary aisrv pytest"],
)
def test_a_command_that_asks_an_index_is_found(text: str) -> None:
    assert FROM_AN_INDEX.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install .",
        'pip install ".[tflm]"   # aisrv and an engine',
        "pip install build/dist/aisrv-0.2.0-py3-none-any.whl",
        'pip install "aisrv-0.2.0-py3-none-any.whl[tflm]"',
        "pip install git+https://example.org/aisrv.git",
    ],
)
def test_other_commands_are_not(text: str) -> None:
    assert not FROM_AN_INDEX.search(text)


def test_nothing_asks_an_index_for_aisrv() -> None:
    files = [path for top in SPOKEN for path in (ROOT / top).rglob("*") if path.is_file()]
    files += [*ROOT.glob("*.md"), ROOT / "Makefile"]
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files
        if path.suffix in SUFFIXES and path != Path(__file__) and "__pycache__" not in path.parts
        for match in FROM_AN_INDEX.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []
