"""What compilers make of tiles: sums, weights and inputs stay in registers while a tile multiplies."""

import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from aisrv.addons.kernels.backends.native.library import COMPILED, FOLDER
from tests.support.programs import missing

FUNCTION: Final = re.compile(r"^[0-9a-f]+ <(\w+)>:\n((?:.+\n?)+)", re.MULTILINE)
INSTRUCTION: Final = re.compile(r"^ *([0-9a-f]+):\t(.*)$", re.MULTILINE)
JUMP: Final = re.compile(r"j\w+ +([0-9a-f]+) ")
PRODUCT: Final = re.compile(r"(\{vex\} )?v?(pdpbusd|pdpwssd|pmaddwd|mulps) ")
STACK: Final = re.compile(r"%[yz]mm.*\(%r[sb]p|\(%r[sb]p.*%[yz]mm")

LOOP: Final = """\
0000000000001000 <tile_1x1>:
    1000:\tvmovups (%rsi),%zmm0
    1004:\tvpdpbusd %zmm0,%zmm1,%zmm2
    1008:\tvmovups %zmm2,0x40(%rsp)
    100c:\tjl     1000 <tile_1x1>
    1010:\tvmovups 0x80(%rsp),%zmm2
    1014:\tret
"""


def inner_loops(listing: str) -> dict[str, list[list[str]]]:
    """The innermost loops with products of each tile, by its name, in a listing of objdump."""
    return {name: _loops(body) for name, body in FUNCTION.findall(listing) if name.startswith("tile")}


def _loops(body: str) -> list[list[str]]:
    instructions = [(int(place, 16), text) for place, text in INSTRUCTION.findall(body)]
    numbers = {place: number for number, (place, _) in enumerate(instructions)}
    loops = []
    for last, (_, text) in enumerate(instructions):
        jump = JUMP.match(text)
        first = numbers.get(int(jump[1], 16), last + 1) if jump else last + 1
        if first <= last:
            loops.append((first, last))
    inner = [
        (first, last)
        for first, last in loops
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in loops)
    ]
    found = [[text for _, text in instructions[first : last + 1]] for first, last in inner]
    return [loop for loop in found if any(map(PRODUCT.match, loop))]


def test_a_register_on_the_stack_is_found() -> None:
    (loop,) = inner_loops(LOOP)["tile_1x1"]
    assert [text for text in loop if STACK.search(text)] == ["vmovups %zmm2,0x40(%rsp)"]


@pytest.mark.long("the kernels are compiled again")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads instructions of x86-64")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_tiles_keep_registers(compiler: str, tmp_path: Path) -> None:
    for program in (compiler, "objdump"):
        if shutil.which(program) is None:
            missing(f"{program} is not installed: apt install gcc clang binutils")
    library = tmp_path / "kernels.so"
    options = ["-O2", "-fvisibility=hidden", "-pthread", "-shared", "-fPIC", "-DAISRV_SOURCE_CRC=0u"]
    subprocess.run([compiler, *options, "-o", library, FOLDER / COMPILED], check=True)
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
    ).stdout
    loops = inner_loops(listing)
    # Each tile has such a loop, but for those that a compiler has made one of.
    assert len(loops) > 100
    assert [name for name, found in loops.items() if not found] == []
    on_stack = {
        name: [text for loop in found for text in loop if STACK.search(text)] for name, found in loops.items()
    }
    assert {name: texts for name, texts in on_stack.items() if texts} == {}
