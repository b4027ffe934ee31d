"""Files that are none, to each parameter of each command that takes one."""

from pathlib import Path
from typing import Final

import pytest

from tests.soak.command_files import CASES, contents, parameters, sound_files, try_case

STARTS: Final = ("aisrv attach", "aisrv evaluate", "aisrv exec", "aisrv firmware", "aisrv fleet", "aisrv run")
"""Commands that start devices, workers or compilers for a second or more."""


def test_each_parameter_that_takes_a_file_has_a_case() -> None:
    assert {*parameters()} - CASES.keys() == set(), "say in CASES how it is called, or that it is no file"
    assert CASES.keys() - {*parameters()} == set(), "is no more"


def _small_share(case: str) -> object:
    marks = [pytest.mark.long("it starts processes for seconds")] if case.startswith(STARTS) else []
    return pytest.param(case, id=case, marks=marks)


@pytest.mark.parametrize("case", [_small_share(case) for case in CASES])
def test_command_ends_with_one_line(case: str, tmp_path: Path) -> None:
    sound_files(tmp_path)
    assert try_case(case, contents(case, 0), tmp_path) in range(6)
