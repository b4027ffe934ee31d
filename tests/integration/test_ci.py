"""What CI runs: first what a user does, without extras; then all tests, with them."""

import subprocess

import pytest

from tests.conftest import FIRST
from tests.support.paths import ROOT
from tests.support.programs import run_python

if not (ROOT / ".ci").exists():
    pytest.skip("the tree has no .ci: only a checkout has", allow_module_level=True)


def test_a_user_comes_before_extras() -> None:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    first = {
        word: next(number for number, line in enumerate(lines) if word in line)
        for word in ("as-a-user", " test", ".[test,spi]", ".ci/peers")
    }
    assert max(first["as-a-user"], first[" test"]) < min(first[".[test,spi]"], first[".ci/peers"])


def test_every_test_runs_with_all_its_tries_on_both_pythons() -> None:
    main = [line for line in (ROOT / ".ci/run").read_text().splitlines() if "pytest" in line]
    whole = "AISRV_LONG=1 .venv/bin/pytest --numprocesses auto --dist worksteal --quiet"
    assert whole in main
    newer = (ROOT / ".ci/python313").read_text().splitlines()
    assert "variables+=(AISRV_LONG=1)" in newer
    assert (
        newer[-1] == 'inside python -m pytest --numprocesses auto --dist worksteal --ignore=tests/guest "$@"'
    )
    assert ".ci/python313 -q" in (ROOT / ".ci/run").read_text().splitlines()


def test_scripts_are_sound() -> None:
    for name in ("run", "as-a-user", "packages", "package", "wheels", "use-wheel", "release"):
        subprocess.run(["bash", "-n", ROOT / ".ci" / name], check=True)


@pytest.mark.long("the first step of CI has no spidev")
def test_tests_are_collected_without_spidev() -> None:
    modules = "tests.support.spidev_expected, tests.attach.preload.test_spidev, tests.guest.test_kernel"
    assert run_python(f"import sys; sys.modules['spidev'] = None; import {modules}", cwd=ROOT) == ""


def test_files_that_begin_first_are_there() -> None:
    assert [name for name in FIRST if not (ROOT / name).is_file()] == []
