"""`aisrv firmware`: programs in C on the tiles of a chip, and the headers that they are compiled with."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aisrv.addons.pins.options import PinsOptions
from aisrv.cli.options.logging import start_logging, verbose_option
from aisrv.cli.options.trace import TraceOptions, trace_options
from aisrv.terminal.file_types import FILE
from aisrv.terminal.option_group import option, option_group
from aisrv.terminal.require_linux import require_linux
from aisrv.values.addons import UserTasks, load, others, ours

if TYPE_CHECKING:
    from aisrv.addons.firmware.whole_program import Outside
    from aisrv.addons.pins.task import PinTask

_FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)
_SIZES: Final = click.IntRange(4096, 1 << 24)
_BITS: Final = click.Choice(["64", "32"])


@dataclass(frozen=True, slots=True)
class CompilerOptions:
    """How the sources are compiled."""

    defines: Sequence[str] = option(
        "--define", "-D", multiple=True, metavar="NAME[=VALUE]", help="Macro of the sources; may be repeated."
    )
    include: Sequence[Path] = option(
        "--include",
        "-I",
        multiple=True,
        type=_FOLDER,
        metavar="DIR",
        help="Folder of headers; may be repeated.",
    )
    sanitize: Sequence[str] = option(
        "--sanitize",
        multiple=True,
        type=click.Choice(["address", "undefined"]),
        help="Sanitizer of the compiler; may be repeated.",
    )
    bits: str = option(
        "--bits",
        type=_BITS,
        default="64",
        show_default=True,
        help="Bits of `long`, `size_t` and pointers: on the chip 32.",
    )
    options: str = option(
        "--cflags", default="", metavar="OPTIONS", help="Further options of the compiler, as one word."
    )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How the programs run."""

    seed: int = option("--seed", default=0, show_default=True, help="Order of what is ready at once.")
    live: bool = option(
        "--live",
        is_flag=True,
        help="Take the time of this machine, and not one that passes while cores wait.",
    )
    device_time: bool = option(
        "--device-time",
        is_flag=True,
        default=False,
        help="Have each call of lib_xcore take the time that it takes on the chip.",
    )
    prefix: bool = option(
        "--prefix",
        is_flag=True,
        default=False,
        help="Begin each line that the programs print with its tile and core.",
    )
    no_post: bool = option(
        "--no-post",
        is_flag=True,
        default=False,
        help="Wait for each output to another tile or a port, so that a trap names its very line; slower.",
    )
    on_trap: str = option(
        "--on-trap",
        type=click.Choice(["halt", "stop"]),
        default="halt",
        show_default=True,
        help="Whether a trap halts its core, as on the chip, or stops the run.",
    )
    cpu_limit: int = option(
        "--cpu-limit",
        type=click.IntRange(0, 3600),
        default=5,
        show_default=True,
        metavar="SECONDS",
        help="Say where a core is that runs so long without touching the chip; 0 for never.",
    )
    cpu_limit_action: str = option(
        "--cpu-limit-action",
        type=click.Choice(["report", "halt"]),
        default="report",
        show_default=True,
        help="Whether such a core is only reported, or halted.",
    )
    stack: int = option(
        "--stack", type=_SIZES, default=65536, show_default=True, metavar="BYTES", help="Stack of each core."
    )
    gdb: int | None = option(
        "--gdb",
        type=click.IntRange(0, 1),
        metavar="TILE",
        help="Run the program of this tile in the debugger.",
    )
    debugger: str = option(
        "--debugger", default="gdb -q --args", show_default=True, help="Command of that debugger."
    )
    allow_read: Sequence[Path] = option(
        "--allow-read",
        multiple=True,
        type=_FOLDER,
        default=(".",),
        show_default="the current folder",
        metavar="DIR",
        help="Folder that the programs read; may be repeated.",
    )
    allow_write: Sequence[Path] = option(
        "--allow-write",
        multiple=True,
        type=_FOLDER,
        default=(".",),
        show_default="the current folder",
        metavar="DIR",
        help="Folder that they read and write; may be repeated.",
    )
    allow_network: bool = option(
        "--allow-network", is_flag=True, default=False, help="Let them use the network."
    )


@dataclass(frozen=True, slots=True)
class XscopeOptions:
    """Probes of xscope, and data from the host."""

    xscope_config: Path | None = option(
        "--xscope-config",
        type=FILE,
        help="Config file of the probes, such as config.xscope; its macros are defined in the sources.",
    )
    xscope_in: Path | None = option(
        "--xscope-in", type=FILE, help="File that the host sends to xscope_data_from_host."
    )


@dataclass(frozen=True, slots=True)
class WiredOptions(PinsOptions):
    """What is wired to the pins, and a recording of them."""

    functions: Sequence[str] = option(
        "--pins",
        default=(),
        multiple=True,
        metavar="MODULE:FUNCTION",
        help="Async function in Python that stands for what is wired to the pins; may be repeated.",
    )


@dataclass(frozen=True, slots=True)
class FirmwareRun:
    """What `aisrv firmware run` is told, for whoever runs files of a kind."""

    files: Sequence[Path]
    tile1: Sequence[Path]
    outside: "Sequence[Outside]"
    """What is wired to the pins."""
    compiler: CompilerOptions
    run: RunOptions
    probes: XscopeOptions
    trace: TraceOptions


