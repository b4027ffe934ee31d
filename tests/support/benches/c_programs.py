"""Programs in C for tests: compiled once, run on a node on virtual time."""

import os
import shutil
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

from aisrv.addons.firmware.compiler import Program, Unit, build, mains
from aisrv.addons.firmware.whole_program import Outside, RunSettings, run_whole_programs
from aisrv.addons.firmware.word_size import WordSizeError, check_32_bits
from tests.support.programs import missing

HEADERS = """
#include <print.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xclib.h>
#include <xcore/assert.h>
#include <xcore/channel.h>
#include <xcore/channel_streaming.h>
#include <xcore/channel_transaction.h>
#include <xcore/hwtimer.h>
#include <xcore/lock.h>
#include <xcore/parallel.h>
#include <xcore/port.h>
#include <xcore/select.h>
#include <xcore/triggerable.h>
"""


BITS = (64, pytest.param(32, marks=pytest.mark.long))
"""Sizes of pointers that tests run programs with; 32 not every day."""
CLANG_TOO = pytest.mark.long("clang as well as gcc")
COMPILERS = ("gcc", pytest.param("clang", marks=CLANG_TOO))
"""Compilers that tests compile programs with; clang not every day."""
CASE = "AISRV_TEST_CASE"
"""Variable with the number of the statement that a program of several carries out."""


_COMPILED: dict[tuple[object, ...], Path] = {}


def need_compiler(name: str = "gcc") -> str:
    """Return a compiler of C; skip the test without it."""
    return shutil.which(name) or missing(f"{name} is not installed; .ci/packages does that")


@cache
def need_32_bits(compiler: str, *, is_cpp: bool = False) -> None:
    """Skip the test where a compiler makes no programs of 32 bits, or they don't run."""
    try:
        check_32_bits(compiler, is_cpp=is_cpp)
    except WordSizeError as error:
        missing(f"{error.reason}; .ci/packages installs them")


def one_of(statements: Iterable[str]) -> str:
    """Return a line of C that carries out the statement whose number CASE is: one program for all of them."""
    cases = " ".join(f"case {number}: {{ {each}; }} break;" for number, each in enumerate(statements))
    return f'switch (atoi(getenv("{CASE}"))) {{ {cases} }}'


def compiled(
    folder: Path,
    text: str,
    compiler: str = "gcc",
    options: Sequence[str] = (),
    bits: int = 64,
) -> Path:
    """Compile a program, once for all tests of a process; its lines are numbered from its own first one."""
    path = need_compiler(compiler)
    if bits == 32:
        need_32_bits(path)
    said = (text, path, tuple(options), bits, os.environ.get("XDG_CACHE_HOME"))
    program = _COMPILED.get(said)
    if program is None:
        source = folder / "program.c"
        source.write_text(f'{HEADERS}\n#line 1 "{source}"\n{dedent(text).lstrip()}')
        program = build(Program((Unit((source,), options=tuple(options)),), bits=bits), path)
        _COMPILED[said] = program
    return program


def run_c(
    folder: Path,
    text: str,
    settings: RunSettings | None = None,
    compiler: str = "gcc",
    outside: Sequence[Outside] = (),
    options: Sequence[str] = (),
    bits: int = 64,
) -> int:
    """Compile and run a program, on both tiles where it has a main for tile 1; return its exit code."""
    program = compiled(folder, text, compiler, options, bits)
    programs = {0: program, 1: program} if "main_tile1" in mains(program) else {0: program}
    return run_whole_programs(programs, settings or RunSettings(), outside=outside)


def kept_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder for what is compiled, one for all processes of this run of the tests."""
    base = tmp_path_factory.getbasetemp()
    of_all = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return str(of_all / "programs")


@pytest.fixture
def kept_programs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is compiled in a folder of this run of the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", kept_folder(tmp_path_factory))
