"""Compiling a program of C for a tile with the host's compiler, kept by content.

Source: "Firmware in C on the substrate", sections Memory, and Sources and headers.
"""

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Final

from msgspec import Struct

from aisrv.addons.firmware.errors import FirmwareError
from aisrv.addons.firmware.inline_assembly import assembler_options, has_assembly
from aisrv.addons.firmware.word_size import check_32_bits, word_size_options
from aisrv.values.cache_folder import cache_folder
from aisrv.values.regular_file import read_regular
from aisrv.values.whole_file import write_whole

HERE: Final = Path(str(files("aisrv.addons.firmware"))) / "c"
INCLUDE: Final = HERE / "include"
"""The folder of the headers of lib_xcore."""

RUNTIME: Final = (
    "scheduler.c",
    "signals.c",
    "output.c",
    "runtime.c",
    "machine.c",
    "lib_xcore.c",
    "interrupts.c",
    "spin.c",
    "touched_memory.c",
    "ports.c",
    "xs3_instructions.c",
    "memory_transport.c",
    "thread_call.c",
    "aisrv_local.c",
    "xscope.c",
    "xud.c",
    "xud_device.c",
)

_LAUNCHER: Final = "launch.c"

CFLAGS: Final = (
    "-include",
    "limits.h",
    "-D_ISOC11_SOURCE",
    "-D__XC_HOST__",
    "-funsigned-char",
    f"-I{INCLUDE}",
    "-g",
    "-fno-pic",
    "-fno-pie",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
)
"""Options of each file, but the standard of its language."""
_RUNTIME_CODE: Final = tuple(
    f"--rename-section=.text{part}=runtime_code" for part in ("", ".unlikely", ".hot", ".startup", ".exit")
)
"""Options of `objcopy` by which a program knows where its own code is, and where the runtime's."""
_WRAPPED: Final = ("main", "exit", "_Exit", "_exit", "quick_exit")
"""Functions in whose place the runtime has its own."""
LDFLAGS: Final = ("-no-pie", *(f"-Wl,--wrap={name}" for name in _WRAPPED), "-Wl,-z,noexecstack")
CHECKS: Final = ("-fsanitize=integer-divide-by-zero", "-fsanitize-undefined-trap-on-error")
"""Checks of the compiler in the user's code, each a trap of its core."""
MAINS: Final = ("main", "main_tile0", "main_tile1")
"""Functions that begin a whole program."""
_CPP: Final = (".cc", ".cpp", ".cxx")
_REFUSED: Final = {
    ".xc": "XC is not compiled here; write the task in C, or in Python",
    ".s": "assembly of the XS3 has no counterpart on the host; write that part in C",
}
_OF_A_WIDTH: Final = frozenset(("-m32", "-m64", "-mx32"))
_NO_R11: Final = re.compile("r11.* cannot be clobbered")
_MISSING: Final = "no C compiler is found: install gcc or clang, or name one in CC"


class CompileError(FirmwareError):
    """A program that does not compile; the message holds the compiler's own."""


class Unit(Struct, frozen=True):
    """Sources of C that are compiled alike."""

    sources: tuple[Path, ...]
    defines: tuple[str, ...] = ()
    """Macros, as "NAME" or "NAME=VALUE"."""
    include: tuple[Path, ...] = ()
    """Folders of headers."""
    options: tuple[str, ...] = ()
    """Further options of the compiler."""


class Program(Struct, frozen=True):
    """One tile's program: what it is compiled from."""

    units: tuple[Unit, ...]
    functions: tuple[str, ...] = ()
    """What a board starts; none where the program has a main."""
    sanitize: tuple[str, ...] = ()
    """Sanitizers of the compiler, as "address"."""
    libraries: tuple[Path, ...] = ()
    """Archives and object files that belong to it."""
    bits: int = 64
    """Size of its addresses and of `long`: 64, or 32 as on the chip."""


def find_compiler() -> str:
    """Return the C compiler: that of CC, or gcc, clang or cc. Raises FirmwareError."""
    named = os.environ.get("CC")
    for name in (named,) if named else ("gcc", "clang", "cc"):
        if (path := shutil.which(name)) is not None:
            return path
    raise FirmwareError(f"the compiler of CC, {named!r}, is not found" if named else _MISSING)


def named_compiler() -> str:
    """Return the compiler that CC names, or gcc, whether it is there or not."""
    return os.environ.get("CC") or "gcc"


def cache() -> Path:
    """Return the folder in which programs are kept."""
    return cache_folder() / "firmware"


