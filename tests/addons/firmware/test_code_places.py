"""Lines of source for addresses."""

import re
import subprocess
from pathlib import Path

import pytest

from aisrv.addons.firmware.code_places import in_lines, lines_of
from tests.support.benches.c_programs import compiled, need_compiler


def address_of(program: Path, function: str) -> int:
    """Address of a function, by another tool."""
    symbols = subprocess.run(
        [need_compiler("nm"), str(program)], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(rf"^(\w+) T {function}$", symbols, re.MULTILINE)
    assert found is not None
    return int(found[1], 16)


def test_frames_of_the_user_are_named_and_repeated_ones_folded(tmp_path: Path) -> None:
    need_compiler("addr2line")
    program = compiled(tmp_path, "void a(void) {}\nvoid b(void) {}\nint main(void) {}")
    a, b, runtime = (address_of(program, name) for name in ("a", "b", "runtime_verb"))
    assert lines_of(program, [runtime, a, b, b, b, 5]) == ["a at program.c:1", "b at program.c:2, 3 times"]


def test_without_frames_or_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines_of(tmp_path / "none", []) == []
    monkeypatch.setenv("PATH", "/nowhere")
    assert lines_of(tmp_path / "none", [1]) == []


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], ""),
        (["a at x.c:1"], ", in a at x.c:1"),
        (["a at x.c:1", "b at x.c:2", "c at x.c:3"], ", in a at x.c:1, called by b at x.c:2, c at x.c:3"),
    ],
)
def test_lines_in_messages(lines: list[str], text: str) -> None:
    assert in_lines(lines) == text
