"""The layers of our sources of C, and what breaks them: includes by texts, calls by the symbols of objects.

A unit is a source with its header. It may include and call those of the floors below its own; units of one
floor do not know each other.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

Floors = Sequence[str]
"""Units of each floor with " | " between them, the highest floor first."""

FIRMWARE: Final = "aisrv/addons/firmware/c"
LAYERS: Final[Mapping[str, Floors]] = {
    FIRMWARE: (
        "scheduler | launch",
        "signals | output",
        "spin | xs3_instructions | memory_transport | thread_call | aisrv_local | xscope | xud_device",
        "lib_xcore | ports | xud | touched_memory",
        "interrupts",
        "runtime",
        "machine",
    ),
    "aisrv/addons/kernels/backends/native": (
        "kernels",
        "recurrent | convolution",
        "avx512 | elements | float32 | float32_copies | float32_functions | int16 | team",
        "processor",
    ),
    "aisrv/addons/kernels/images/c": ("kernels", "network"),
}
"""Folders with sources of C; headers in folders below them are interfaces, and know none of them."""
PART_OF: Final[Mapping[str, str]] = {"coroutines": "runtime"}
"""Headers that belong to a unit of another name: what `runtime.c` shows its scheduler."""

_INCLUDE: Final = re.compile(r'^\s*#\s*include\s+"(?:.*/)?([^"/]+)\.h"', re.MULTILINE)
_DEFINED: Final = frozenset("ABCDGRSTV")
_NEEDED: Final = frozenset("Uvw")


def floors_of(floors: Floors) -> dict[str, int]:
    """Return the floor of each unit; 0 is the lowest."""
    return {name: number for number, floor in enumerate(reversed(floors)) for name in floor.split(" | ")}


def includes(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each unit of a folder with each header that it includes."""
    for path in sorted((*folder.glob("*.c"), *folder.glob("*.h"))):
        for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
            yield PART_OF.get(path.stem, path.stem), PART_OF.get(name, name)


def calls(objects: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield each unit with each other one that defines a symbol of which it needs the address."""
    defined: dict[str, str] = {}
    needed: list[tuple[str, str]] = []
    for path in objects:
        symbols = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
        for *_, kind, name in map(str.split, symbols.splitlines()):
            if kind in _NEEDED:
                needed.append((path.stem, name))
            elif kind in _DEFINED:
                defined[name] = path.stem
    for unit, name in needed:
        if defined.get(name, unit) != unit:
            yield unit, defined[name]


def not_down(floors: Floors, arrows: Iterable[tuple[str, str]]) -> list[str]:
    """Return the arrows between units that do not lead to a lower floor, as "a -> b"."""
    floor = floors_of(floors)
    return sorted(
        f"{a} -> {b}" for a, b in set(arrows) if a != b and a in floor and b in floor and floor[a] <= floor[b]
    )


def folders() -> set[str]:
    """Return the folders of the packages that have sources of C."""
    packages = ("aisrv", "flash_server", "host_tools", "phy")
    sources = (path for package in packages for path in (ROOT / package).rglob("*.c"))
    return {str(path.parent.relative_to(ROOT)) for path in sources}
