"""The plan of a board: its tasks, each on a tile, and the channels that join them, as one value.

Whoever adds a task adds it here, with its links. The plan is checked and counted here, `aisrv.board.drawing`
draws it, and `aisrv.device.wiring` carries it out: a channel for each link, a core for each task.
"""

import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aisrv.board.board import Board
from aisrv.board.specs import BoardError
from aisrv.board.user_tasks import PartKind, PartTarget, TaskTarget, parse_target

CORES: Final = 8
"""Logical cores of a tile."""
CHANNEL_ENDS: Final = 32
"""Channel ends of a tile."""

_MOST_NAMES: Final = 12
"""Tasks that a message names."""


class TaskKind(enum.Enum):
    """What a task does, by the name of its function; `aisrv.device.tasks` says how each kind is started."""

    XUD = "XUD"
    USB_EP0 = "usb_ep0"
    USB_DATA = "usb_data"
    SPI_SLAVE = "spi_slave"
    SPI_BUFFER = "spi_buffer"
    FLASH_SERVER = "flash_server"
    SENSOR = "sensor"
    ACQUIRE = "acquire"
    AIENGINE = "aiengine"
    USER = "user"
    """A task of the user's own."""
    PROGRAM = "program"
    """The program that embeds a device: it has channel ends on the tiles, and no core."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task on a tile."""

    name: str
    """As the node names its core; no other task has it."""
    tile: int
    kind: TaskKind
    number: int = 0
    """Of its engine, its flash chip, or its place among the tasks of the user's own."""

    def end(self, name: str) -> "End":
        """Return an end of a channel at this task."""
        return End(self, name)


@dataclass(frozen=True, slots=True)
class End:
    """An end of a channel: the task that has it, and the name that the task knows it by.

    Several ends of a task may have one name; the task gets them in the order of the plan's links.
    """

    task: Task
    name: str


@dataclass(frozen=True, slots=True)
class Link:
    """A channel: an end on the tile of each of two tasks."""

    a: End
    b: End
    carries: str
    """What goes over it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks in the order in which they get their cores, and the channels between them."""

    tasks: tuple[Task, ...]
    links: tuple[Link, ...]

    def cores(self, tile: int) -> tuple[Task, ...]:
        """Return the tasks on the cores of a tile, from core 0."""
        return tuple(task for task in self.tasks if task.tile == tile)

    def ends_of(self, task: Task) -> tuple[End, ...]:
        """Return the channel ends of a task, in the order of the links."""
        return tuple(end for link in self.links for end in (link.a, link.b) if end.task == task)

    def channel_ends(self, tile: int) -> int:
        """Count the channel ends that a tile needs."""
        return self._ends(tile).total()

    def check(self) -> None:
        """Raise BoardError where a tile has too few cores or channel ends; the message counts them.

        Two tasks of one name are an error too.
        """
        taken = {TaskKind.PROGRAM.value}
        for task in self.tasks:
            if task.name in taken:
                raise BoardError(
                    f"the board has a task {task.name!r} already: give this one another name",
                    *("tasks", task.number, "name"),
                )
            taken.add(task.name)
        for tile in sorted({task.tile for task in self.tasks}):
            tasks = self.cores(tile)
            users = [task for task in tasks if task.kind is TaskKind.USER]
            setting = ("tasks", users[-1].number, "tile") if users else ()
            if len(tasks) > CORES:
                names = _listed([task.name for task in tasks])
                raise BoardError(f"tile {tile} needs {len(tasks)} cores: {names}; it has {CORES}", *setting)
            ends = self._ends(tile)
            if ends.total() > CHANNEL_ENDS:
                counts = _listed([f"{name} {count}" for name, count in ends.items()])
                raise BoardError(
                    f"tile {tile} needs {ends.total()} channel ends: {counts}; it has {CHANNEL_ENDS}",
                    *setting,
                )

    def _ends(self, tile: int) -> Counter[str]:
        ends = (end for link in self.links for end in (link.a, link.b))
        return Counter(end.task.name for end in ends if end.task.tile == tile)


def _listed(names: list[str]) -> str:
    if len(names) > _MOST_NAMES:
        names = [*names[:_MOST_NAMES], f"and {len(names) - _MOST_NAMES} more"]
    return ", ".join(names)


def plan_of(board: Board) -> Plan:
    """Return the plan of a board; `Plan.check` says whether the tiles have cores and ends enough for it."""
    tasks = _Tasks(board)
    return Plan(tuple(tasks.on_cores()), tuple(tasks.links()))


