"""Comparisons of output with what is expected."""

from pathlib import Path
from typing import Any

import pytest

from aisrv.addons.firmware.pyxsim.testers import MULTIDRIVE, AssertiveComparisonTester, ComparisonTester


def passes(expected: list[str], output: str | list[str], **options: Any) -> bool:
    arguments = {"regexp": False, "ordered": True, **options}
    try:
        AssertiveComparisonTester(expected, **arguments).run(output)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    ("output", "same"),
    [
        ("a\nb\n", True),
        ("\n a \nb\t\n", True),
        (["a", "b"], True),
        ("a\n", False),
        ("a\nb\nc\n", False),
        ("b\na\n", False),
        ("", False),
    ],
)
def test_lines_in_order(output: str | list[str], same: bool) -> None:
    assert passes(["a", "b"], output) is same


@pytest.mark.parametrize(("output", "same"), [("b\na", True), ("a\na", False), ("a\nc", False)])
def test_lines_in_any_order(output: str, same: bool) -> None:
    assert passes(["a", "b"], output, ordered=False) is same


@pytest.mark.parametrize(
    ("output", "same"),
    [("Speed = 400 Kbps", True), ("Speed = 400 Kbps!", False), ("at Speed = 1 Kbps", False)],
)
def test_patterns_are_of_whole_lines(output: str, same: bool) -> None:
    assert passes([r"Speed = \d+ Kbps"], output, regexp=True) is same


def test_lines_that_do_not_count() -> None:
    output = f"{MULTIDRIVE} at 5\nCONFIG: 3\na"
    assert passes(["a"], output, ignore=["CONFIG:.*?"])
    assert not passes(["a"], output)
    assert not passes(["a"], output, ignore=["CONFIG"], suppress_multidrive_messages=False)


def test_expected_lines_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.expect").write_text("a\nb\n")
    tester = AssertiveComparisonTester(f"{tmp_path}/a.expect", regexp=False, ordered=True)
    tester.run("a\nb\n")
    with pytest.raises(AssertionError, match="line 1 is 'c' and not 'b'\noutput:   \\['a', 'c'\\]"):
        tester.run("a\nc\n")


def test_a_tester_that_returns_what_it_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.expect").write_text("a\n")
    with (tmp_path / "a.expect").open() as file:
        tester = ComparisonTester(file)
    assert tester.run(["a"])
    assert not tester.run(["b"])
    assert capsys.readouterr() == (
        "Pass\n",
        "ERROR: line 0 is 'b' and not 'a'\noutput:   ['b']\nexpected: ['a']\nFail\n",
    )