@click.group()
def firmware() -> None:
    """Compile and run firmware in C, written for XMOS's lib_xcore, on the tiles of a virtual chip.

    \b
    Examples:
      aisrv firmware run main.c
      aisrv firmware run main.c --tile1 filter.c
      cc $(aisrv firmware headers --cflags) -c main.c
    """


@firmware.command()
@require_linux("firmware run")
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--tile1", multiple=True, type=FILE, help="Source of the program of tile 1; may be repeated.")
@option_group("compiler", CompilerOptions)
@option_group("run", RunOptions)
@option_group("probes", XscopeOptions)
@trace_options
@option_group("pins", WiredOptions)
@verbose_option
def run(
    files: Sequence[Path],
    tile1: Sequence[Path],
    compiler: CompilerOptions,
    run: RunOptions,
    probes: XscopeOptions,
    trace: TraceOptions,
    pins: WiredOptions,
    verbose: int,
) -> None:
    """Compile FILES and run them as the program of tile 0.

    A program begins with main; or with main_tile0(chanend_t c) and main_tile1(chanend_t c), in the same files
    or with --tile1, which get the ends of a channel between the tiles. The exit code is main's, or that of
    exit(); 1 where a core trapped, a program was lost or no core can run again, 2 where the sources do not
    compile.

    The programs read and write files below the current folder alone, and have no network, unless options say
    otherwise. They start no processes and signal none. In --gdb the debugger reads all files.

    Functions of --pins run beside the cores; they take `node`, or `tile`, which is tile 0. Their modules are
    beside the first file, or installed.

    \b
    Examples:
      aisrv firmware run blink.c
      aisrv firmware run --pins blink_pins:button --pins blink_pins:lamp blink.c
      aisrv firmware run --pins-vcd pins.vcd blink.c
      aisrv firmware run --define RATE=16000 --include api main.c audio.c
      aisrv firmware run --sanitize address main.c
      aisrv firmware run --bits 32 main.c
      aisrv firmware run --no-post main.c
      aisrv firmware run --gdb 0 main.c
      aisrv firmware run --allow-read recordings --allow-write out main.c
      aisrv firmware run --device-time --trace run.pftrace main.c
      aisrv firmware run --xscope-config config.xscope --xscope probes.vcd main.c
    """
    start_logging(verbose)
    trace.check()
    run_kind: Callable[[FirmwareRun], int] = load(_kind_of((*files, *tile1)).runs)
    wired = _pin_tasks(pins.functions, files[0].absolute().parent)
    outside = [*_recorders(pins), *wired]
    raise SystemExit(run_kind(FirmwareRun(files, tile1, outside, compiler, run, probes, trace)))


def _kind_of(files: Sequence[Path]) -> UserTasks:
    """Find the kind of programs that takes all of the files; C takes what none asks for."""
    every = [kind for add_on in (*ours(), *others()) for kind in add_on.task_kinds.values() if kind.runs]
    asked = {suffix for kind in every for suffix in kind.suffixes} & {path.suffix for path in files}
    found = next((kind for kind in every if asked <= set(kind.suffixes)), None)
    if found is None:
        raise click.UsageError(f"no program is made of {' and '.join(sorted(asked))} together")
    return found


def _recorders(options: PinsOptions) -> "list[Outside]":
    """Return what records the pins, where that is wanted."""
    if options.pins_vcd is None:
        return []
    from aisrv.addons.pins.peripherals.vcd import record_pins

    return [partial(record_pins, options.pins_vcd)]


def _pin_tasks(names: Sequence[str], folder: Path) -> "list[PinTask]":
    from aisrv.addons.pins.task import PinTask
    from aisrv.device.user_module import UserModuleError

    try:
        return [PinTask.load(name, folder) for name in names]
    except UserModuleError as error:
        raise click.BadParameter(str(error), param_hint="--pins") from None


@firmware.command()
@click.option("--cflags", is_flag=True, help="Print all options that a compiler needs for them.")
@click.option("--cmake", is_flag=True, help="Print the path of a toolchain file for CMake.")
@click.option("--bits", type=_BITS, default="64", help="With --cflags: bits of pointers.")
def headers(cflags: bool, cmake: bool, bits: str) -> None:
    """Print the folder of the headers of lib_xcore, for editors and for builds of your own.

    \b
    Examples:
      aisrv firmware headers
      cc $(aisrv firmware headers --cflags) -fsyntax-only main.c
      cmake -B build -DCMAKE_TOOLCHAIN_FILE=$(aisrv firmware headers --cmake)
    """
    from aisrv.addons.firmware.compiler import CFLAGS, INCLUDE, cache, named_compiler
    from aisrv.addons.firmware.inline_assembly import assembler_options
    from aisrv.addons.firmware.word_size import word_size_options

    if cmake:
        from aisrv.addons.firmware.toolchain import write_toolchain

        click.echo(write_toolchain())
        return
    if cflags:
        options = (*CFLAGS, *word_size_options(int(bits)), *assembler_options(named_compiler(), cache()))
        click.echo(shlex.join(("-std=gnu11", *options)))
        return
    click.echo(INCLUDE)
