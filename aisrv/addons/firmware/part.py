"""Tasks of the user's own in C: the programs of a board's tiles, and their functions as tasks."""

import logging
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aisrv.addons.firmware.board import CTaskSpec
from aisrv.addons.firmware.c_tile import CTile
from aisrv.addons.firmware.compiler import Program, Unit, build
from aisrv.addons.firmware.confinement import Rights
from aisrv.addons.firmware.errors import FirmwareError
from aisrv.addons.firmware.tile_process import ProcessSettings, TileProcess
from aisrv.board import Board, BoardError
from aisrv.board.xscope_file import read_xscope
from aisrv.device.part_factory import PartFactory
from aisrv.device.user_task import LoadedTask
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.node import Node
from aisrv.xcore.tile import Tile

if TYPE_CHECKING:
    from aisrv.addons.firmware.usb_bus import FirmwareBus

logger = logging.getLogger(__name__)

_SAID: Final = 4000
"""Characters of what a failed command printed, its last, that a message has."""


class CProgram:
    """The program of a tile in C, which starts with the first of its tasks."""

    def __init__(self, file: Path, settings: ProcessSettings, closing: ExitStack) -> None:
        """Hold a compiled program; `closing` ends its process."""
        self.usb: FirmwareBus | None = None
        """The bus on which it is the device, given before it starts."""
        self._file: Final = file
        self._settings: Final = settings
        self._closing: Final = closing
        self._tile: CTile | None = None

    def on(self, tile: Tile) -> CTile:
        """Return the tile with its program running."""
        if self._tile is None:
            process = self._closing.enter_context(TileProcess(self._file, tile.number, self._settings))
            self._tile = CTile(tile, process, self.usb)
        return self._tile


class CTask(LoadedTask, frozen=True):
    """A function in C, ready to run."""

    program: CProgram
    place: int
    """Its place among the functions of the program."""
    arguments: tuple[str | int, ...]

    async def run(self, ends: Mapping[str, ChanEnd], _node: Node, tile: Tile) -> None:
        """Run the function with its channel ends and numbers."""
        given = [ends[each] if isinstance(each, str) else each for each in self.arguments]
        await self.program.on(tile).run(self.place, self.place, self.spec.name, given)

    def make_usb(self, factory: PartFactory) -> "FirmwareBus":
        from aisrv.addons.firmware.usb_bus import FirmwareBus

        bus = factory.make(FirmwareBus, "aisrv.addons.firmware.timed_usb_bus:TimedFirmwareBus")
        self.program.usb = bus
        return bus


def load_c_tasks(
    board: Board, ends: Mapping[int, Collection[str]], closing: ExitStack
) -> dict[int, LoadedTask]:
    """Compile the tasks in C of a board, a program for each tile; `ends` are those of each of them.

    Raises BoardError, with the compiler's message where a source does not compile.
    """
    found: dict[int, LoadedTask] = {}
    in_c = {number: spec for number in ends if isinstance(spec := board.tasks[number], CTaskSpec)}
    macros = () if board.xscope is None else read_xscope(board.xscope).defines
    for tile in range(board.tiles):
        specs = {number: spec for number, spec in in_c.items() if spec.tile == tile}
        if not specs:
            continue
        first = min(specs)
        for number, spec in specs.items():
            if spec.debugger and shutil.which(spec.debugger[0]) is None:
                raise BoardError(
                    f"the task {spec.name!r}: {spec.debugger[0]} is not found", "tasks", number, "debugger"
                )
            _check_folders(number, spec)
            _make_library(number, spec, board.folder)
        try:
            file = build(_program_of(list(specs.values()), macros))
        except FirmwareError as error:
            origin = board.place("tasks", first, specs[first].key) or specs[first].name
            raise BoardError(f"{origin}: {error}", "tasks", first, "c") from None
        program = CProgram(file, _settings_of(list(specs.values())), closing)
        for place, (number, spec) in enumerate(specs.items()):
            found[number] = CTask(spec, program, place, _arguments(number, spec, ends[number]))
    return found


def _settings_of(specs: Sequence[CTaskSpec]) -> ProcessSettings:
    """Return how the program of a tile runs: in the first debugger that one of its tasks names, if any."""
    stack = max(spec.stack for spec in specs)
    debugger = next((spec.debugger for spec in specs if spec.debugger), ())
    has_posts = all(spec.post for spec in specs)
    rights = Rights(
        reads=tuple(dict.fromkeys(folder for spec in specs for folder in spec.reads)),
        writes=tuple(dict.fromkeys(folder for spec in specs for folder in spec.writes)),
        network=any(spec.network for spec in specs),
        has_sanitizer=any("address" in spec.sanitize for spec in specs),
    )
    if not debugger:
        return ProcessSettings(stack, has_posts=has_posts, rights=rights)
    return ProcessSettings(stack, cpu_limit=0, has_posts=has_posts, command=debugger, rights=rights)


def _program_of(specs: Sequence[CTaskSpec], macros: Sequence[str]) -> Program:
    units = dict.fromkeys(Unit(spec.c, (*macros, *_defines(spec)), spec.include) for spec in specs)
    sanitizers = dict.fromkeys(name for spec in specs for name in spec.sanitize)
    libraries = dict.fromkeys(spec.library for spec in specs if spec.library is not None)
    functions = tuple(spec.c_function for spec in specs)
    return Program(tuple(units), functions, tuple(sanitizers), tuple(libraries), specs[0].bits)


def _check_folders(number: int, spec: CTaskSpec) -> None:
    """Raise BoardError where what a task may read or write is no folder."""
    for key, folders in (("reads", spec.reads), ("writes", spec.writes)):
        if missing := next((folder for folder in folders if not folder.is_dir()), None):
            raise BoardError(f"the task {spec.name!r}: {missing} is no folder", "tasks", number, key)


def _make_library(number: int, spec: CTaskSpec, folder: Path | None) -> None:
    """Run the command that makes the library of a task. Raises BoardError with what it prints."""
    if not spec.command:
        return
    logger.warning("the task %r: its command, %s, runs with all rights of yours", spec.name, spec.command[0])
    try:
        done = subprocess.run(
            spec.command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        problem = f"{spec.command[0]}: {error.strerror}"
    else:
        if not done.returncode:
            return
        said = (done.stderr.strip() or done.stdout.strip())[-_SAID:]
        problem = f"{' '.join(spec.command)} ended with {done.returncode}: {said}"
    raise BoardError(f"the task {spec.name!r}: {problem}", "tasks", number, "command")


def _defines(spec: CTaskSpec) -> list[str]:
    given = {name: int(value) if value is True else value for name, value in spec.defines.items()}
    return [f"{name}={value}" for name, value in given.items() if value is not False]


def _arguments(number: int, spec: CTaskSpec, ends: Collection[str]) -> tuple[str | int, ...]:
    """Return the arguments of a task's function, each an end that it has or a number. Raises BoardError."""
    arguments = tuple(ends) if spec.arguments is None else spec.arguments
    for each in arguments:
        if isinstance(each, str) and each not in ends:
            known = ", ".join(ends) or "none"
            raise BoardError(
                f"the task {spec.name!r} has no end {each!r}; its ends are {known}",
                "tasks",
                number,
                "arguments",
            )
    return arguments
