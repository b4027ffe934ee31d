"""macOS and Windows: without what Python lacks there, modules are imported and commands show their help."""

import sys

import pytest

from tests.support.paths import ROOT
from tests.support.programs import run_process


@pytest.mark.parametrize(
    "system",
    ["windows", pytest.param("macos", marks=pytest.mark.long("Windows lacks more, and runs every day"))],
)
def test_nothing_that_a_system_lacks_is_needed_at_the_start(system: str) -> None:
    done = run_process([sys.executable, "-m", "tests.support.oracles.without_platform", system], cwd=ROOT)
    assert (done.stdout, done.returncode) == ("end\n", 0), done.stderr
