"""What CI runs: first what a user does, without extras; then the tests that had to be skipped."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LONGEST
from tests.support.paths import ROOT
from tests.support.programs import run_process, run_python

if not (ROOT / ".ci").exists():
    pytest.skip("the tree has no .ci: only a checkout has", allow_module_level=True)

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a.test_b" name="test_c"><skipped message="no spidev"/></testcase>
<testcase classname="tests.a.test_b" name="test_d"/>
<testcase classname="tests.a.test_e" name="test_f"/>
<testcase classname="tests.i.test_j" name="k"><skipped message="this processor has no avxvnni"/></testcase>
<testcase classname="" name="tests.g.test_h"><skipped message="collection skipped"/></testcase>
</testsuite></testsuites>"""


def test_files_with_skipped_tests_are_run_again(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    done = run_process([sys.executable, ROOT / ".ci/skipped", report], check=True)
    assert done.stdout == "tests/a/test_b.py\ntests/g/test_h.py\n"


def test_a_user_comes_before_extras() -> None:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    first = {
        word: next(number for number, line in enumerate(lines) if word in line)
        for word in ("as-a-user", " test", ".[test,spi]", ".ci/peers")
    }
    assert max(first["as-a-user"], first[" test"]) < min(first[".[test,spi]"], first[".ci/peers"])


def test_scripts_are_sound() -> None:
    for name in ("run", "as-a-user", "packages", "package", "wheels", "use-wheel", "release"):
        subprocess.run(["bash", "-n", ROOT / ".ci" / name], check=True)


@pytest.mark.long("the first step of CI has no spidev")
def test_tests_are_collected_without_spidev() -> None:
    modules = "tests.support.spidev_expected, tests.attach.preload.test_spidev, tests.guest.test_kernel"
    assert run_python(f"import sys; sys.modules['spidev'] = None; import {modules}", cwd=ROOT) == ""


def test_files_that_begin_first_are_there() -> None:
    assert [name for name in LONGEST if not (ROOT / name).is_file()] == []
