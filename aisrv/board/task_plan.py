"""The plan of a board: its tasks, each on a tile, and the channels that join them, as one value.

A new task is added here, as a part with its tasks and links. The plan is checked and counted here,
`aisrv.board.drawing` draws it, and `aisrv.device.wiring` builds it: a channel for each link, a core for each
task.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from aisrv.board.board import Board
from aisrv.board.specs import BoardError
from aisrv.board.tasks import End, Link, Servers, Task, TaskKind
from aisrv.board.user_tasks import PartKind, PartTarget, TaskTarget, parse_target

CORES: Final = 8
CHANNEL_ENDS: Final = 32

_MOST_NAMES: Final = 12


class Plan(Struct, frozen=True):
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
        """Raise BoardError for too many tasks or channel ends on a tile, or two tasks of one name."""
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
    servers = Servers(
        tuple(_numbered(TaskKind.AIENGINE, spec.tile, number) for number, spec in enumerate(board.engines)),
        tuple(
            _numbered(TaskKind.FLASH_SERVER, spec.tile, number) for number, spec in enumerate(board.flashes)
        ),
    )
    entries = [entry for part in _PARTS for entry in part(board, servers)]
    order = list(TaskKind)
    tasks = [entry for entry in entries if isinstance(entry, Task)]
    return Plan(
        tuple(sorted(tasks, key=lambda task: order.index(task.kind))),
        tuple(entry for entry in entries if isinstance(entry, Link)),
    )


# The parts of a board: for each its tasks and links, in the order in which servers number their clients.

_Entries = Iterator[Task | Link]


def _engines(board: Board, servers: Servers) -> _Entries:
    yield from servers.engines
    for engine, spec in zip(servers.engines, board.engines, strict=True):
        if spec.chain_to is not None:
            yield Link(engine.end("chain"), servers.engines[spec.chain_to].end("clients"), "the chain")
        if servers.flashes:
            yield Link(
                engine.end("flash"), servers.flashes[spec.flash].end("engines"), "models and parameters"
            )


def _usb(board: Board, servers: Servers) -> _Entries:
    if board.usb_task is not None:
        return  # it is among the user's tasks, and starts its XUD core itself
    tasks = _on_tile(board.usb_tile, TaskKind.XUD, TaskKind.USB_EP0, TaskKind.USB_DATA)
    yield from tasks
    for engine in servers.engines:
        yield Link(tasks[-1].end("engines"), engine.end("clients"), "commands")


def _spi(board: Board, servers: Servers) -> _Entries:
    if board.spi is None:
        return
    slave, buffer = _on_tile(board.spi.tile, TaskKind.SPI_SLAVE, TaskKind.SPI_BUFFER)
    engine = servers.engines[board.spi.engine]
    yield from (slave, buffer)
    yield Link(slave.end("buffer"), buffer.end("slave"), "blocks")
    yield Link(buffer.end("engine"), engine.end("clients"), "commands")
    yield Link(engine.end("watchers"), buffer.end("changes"), "model notifications")
    if servers.flashes:
        yield Link(buffer.end("flash"), servers.flashes[0].end("loaders"), "server upgrades")


def _flash(_board: Board, servers: Servers) -> _Entries:
    yield from servers.flashes


def _program(board: Board, servers: Servers) -> _Entries:
    """Give the embedding program ends on the tiles of those whose client it is."""
    for engine in servers.engines:
        yield Link(_program_on(engine.tile).end("engines"), engine.end("clients"), "commands")
    if servers.flashes:
        for engine, spec in zip(servers.engines, board.engines, strict=True):
            flash = servers.flashes[spec.flash]
            yield Link(_program_on(engine.tile).end("windows"), flash.end("windows"), "windows")
    for flash in servers.flashes:
        yield Link(_program_on(flash.tile).end("loaders"), flash.end("loaders"), "writes")


def _sensor(board: Board, servers: Servers) -> _Entries:
    if board.sensor is None:
        return
    sensor, acquire = _on_tile(board.sensor.tile, TaskKind.SENSOR, TaskKind.ACQUIRE)
    yield from (sensor, acquire)
    yield Link(sensor.end("acquire"), acquire.end("sensor"), "exposures")
    for number in board.acquiring:
        engine = servers.engines[number]
        yield Link(engine.end("sensor"), acquire.end("clients"), "acquisitions")
        yield Link(acquire.end("frames"), engine.end("frames"), "frame notifications")


def _user_tasks(board: Board, servers: Servers) -> _Entries:
    tasks = {
        spec.name: Task(spec.name, spec.tile, TaskKind.USER, number)
        for number, spec in enumerate(board.tasks)
    }
    yield from tasks.values()
    for spec in board.tasks:
        for name, text in spec.ends.items():
            end = tasks[spec.name].end(name)
            match parse_target(text):
                case TaskTarget(other, other_end):
                    yield Link(end, tasks[other].end(other_end), name)
                case PartTarget(PartKind.ENGINE, number):
                    yield Link(end, servers.engines[number].end("clients"), "commands")
                case PartTarget(PartKind.CHANGES, number):
                    yield Link(servers.engines[number].end("watchers"), end, "model notifications")
                case PartTarget(PartKind.FLASH, number):
                    yield Link(end, servers.flashes[number].end("loaders"), "reads and writes")


def _parts(board: Board, servers: Servers) -> _Entries:
    for place, part in enumerate(board.parts):
        yield from part.plan(servers._replace(part=place))


_PARTS: Final[tuple[Callable[[Board, Servers], _Entries], ...]] = (
    _engines,
    _usb,
    _spi,
    _flash,
    _program,
    _sensor,
    _parts,
    _user_tasks,
)


def _numbered(kind: TaskKind, tile: int, number: int) -> Task:
    return Task(f"{kind.value} {number}", tile, kind, number)


def _on_tile(tile: int, *kinds: TaskKind) -> list[Task]:
    return [Task(kind.value, tile, kind) for kind in kinds]


def _program_on(tile: int) -> Task:
    return Task(TaskKind.PROGRAM.value, tile, TaskKind.PROGRAM)