class _Tasks:
    """The tasks of a board by what they do, and what joins them."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._engines = [
            _numbered(TaskKind.AIENGINE, spec.tile, number) for number, spec in enumerate(board.engines)
        ]
        self._flashes = [
            _numbered(TaskKind.FLASH_SERVER, spec.tile, number) for number, spec in enumerate(board.flashes)
        ]
        self._usb = _on_tile(board.usb_tile, TaskKind.XUD, TaskKind.USB_EP0, TaskKind.USB_DATA)
        self._spi = (
            [] if board.spi is None else _on_tile(board.spi.tile, TaskKind.SPI_SLAVE, TaskKind.SPI_BUFFER)
        )
        self._acquisition = (
            [] if board.sensor is None else _on_tile(board.sensor.tile, TaskKind.SENSOR, TaskKind.ACQUIRE)
        )
        self._user = [
            Task(spec.name, spec.tile, TaskKind.USER, number) for number, spec in enumerate(board.tasks)
        ]

    def on_cores(self) -> list[Task]:
        return [*self._usb, *self._spi, *self._flashes, *self._acquisition, *self._engines, *self._user]

    def links(self) -> Iterator[Link]:
        yield from self._engine_links()
        yield from self._usb_links()
        yield from self._spi_links()
        yield from self._program_links()
        yield from self._sensor_links()
        for task, spec in zip(self._user, self._board.tasks, strict=True):
            for name, target in spec.ends.items():
                yield self._user_link(task.end(name), parse_target(target))

    def _engine_links(self) -> Iterator[Link]:
        for engine, spec in zip(self._engines, self._board.engines, strict=True):
            if spec.chain_to is not None:
                yield Link(engine.end("chain"), self._engines[spec.chain_to].end("clients"), "the chain")
            if self._flashes:
                flash = self._flashes[spec.flash]
                yield Link(engine.end("flash"), flash.end("engines"), "models and parameters")

    def _usb_links(self) -> Iterator[Link]:
        data = self._usb[-1]
        for engine in self._engines:
            yield Link(data.end("engines"), engine.end("clients"), "commands")

    def _spi_links(self) -> Iterator[Link]:
        if self._board.spi is None:
            return
        slave, buffer = self._spi
        engine = self._engines[self._board.spi.engine]
        yield Link(slave.end("buffer"), buffer.end("slave"), "blocks")
        yield Link(buffer.end("engine"), engine.end("clients"), "commands")
        yield Link(engine.end("watchers"), buffer.end("changes"), "model notifications")
        if self._flashes:
            yield Link(buffer.end("flash"), self._flashes[0].end("loaders"), "server upgrades")

    def _program_links(self) -> Iterator[Link]:
        for engine in self._engines:
            yield Link(_program(engine.tile).end("engines"), engine.end("clients"), "commands")
        if self._flashes:
            for engine, spec in zip(self._engines, self._board.engines, strict=True):
                flash = self._flashes[spec.flash]
                yield Link(_program(engine.tile).end("windows"), flash.end("windows"), "windows")
        for flash in self._flashes:
            yield Link(_program(flash.tile).end("loaders"), flash.end("loaders"), "writes")

    def _sensor_links(self) -> Iterator[Link]:
        if self._board.sensor is None:
            return
        sensor, acquire = self._acquisition
        yield Link(sensor.end("acquire"), acquire.end("sensor"), "exposures")
        for number in self._board.acquiring:
            engine = self._engines[number]
            yield Link(engine.end("sensor"), acquire.end("clients"), "acquisitions")
            yield Link(acquire.end("frames"), engine.end("frames"), "frame notifications")

    def _user_link(self, end: End, target: PartTarget | TaskTarget) -> Link:
        if isinstance(target, TaskTarget):
            other = next(task for task in self._user if task.name == target.task)
            return Link(end, other.end(target.end), end.name)
        if target.kind is PartKind.FLASH:
            return Link(end, self._flashes[target.number].end("loaders"), "reads and writes")
        engine = self._engines[target.number]
        if target.kind is PartKind.CHANGES:
            return Link(engine.end("watchers"), end, "model notifications")
        return Link(end, engine.end("clients"), "commands")


def _numbered(kind: TaskKind, tile: int, number: int) -> Task:
    return Task(f"{kind.value} {number}", tile, kind, number)


def _on_tile(tile: int, *kinds: TaskKind) -> list[Task]:
    return [Task(kind.value, tile, kind) for kind in kinds]


def _program(tile: int) -> Task:
    return Task(TaskKind.PROGRAM.value, tile, TaskKind.PROGRAM)
