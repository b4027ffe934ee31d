"""`.ci/find-python` takes the first Python that can make the environment, and says why others do not."""

import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.paths import ROOT
from tests.support.programs import run_process

FIND = ROOT / ".ci/find-python"
if not FIND.exists():
    pytest.skip("the tree has no .ci: only a checkout has", allow_module_level=True)
NAMES = "python3.11 python3.12 python3.13 python3.14 python3 python"


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that alone is searched for Pythons; the shell's own programs are there, too."""
    for name in ("head", "sh"):
        program(tmp_path, name, f'exec /usr/bin/{name} "$@"')
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def find(*names: str) -> CompletedProcess[str]:
    return run_process(["/bin/sh", FIND, *names])


def test_versions_come_before_whatever_python3_is(folder: Path) -> None:
    for name in ("python3.12", "python3.13", "python3"):
        program(folder, name, f'exec {sys.executable} "$@"')
    assert find().stdout == "python3.12\n"
    program(folder, "python3.11", f'exec {sys.executable} "$@"')
    assert find().stdout == "python3.11\n"


def test_launchers_of_missing_versions_are_passed_over(folder: Path) -> None:
    program(folder, "python3.11", "echo 'python3.11: command not found' >&2; exit 127")
    program(folder, "python", f'exec {sys.executable} "$@"')
    assert find().stdout == "python\n"


def test_each_that_does_not_do_is_named_with_the_reason(folder: Path) -> None:
    program(folder, "python3.11", "echo 'python3.11: command not found' >&2; exit 127")
    done = find()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"aisrv needs Python 3.11 or later with venv; none of these is one: {NAMES}",
        "  python3.11: python3.11: command not found",
        "Install one, or name it: make PYTHON=/path/to/python3.13",
    ]


def test_old_pythons_are_refused(folder: Path) -> None:
    script = "import sys; sys.version_info = (3, 10, 13); exec(sys.argv[1])"
    program(folder, "python3", f"exec {sys.executable} -c '{script}' \"$2\"")
    assert "  python3: it is Python 3.10\n" in find("python3").stderr


def test_a_named_python_is_the_only_one_that_is_looked_at(folder: Path) -> None:
    program(folder, "python3.11", f'exec {sys.executable} "$@"')
    assert find("python3.13").returncode == 1
    assert find(sys.executable).stdout == f"{sys.executable}\n"


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / ".ci").iterdir()))
def test_no_script_names_a_host_of_packages(script: str) -> None:
    assert "://" not in (ROOT / ".ci" / script).read_text()
