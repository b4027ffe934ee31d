"""Each long check, for a few seconds: `make soak` runs them in full."""

import re

import pytest

from tests.soak import __main__ as soak
from tests.soak.check import Check
from tests.soak.checks import CHECKS
from tests.support.benches.engines import need
from tests.support.paths import ROOT

STARTS = {"command_files", "hosts", "models", "workers", "jacdac", "usbip"}
"""Checks that start devices or workers for a second or more; the everyday tests of those do, too."""


def small_share(check: Check) -> object:
    marks = [pytest.mark.long("it starts processes for seconds")] if check.name in STARTS else []
    return pytest.param(check, id=check.name, marks=marks)


@pytest.mark.parametrize("check", [small_share(check) for check in CHECKS.values()])
def test_small_share(check: Check) -> None:
    reason = check.needs()
    if reason:
        pytest.skip(reason)
    if check.name == "hosts":  # compares bytes with a reference
        need("tflite")
    assert check.run(check.small, 1)


def test_page_has_every_check() -> None:
    page = (ROOT / "docs/reference/reliability.md").read_text(encoding="utf-8")
    described, measured = page.split("## Long checks")[1].split("## Figures")
    rows = re.findall(r"^\| `(\w+)`", described, re.MULTILINE)
    assert rows == list(CHECKS)
    assert {*re.findall(r"^\| `(\w+)`", measured, re.MULTILINE)} == {*CHECKS}


def test_fault_is_printed_with_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(size: int, seed: int) -> dict[str, object]:
        raise AssertionError(f"number {size} of seed {seed}")

    check = Check("never", "", "tries", 8, 1, 1, fails)
    assert not soak.run(check, 3, 0.5)
    assert capsys.readouterr().out == "never: FAULT, seed 3, 4 tries\n"


def test_figures_are_printed_with_size_and_seed(capsys: pytest.CaptureFixture[str]) -> None:
    check = Check("always", "", "tries", 1000, 1, 1, lambda size, seed: {"well": size, "seed": seed})
    assert soak.run(check, 3, 2)
    line = capsys.readouterr().out
    assert line.startswith("always: 2,000 tries, seed 3, ")
    assert line.endswith(" s: well 2000, seed 3\n")


def test_what_is_missing_here_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    check = Check("absent", "", "tries", 1, 1, 1, lambda *_: {}, needs=lambda: "no such engine")
    assert soak.run(check, 0, 1)
    assert capsys.readouterr().out == "absent: left out: no such engine\n"
