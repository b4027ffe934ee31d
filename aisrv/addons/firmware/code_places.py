"""Lines of source for addresses of a program, by `addr2line`."""

import shutil
import subprocess
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from aisrv.addons.firmware.compiler import HERE

_MOST_FRAMES: Final = 8
_OURS: Final = ("xc_run_", "machine_call")
"""Beginnings of the names of functions that have no file of ours."""


def lines_of(program: Path, frames: Sequence[int]) -> list[str]:
    """Return each frame of the user's as "function at file:line", the innermost first, without our runtime's.

    A function that calls itself is given once, with how often. Empty where `addr2line` is not installed.
    """
    tool = shutil.which("addr2line")
    if tool is None or not frames:
        return []
    command = [tool, "-fpie", str(program), *(hex(frame) for frame in frames)]
    named = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False
    ).stdout.splitlines()
    own = [line for line in map(_place, named) if line]
    folded = [(line, len(list(group))) for line, group in groupby(own)]
    return [line if count == 1 else f"{line}, {count} times" for line, count in folded[:_MOST_FRAMES]]


def _place(text: str) -> str | None:
    """Shorten what `addr2line` says of a frame; None where it is not of the user's code."""
    text = text.strip().removeprefix("(inlined by)").strip()
    function, found, place = text.partition(" at ")
    path = place.partition(" (discriminator")[0]
    if not found or function.startswith(_OURS):
        return None
    if path.startswith("??") or str(HERE) in path or Path(path).name.startswith("tasks.c"):
        return None
    return f"{function} at {Path(path.rpartition(':')[0]).name}:{path.rpartition(':')[2]}"


def in_lines(lines: Sequence[str], when: str = "") -> str:
    """Return how messages give lines of the user's code: the innermost, and what called it."""
    if not lines:
        return ""
    called = f", called by {', '.join(lines[1:])}" if len(lines) > 1 else ""
    return f", {when}in {lines[0]}{called}"
