"""What CI runs: first what a user does, without extras; then all tests, with them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import FIRST
from tests.support.paths import ROOT
from tests.support.programs import run_process, run_python

if not (ROOT / ".ci").exists():
    pytest.skip("the tree has no .ci: only a checkout has", allow_module_level=True)


def test_a_user_comes_before_extras() -> None:
    lines = [line for line in (ROOT / ".ci/run").read_text().splitlines() if not line.startswith("#")]
    user = ("as-a-user", "follow-tutorials", "make --directory")
    places = [next(number for number, line in enumerate(lines) if each in line) for each in user]
    assert places == sorted(places)
    extras = (".[test,spi]", ".ci/peers", ".ci/python313")
    assert places[-1] < min(next(n for n, line in enumerate(lines) if each in line) for each in extras)


def test_a_user_has_the_python_of_debian_and_the_newest() -> None:
    """All that a user does, with the former; on the latter all tests run with extras."""
    text = (ROOT / ".ci/run").read_text()
    assert re.search(r"^debian=/usr/bin/python3$", text, re.MULTILINE)
    assert '.ci/as-a-user "$debian" ' in text
    assert '.ci/follow-tutorials "$debian" ' in text
    assert re.search(r"^env --unset=CI make .* PYTHON=\"\$debian\" test$", text, re.MULTILINE)
    assert ".ci/lines README.md /usr/bin/python3.13 && " in (ROOT / ".ci/python313").read_text()


def typed(page: str, folder: Path) -> list[str]:
    """What `.ci/lines` types for a page: each program only tells its words."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/lines", folder / ".ci")
    (folder / "page.md").write_text(page)
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/activate").write_text("echo activated\n")
    for name in ("make", "pip", "aisrv", "python"):
        (folder / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (folder / name).chmod(0o755)
    done = run_process(
        [folder / ".ci/lines", "page.md", folder / "python"],
        env={"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        check=True,
    )
    return done.stdout.splitlines()


def test_lines_of_the_readme_are_typed_as_they_are(tmp_path: Path) -> None:
    assert typed((ROOT / "README.md").read_text(), tmp_path) == [
        "make demo",
        "activated",
        "python -m venv .venv",
        "activated",
        "pip install .",
        "aisrv demo",
    ]


def test_what_a_page_does_not_install_is_not_typed(tmp_path: Path) -> None:
    block = '```sh\nsudo apt-get install gcc\npip install ".[evaluate]"   # in the checkout\n```\n'
    assert typed(f"{block}\n    pip install pillow\n", tmp_path) == ["pip install .[evaluate]"]


def test_each_tutorial_is_followed_without_extras(tmp_path: Path) -> None:
    """Those that print lines of pip after the others, each in an environment of its own."""
    (tmp_path / ".ci").mkdir()
    for name in ("start", "guides"):
        shutil.copytree(ROOT / "docs" / name, tmp_path / "docs" / name)
    (tmp_path / ".ci/lines").write_text("#!/bin/sh\necho lines $1\nmkdir -p .venv/bin\ncp python .venv/bin\n")
    (tmp_path / "python").write_text('#!/bin/sh\necho follows "$3"\n')
    for path in (tmp_path / "python", tmp_path / ".ci/lines"):
        path.chmod(0o755)
    done = run_process([ROOT / ".ci/follow-tutorials", "sh", tmp_path], check=True)
    pages = {each.name for each in (ROOT / "docs/start").glob("*.md")}
    own = ["evaluate.md", "host-program.md"]
    first = "lines docs/start/first-steps.md"
    assert done.stdout.splitlines() == [
        first,
        *(f"follows docs/start/{name}" for name in sorted(pages - set(own))),
        *(
            line
            for name in (*(f"docs/start/{name}" for name in own), "docs/guides/relocatable.md")
            for line in (first, f"lines {name}", f"follows {name}")
        ),
    ]


def test_every_test_runs_with_all_its_tries_on_both_pythons() -> None:
    main = [line for line in (ROOT / ".ci/run").read_text().splitlines() if "pytest" in line]
    whole = ".venv/bin/pytest --long --numprocesses auto --dist worksteal --quiet"
    assert whole in main
    newer = (ROOT / ".ci/python313").read_text().splitlines()
    whole = whole.removeprefix(".venv/bin/").removesuffix(" --quiet")
    assert newer[-1] == f'inside python -m {whole} --ignore=tests/guest "$@"'
    assert ".ci/python313 -q" in (ROOT / ".ci/run").read_text().splitlines()


def test_scripts_are_sound() -> None:
    scripts = [
        each for each in (ROOT / ".ci").iterdir() if each.read_text().startswith("#!/usr/bin/env bash")
    ]
    assert {"run", "as-a-user", "lines", "follow-tutorials"} < {each.name for each in scripts}
    for script in scripts:
        subprocess.run(["bash", "-n", script], check=True)


@pytest.mark.long("the first step of CI has no spidev")
def test_tests_are_collected_without_spidev() -> None:
    modules = "tests.support.peers.spidev_expected, tests.attach.preload.test_spidev, tests.guest.test_kernel"
    assert run_python(f"import sys; sys.modules['spidev'] = None; import {modules}", cwd=ROOT) == ""


def test_files_that_begin_first_are_there() -> None:
    assert [name for name in FIRST if not (ROOT / name).is_file()] == []


def test_visitors_find_a_definition_that_runs_all_of_it_on_debian() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    assert re.findall(r"^ +image: (.*)$", text, re.MULTILINE) == ["debian:12"]
    assert re.findall(r"^ +- run: (\.ci/.*)$", text, re.MULTILINE) == [".ci/run"]


def test_lines_of_pyproject_can_be_read() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    assert [line for line in lines if len(line) > 130] == []


def test_no_script_ends_a_program_by_closing_its_pipe() -> None:
    """`grep -q` leaves at the first match; whoever still writes then fails, and with it the pipe."""
    quiet = re.compile(r"\| *grep (-\w*q|--quiet)")
    scripts = [path for path in (ROOT / ".ci").iterdir() if path.is_file()]
    assert [path.name for path in scripts if quiet.search(path.read_text(encoding="utf-8"))] == []
