"""The names that a program defines, as `nm` says them, and files that are no programs."""

import subprocess
from pathlib import Path

import pytest

from aisrv.firmware.errors import FirmwareError
from aisrv.firmware.symbols import defined_in
from tests.support.c_programs import need_compiler

SOURCE = """
extern int main_tile1() __attribute__((weak));
int main(void) { return main_tile1 ? main_tile1() : 0; }
int xmain(void) { return 0; }
static int main_tile0(void) { return 1; }
int number;
int (*const uses)(void) = main_tile0;
"""
NAMES = ("main", "main_tile0", "main_tile1", "number", "ain")


def compiled_object(folder: Path, bits: int) -> Path:
    """Compile a source that needs no headers."""
    output = folder / "main.o"
    command = [need_compiler(), f"-m{bits}", "-x", "c", "-", "-c", "-o", str(output)]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    return output


@pytest.mark.parametrize("bits", [64, 32])
def test_the_names_are_those_of_nm(tmp_path: Path, bits: int) -> None:
    program = compiled_object(tmp_path, bits)
    listed = subprocess.run(
        [need_compiler("nm"), "--defined-only", program], capture_output=True, text=True, check=True
    ).stdout
    expected = {line.split()[-1] for line in listed.splitlines()}.intersection(NAMES)
    assert expected == {"main", "main_tile0", "number"}
    assert defined_in(program, NAMES) == expected


def test_a_program_without_symbols_defines_none(tmp_path: Path) -> None:
    program = compiled_object(tmp_path, 64)
    subprocess.run([need_compiler("strip"), program], check=True)
    assert defined_in(program, NAMES) == set()


def test_what_is_no_program(tmp_path: Path) -> None:
    whole = compiled_object(tmp_path, 64).read_bytes()
    program = tmp_path / "program"
    with pytest.raises(FirmwareError, match=r"program: No such file or directory$"):
        defined_in(program, NAMES)
    for data in (b"", b"\x7fELF", b"\x7fELF\x03" + whole[5:], b"#!/bin/sh\n"):
        program.write_bytes(data)
        with pytest.raises(FirmwareError, match=r"program is no program$"):
            defined_in(program, NAMES)


def test_a_program_that_is_cut_or_changed_has_names_or_is_refused(tmp_path: Path) -> None:
    whole = compiled_object(tmp_path, 64).read_bytes()
    program = tmp_path / "program"
    for place in range(5, len(whole), 23):
        for data in (whole[:place], whole[:place] + b"\xff" + whole[place + 1 :]):
            program.write_bytes(data)
            try:
                assert defined_in(program, NAMES) <= set(NAMES)
            except FirmwareError as error:
                assert str(error) == f"{program} is no whole program"  # noqa: PT017 - it need not be raised