def build(program: Program, compiler: str | None = None) -> Path:
    """Compile a program, or find it where nothing has changed, and return its file.

    Raises CompileError with the compiler's words, FirmwareError where there is no compiler of its bits.
    """
    compiler = compiler or find_compiler()
    try:
        return _build(program, compiler)
    except CompileError as error:
        if program.bits == 32:
            check_32_bits(compiler, is_cpp=_has_cpp(program))
            if _NO_R11.search(str(error)):
                raise CompileError(
                    f"{error}\nof 32 bits, only clang compiles what names r11: CC=clang"
                ) from None
        raise


def _build(program: Program, compiler: str) -> Path:
    for unit in program.units:
        check_options(unit.options)
    for source in (source for unit in program.units for source in unit.sources):
        if (reason := _REFUSED.get(source.suffix.lower())) is not None:
            raise CompileError(f"{source}: {reason}")
        if not source.is_file():
            raise CompileError(f"{source} is not there")
    for library in program.libraries:
        _check_library(library)
    parts = runtime(compiler, program.functions, program.bits)
    calls = list(_calls(compiler, program))
    texts = _run_all((*call, "-E") for call in calls)
    assemblers = [assembler_options(compiler, cache()) if has_assembly(text) else () for text in texts]
    kept = cache() / _key(compiler, program, [*parts, *texts, *sum(assemblers, ())]) / "program"
    if os.access(kept, os.X_OK):
        return kept
    with tempfile.TemporaryDirectory(prefix="aisrv-firmware-") as folder:
        objects = [f"{folder}/{number}.o" for number in range(len(calls))]
        each = zip(calls, assemblers, objects, strict=True)
        _run_all((*call, *assembler, "-c", "-o", output) for call, assembler, output in each)
        libraries = ("-lstdc++", "-lm") if _has_cpp(program) else ("-lm",)
        linked = Path(folder, "program")
        objects += [*parts, *map(str, program.libraries)]  # an archive gives what those before it want
        options = (*word_size_options(program.bits), *LDFLAGS, *_sanitizers(program))
        _run(compiler, *objects, *options, "-o", str(linked), *libraries)
        _keep(linked, kept)
    return kept


def _has_cpp(program: Program) -> bool:
    return any(source.suffix in _CPP for unit in program.units for source in unit.sources)


def check_options(options: Sequence[str]) -> None:
    """Raise CompileError for an option with which no program of a tile can be made."""
    if found := next((option for option in options if option in _OF_A_WIDTH), None):
        raise CompileError(
            f"{found}: all of a tile's program has one size of addresses: `--bits 32` makes it 32 bits, "
            "`bits = 32` in a board's tasks"
        )


def runtime(compiler: str, functions: Sequence[str] = (), bits: int = 64) -> list[str]:
    """Compile what is linked to each program, or find it where nothing has changed, and return its objects.

    `functions` are what a board starts; none where the program has a main.
    """
    from aisrv.addons.firmware.records import (
        header,  # it loads Trio, which a call of the compiler alone needs not
    )

    contents = [path.read_bytes() for path in sorted(HERE.rglob("*")) if path.is_file()]
    size = word_size_options(bits)
    options = ("-std=gnu11", "-D_GNU_SOURCE", *CFLAGS, *size, f"-I{HERE}", "-O2", "-fno-stack-protector")
    said = "\0".join((_version(compiler), compiler, header(), *options, *_RUNTIME_CODE))
    kept = cache() / hashlib.sha256(b"\0".join((said.encode(), *contents))).hexdigest()[:32]
    table = _table(functions)
    tasks = f"tasks-{hashlib.sha256(table.encode()).hexdigest()[:32]}.c"  # all boards share the others
    objects = [kept / Path(name).with_suffix(".o") for name in (*RUNTIME, tasks)]
    if all(each.is_file() for each in objects):
        return list(map(str, objects))
    with _alone(kept), tempfile.TemporaryDirectory(prefix="aisrv-firmware-") as folder:
        work = Path(folder)
        (work / "verbs.h").write_text(header())
        (work / tasks).write_text(table)
        sources = (*(HERE / name for name in RUNTIME), work / tasks)
        left = [pair for pair in zip(sources, objects, strict=True) if not pair[1].is_file()]
        call = (compiler, *options, f"-I{work}", "-c")
        _run_all((*call, str(source), "-o", str(work / output.name)) for source, output in left)
        for _, output in left:
            _run(_binutils("objcopy"), *_RUNTIME_CODE, str(work / output.name))
            _keep(work / output.name, output)
    return list(map(str, objects))


