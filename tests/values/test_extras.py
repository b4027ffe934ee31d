"""Commands that install what is missing name the extra, and where aisrv came from: no index has it."""

import ast
import json
import re
import tomllib
from collections import namedtuple
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from aisrv.cli import extra_modules
from aisrv.values.extras import import_failure, install_command
from tests.support.paths import ROOT, product_sources

FOR_DEVELOPERS = {"docs", "test"}
ALIASES = {"video"}
"""Other names of extras."""
FROM_AN_INDEX = re.compile(r"pip3? install\s[^#`\n&;]*(?<![\w./:\[-])aisrv(?![\w./-])")
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


def extras_of_the_project() -> set[str]:
    """The extras that users install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return set(project["optional-dependencies"]) - FOR_DEVELOPERS


def pip_record(monkeypatch: pytest.MonkeyPatch, record: object) -> None:
    """Let pip have installed aisrv from what a record says (PEP 610), or not at all."""

    class Found:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return json.dumps(record) if record else None

    def distribution(name: str) -> Found:
        if record is None:
            raise PackageNotFoundError(name)
        return Found()

    monkeypatch.setattr("importlib.metadata.distribution", distribution)


GIT = {"vcs": "git", "commit_id": "0123abcd"}


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (None, 'pip install ".[evaluate]"'),
        ({}, 'pip install ".[evaluate]"'),
        ({"url": "file:///src/ai%20srv", "dir_info": {}}, 'pip install "/src/ai srv[evaluate]"'),
        (
            {"url": "file:///src/aisrv", "dir_info": {"editable": True}},
            'pip install -e "/src/aisrv[evaluate]"',
        ),
        (
            {"url": "file:///dist/aisrv-0.2.0-py3-none-any.whl", "archive_info": {}},
            'pip install "/dist/aisrv-0.2.0-py3-none-any.whl[evaluate]"',
        ),
        (
            {"url": "https://example.org/aisrv.git", "vcs_info": GIT},
            'pip install "aisrv[evaluate] @ git+https://example.org/aisrv.git@0123abcd"',
        ),
        (
            {"url": "https://example.org/aisrv-1.tar.gz", "archive_info": {}},
            'pip install "aisrv[evaluate] @ https://example.org/aisrv-1.tar.gz"',
        ),
    ],
    ids=["not installed", "no record", "checkout", "editable", "wheel", "git", "address"],
)
def test_an_extra_comes_from_where_aisrv_came(
    record: object, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_record(monkeypatch, record)
    assert install_command("evaluate") == command


def test_in_the_checkout_the_command_is_as_pages_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pip_record(monkeypatch, {"url": tmp_path.as_uri(), "dir_info": {}})
    assert install_command("fleet") == 'pip install ".[fleet]"'


def test_the_engine_of_xmos_goes_without_numpy_1_on_later_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    pip_record(monkeypatch, None)
    commands = {(3, 11): 'pip install ".[xcore]"', (3, 12): "pip install --no-deps xmos-ai-tools"}
    for version, command in commands.items():
        monkeypatch.setattr("aisrv.values.extras.sys", namedtuple("Sys", "version_info")(version))
        assert install_command("xcore") == command


def test_a_package_that_does_not_import_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    pip_record(monkeypatch, None)
    error = ImportError("pyarrow requires NumPy 2.0 or newer,\n  found 1.26.4")
    assert import_failure("parts need pyarrow", error, "evaluate") == (
        'parts need pyarrow (pyarrow requires NumPy 2.0 or newer, found 1.26.4): pip install ".[evaluate]"'
    )


def named_in(call: ast.AST) -> set[str]:
    """The extra that a call of the functions above names."""
    called = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
    place = {"install_command": 0, "import_failure": 2, "MissingPackageError": 1, "Package": 2}.get(called)
    if place is None:
        return set()
    argument = call.args[place]  # type: ignore[attr-defined]  # it is a call
    return {str(argument.value)} if isinstance(argument, ast.Constant) else set()


def test_messages_name_extras_of_the_project() -> None:
    sources = product_sources("install_command|import_failure|MissingPackageError|Package").values()
    named = {extra for text in sources for node in ast.walk(ast.parse(text)) for extra in named_in(node)}
    assert {"evaluate", "fleet", "images", "litert", "spi", "tflm", "xcore"} <= named
    assert named <= extras_of_the_project()


def test_who_cannot_import_a_package_tells_its_words() -> None:
    """A handler of ImportError that names the command for an extra says what the package said, too."""
    found = [
        f"{path.relative_to(ROOT)}: {node.lineno}"
        for path, text in product_sources("install_command").items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ExceptHandler) and node.type is not None
        if {"ImportError", "ModuleNotFoundError"}
        & {each.id for each in ast.walk(node.type) if isinstance(each, ast.Name)}
        if any(isinstance(each, ast.Name) and each.id == "install_command" for each in ast.walk(node))
    ]
    assert found == []


def test_first_steps_has_all_extras() -> None:
    page = (ROOT / "docs/start/first-steps.md").read_text(encoding="utf-8")
    table = re.findall(
        r"^\| (`.*) \|.*\|$", page.partition("| extra | brings |")[2].partition("\n\n")[0], re.MULTILINE
    )
    assert {
        name for row in table for name in re.findall(r"`(\w+)`", row.partition("|")[0])
    } == extras_of_the_project()


def test_doctor_has_a_row_for_each_extra() -> None:
    assert extra_modules.EXTRAS.keys() | ALIASES == extras_of_the_project()


BESIDES_EXTRAS = {"docs/guides/engines.md": {"--no-deps xmos-ai-tools"}}
"""Packages that pages install by name, though an extra has them."""


def test_pages_install_what_an_extra_has_by_the_extra() -> None:
    """A package by its own name comes in its newest version, which need not go with the others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = project["optional-dependencies"]
    packages = {Requirement(each).name for name in extras_of_the_project() for each in requirements[name]} - {
        "aisrv"
    }
    found = [
        f"{path.relative_to(ROOT)}: {words}"
        for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
        for words in re.findall(r"pip install ([^#`|\n]+?) *(?=[#`|\n])", path.read_text(encoding="utf-8"))
        if packages & set(words.split())
        if words not in BESIDES_EXTRAS.get(str(path.relative_to(ROOT)), ())
    ]
    assert found == []


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
        "pip install . && aisrv demo",
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
