"""Comparisons of what a run printed with what was expected: the testers that XMOS's tests name."""

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from aisrv.values.regular_file import read_regular

MULTIDRIVE: Final = "Internal control pad and plugin driving in opposite directions"
"""What xsim says where two drive a pin."""


class TestError(Exception):
    """A test that can't go on: its checker failed, or names a port that is not there."""

    __test__ = False


def _trimmed(lines: Iterable[str]) -> list[str]:
    """Return lines without the space around them, and without an empty one before and behind."""
    trimmed = [line.strip() for line in lines]
    if trimmed and not trimmed[0]:
        del trimmed[0]
    if trimmed and not trimmed[-1]:
        del trimmed[-1]
    return trimmed


class AssertiveComparisonTester:
    """Asserts that the output has the expected lines, and no others.

    `golden` is the path of a file, or lines; with `regexp` they are patterns of whole lines. Lines in which
    one of the patterns of `ignore` is found do not count, nor, by default, what xsim says of pins that two
    drive.
    """

    def __init__(
        self,
        golden: str | Sequence[str],
        regexp: bool,
        ordered: bool,
        ignore: Sequence[str] | None = None,
        suppress_multidrive_messages: bool = True,
    ) -> None:
        """Take what is expected, and how output is compared with it."""
        lines = read_regular(golden).decode().splitlines() if isinstance(golden, str) else golden
        self._expected = _trimmed(lines)
        self._regexp = regexp
        self._ordered = ordered
        self._ignored = [re.compile(pattern) for pattern in ignore or ()]
        if suppress_multidrive_messages:
            self._ignored.append(re.compile(f"^{MULTIDRIVE}"))

    def run(self, output: str | Sequence[str]) -> None:
        """Compare. Raises AssertionError with both where they differ."""
        lines = output.split("\n") if isinstance(output, str) else output
        counted = (line.strip() for line in lines)
        found = _trimmed(line for line in counted if not any(each.search(line) for each in self._ignored))
        if (difference := self._difference(found)) is not None:
            raise AssertionError(f"{difference}\noutput:   {found}\nexpected: {self._expected}")

    def _difference(self, found: Sequence[str]) -> str | None:
        if len(found) != len(self._expected):
            return f"{len(found)} lines of output and not {len(self._expected)}"
        if self._ordered:
            for number, (line, wanted) in enumerate(zip(found, self._expected, strict=True)):
                if not self._is(line, wanted):
                    return f"line {number} is {line!r} and not {wanted!r}"
            return None
        for line in found:
            if not any(self._is(line, wanted) for wanted in self._expected):
                return f"{line!r} is not expected"
        for wanted in self._expected:
            if not any(self._is(line, wanted) for line in found):
                return f"{wanted!r} is missing"
        return None

    def _is(self, line: str, wanted: str) -> bool:
        return re.fullmatch(wanted, line) is not None if self._regexp else line == wanted


class PytestComparisonTester(AssertiveComparisonTester):
    """The name that `AssertiveComparisonTester` had before test_support 2.0."""


class ComparisonTester:
    """Compares as the others do, says on stderr what differs, and returns whether all is as expected."""

    def __init__(
        self,
        golden: str | Sequence[str] | TextIO,
        regexp: bool = False,
        ignore: Sequence[str] = (),
        ordered: bool = True,
    ) -> None:
        """Take what is expected: a text, lines, or an open file."""
        if isinstance(golden, str):
            lines: Iterable[str] = golden.split("\n")
        else:
            lines = list(golden)
        self._tester = AssertiveComparisonTester(list(lines), regexp, ordered, ignore)
        self.result: bool | None = None
        """Whether the last output was as expected."""

    def run(self, output: str | Sequence[str]) -> bool:
        """Compare, and return whether the output is as expected."""
        try:
            self._tester.run(output)
        except AssertionError as difference:
            sys.stderr.write(f"ERROR: {difference}\nFail\n")
            self.result = False
        else:
            sys.stdout.write("Pass\n")
            self.result = True
        return self.result
