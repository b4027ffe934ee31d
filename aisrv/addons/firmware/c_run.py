"""`aisrv firmware run` of files in C: they are compiled, and run as the programs of the tiles."""

import shlex
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import click

from aisrv.addons.firmware.commands import CompilerOptions, FirmwareRun, RunOptions
from aisrv.addons.firmware.compiler import CompileError, Program, Unit, build, mains
from aisrv.addons.firmware.confinement import Rights
from aisrv.addons.firmware.errors import FirmwareError
from aisrv.addons.firmware.tile_process import ProcessSettings
from aisrv.addons.firmware.whole_program import RunSettings, run_whole_programs
from aisrv.addons.pins.errors import PinTaskError
from aisrv.board import BoardFileError
from aisrv.board.xscope_file import read_xscope
from aisrv.cli.options.trace import TraceOptions, open_trace
from aisrv.values.regular_file import read_regular
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import XcoreError

NOT_COMPILED: Final = 2
"""Exit code for a program that does not compile."""


class _NotCompiled(click.ClickException):
    exit_code = NOT_COMPILED


def run_c(told: FirmwareRun) -> int:
    """Compile and run the files; return the exit code. Raises ClickException."""
    run, compiler, probes = told.run, told.compiler, told.probes
    if run.gdb is not None:
        signal.signal(signal.SIGINT, lambda _number, _frame: None)  # it is the debugger's
    try:
        config = None if probes.xscope_config is None else read_xscope(probes.xscope_config)
        macros = () if config is None else config.defines
        programs = {0: build(_program(told.files, compiler, macros))}
        if told.tile1:
            programs[1] = build(_program(told.tile1, compiler, macros))
        elif "main_tile1" in mains(programs[0]):
            programs[1] = programs[0]
        settings = RunSettings(
            processes={tile: _process(run, tile, _rights(run, compiler)) for tile in programs},
            seed=run.seed,
            is_live=run.live,
            stops_at_trap=run.on_trap == "stop",
            takes_chip_time=run.device_time,
            probes=None if config is None else config.probes,
            host_data=b"" if probes.xscope_in is None else read_regular(probes.xscope_in),
        )
        tracers = partial(_open_tracers, told.trace, run)
        return run_whole_programs(programs, settings, tracers, told.outside)
    except CompileError as error:
        raise _NotCompiled(str(error)) from None
    except (FirmwareError, PinTaskError, XcoreError, BoardFileError) as error:
        raise click.ClickException("\n".join((str(error), *getattr(error, "__notes__", ())))) from None


def _program(files: Sequence[Path], options: CompilerOptions, macros: Sequence[str]) -> Program:
    unit = Unit(
        tuple(path.absolute() for path in files),
        (*macros, *options.defines),
        tuple(path.absolute() for path in options.include),
        tuple(shlex.split(options.options)),
    )
    return Program((unit,), sanitize=tuple(options.sanitize), bits=int(options.bits))


def _rights(options: RunOptions, compiler: CompilerOptions) -> Rights:
    folders = tuple(options.allow_read), tuple(options.allow_write)
    return Rights(*folders, options.allow_network, has_sanitizer="address" in compiler.sanitize)


def _process(run: RunOptions, tile: int, rights: Rights) -> ProcessSettings:
    in_debugger = tile == run.gdb
    return ProcessSettings(
        run.stack,
        0 if in_debugger else run.cpu_limit,
        run.cpu_limit_action == "halt",
        run.prefix,
        not run.no_post,
        command=tuple(shlex.split(run.debugger)) if in_debugger else (),
        rights=rights,
    )


@asynccontextmanager
async def _open_tracers(options: TraceOptions, run: RunOptions) -> AsyncIterator[Sequence[Tracer]]:
    with ExitStack() as stack:
        tracers: list[Tracer] = []
        if (recording := stack.enter_context(open_trace(options, in_ticks=run.device_time))) is not None:
            tracers.append(recording.tracer("chip", device_time=run.device_time))
        if options.xscope is not None:
            from aisrv.monitor.xscope_recording import open_xscope

            tracers.append(stack.enter_context(open_xscope(options.xscope)).tracer)
        yield tracers