def launcher() -> Path:
    """Compile what starts the programs of tiles with no more than their rights, or find it where it is.

    Raises FirmwareError.
    """
    source = HERE / _LAUNCHER
    kept = cache() / f"launch-{hashlib.sha256(read_regular(source)).hexdigest()[:32]}" / "launch"
    if not os.access(kept, os.X_OK):
        with tempfile.TemporaryDirectory(prefix="aisrv-firmware-") as folder:
            made = Path(folder, "launch")
            _run(find_compiler(), "-O2", "-o", str(made), str(source))
            _keep(made, kept)
    return kept


@contextmanager
def _alone(kept: Path) -> Iterator[None]:
    """Have one process compile the runtime while others that want it wait."""
    import fcntl  # not on Windows, where no program of a tile runs

    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("w") as lock:
        with suppress(OSError):  # some file systems have no locks: there each compiles it
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def mains(program: Path) -> dict[str, int]:
    """Return which of main, main_tile0 and main_tile1 a program has, with their numbers in its table.

    Raises FirmwareError for a file that is no program.
    """
    # `nm` says the same, but may load the plugins of linkers first, which takes ten times as long.
    lines = map(str.split, _run(_binutils("readelf"), "--syms", "--wide", str(program)).splitlines())
    symbols = {line[-1] for line in lines if len(line) == 8 and line[6] != "UND"}
    return {name: number for number, name in enumerate(MAINS) if name in symbols}


def _binutils(name: str) -> str:
    """Return a tool of binutils. Raises FirmwareError."""
    if (tool := shutil.which(name)) is None:
        raise FirmwareError(f"{name} is not found: install binutils, which belongs to the compiler")
    return tool


def _check_library(library: Path) -> None:
    """Raise CompileError for a library that cannot be a part of a program."""
    if ".so" in library.suffixes:
        raise CompileError(
            f"{library}: a shared library lies above 4 GiB, where no pointer fits a word; make an archive, .a"
        )
    if not library.is_file():
        raise CompileError(f"{library} is not there; `command` may name what makes it")


def _keep(output: Path, kept: Path) -> None:
    """Move a program to its place, whole."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_whole(kept, [read_regular(output)])
    kept.chmod(0o755)


def _calls(compiler: str, program: Program) -> Iterator[tuple[str, ...]]:
    """Return the compiler's call for each of the user's sources."""
    checks = (*word_size_options(program.bits), *CHECKS, *_sanitizers(program))
    for unit in program.units:
        own = [f"-D{define}" for define in unit.defines] + [f"-I{folder}" for folder in unit.include]
        for source in unit.sources:
            standard = "-std=gnu++17" if source.suffix in _CPP else "-std=gnu11"
            yield (compiler, standard, *CFLAGS, "-Og", *checks, *own, *unit.options, str(source))


def _sanitizers(program: Program) -> list[str]:
    return [f"-fsanitize={name}" for name in program.sanitize]


def _table(functions: Sequence[str]) -> str:
    """Return the source that names what is started: functions of a board, or a program's mains."""
    if functions:
        declared = [f"extern void {name}();" for name in functions]
        rows = [f"    {{(void *){name}, 0}}," for name in functions]
    else:
        names = ("__real_main", *MAINS[1:])  # main is what the C library starts: ours
        declared = [f"extern int {name}() __attribute__((weak));" for name in names]
        rows = [f"    {{(void *){name}, {1 if name == names[0] else 2}}}," for name in names]
    table = ["const runtime_task_t runtime_tasks[] = {", *rows, "};"]
    return "\n".join(('#include "verbs.h"', *declared, *table, ""))


def _key(compiler: str, program: Program, texts: Sequence[str]) -> str:
    """Return what changes with the compiler, the options and the sources, headers included."""
    options = [option for unit in program.units for option in unit.options]
    options += [hashlib.sha256(read_regular(library)).hexdigest() for library in program.libraries]
    options += word_size_options(program.bits)
    parts = (_version(compiler), compiler, *CFLAGS, *LDFLAGS, *program.sanitize, *options, *texts)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@functools.cache
def _version(compiler: str) -> str:
    return _run(compiler, "--version")


def _run_all(commands: Iterable[tuple[str, ...]]) -> list[str]:
    """Run commands, as many at once as there are processors. Raises as the first of them that fails."""
    from concurrent.futures import ThreadPoolExecutor  # a call of the compiler alone needs none

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda command: _run(*command), commands))


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise CompileError(done.stderr.strip() or f"{command[0]} failed with {done.returncode}")
    return done.stdout
