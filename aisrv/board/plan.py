"""What a board asks of its node: the tasks that need cores, and the channels that take channel ends.

The one place that counts them. It says what `aisrv.device.wiring` starts and joins, task by task, in order.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aisrv.board.specs import BoardError

if TYPE_CHECKING:
    from aisrv.board.board import Board

CORES: Final = 8
"""Logical cores of a tile."""
CHANNEL_ENDS: Final = 32
"""Channel ends of a tile."""

_MOST_NAMES: Final = 12
"""Tasks that a message names."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task on a tile."""

    tile: int
    name: str
    """As the node names its core."""
    has_core: bool = True
    """The program that embeds a device has channel ends on its tiles, and no core."""


@dataclass(frozen=True, slots=True)
class Link:
    """A channel: an end on the tile of each of two tasks."""

    a: Task
    b: Task
    carries: str
    """What goes over it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The tasks in the order in which they get their cores, and the channels between them."""

    tasks: tuple[Task, ...]
    links: tuple[Link, ...]

    def cores(self, tile: int) -> tuple[Task, ...]:
        """Return the tasks on the cores of a tile, from core 0."""
        return tuple(task for task in self.tasks if task.tile == tile)

    def channel_ends(self, tile: int) -> int:
        """Count the channel ends that a tile needs."""
        return sum(self._ends(tile).values())

    def check(self, tiles: int) -> None:
        """Raise BoardError where a tile of `tiles` has too few cores or channel ends; it counts them."""
        for tile in range(tiles):
            tasks = self.cores(tile)
            if len(tasks) > CORES:
                names = _listed([task.name for task in tasks])
                raise BoardError(f"tile {tile} needs {len(tasks)} cores: {names}; it has {CORES}")
            ends = self._ends(tile)
            if ends.total() > CHANNEL_ENDS:
                counts = _listed([f"{name} {count}" for name, count in ends.items()])
                raise BoardError(
                    f"tile {tile} needs {ends.total()} channel ends: {counts}; it has {CHANNEL_ENDS}"
                )

    def _ends(self, tile: int) -> Counter[str]:
        sides = (side for link in self.links for side in (link.a, link.b))
        return Counter(side.name for side in sides if side.tile == tile)


def _listed(names: list[str]) -> str:
    if len(names) > _MOST_NAMES:
        names = [*names[:_MOST_NAMES], f"and {len(names) - _MOST_NAMES} more"]
    return ", ".join(names)


def demand_of(board: "Board") -> Demand:
    """Count what a board needs; its tiles, engines and chips must be there."""
    tasks = _Tasks(board)
    return Demand(tuple(tasks.on_cores()), tuple(tasks.links()))


class _Tasks:
    """The tasks of a board by what they do."""

    def __init__(self, board: "Board") -> None:
        self._board = board
        self._engines = [Task(spec.tile, f"aiengine {n}") for n, spec in enumerate(board.engines)]
        self._flashes = [Task(spec.tile, f"flash_server {n}") for n, spec in enumerate(board.flashes)]
        self._usb = [Task(board.usb_tile, name) for name in ("XUD", "usb_ep0", "usb_data")]
        self._spi = (
            [] if board.spi is None else [Task(board.spi.tile, name) for name in ("spi_slave", "spi_buffer")]
        )
        self._acquisition = (
            [] if board.sensor is None else [Task(board.sensor.tile, name) for name in ("sensor", "acquire")]
        )

    def on_cores(self) -> list[Task]:
        return [*self._usb, *self._spi, *self._flashes, *self._acquisition, *self._engines]

    def links(self) -> Iterator[Link]:
        yield from self._engine_links()
        for engine in self._engines:
            yield Link(self._usb[-1], engine, "commands")
        yield from self._spi_links()
        for engine in self._engines:
            yield Link(_program(engine.tile), engine, "commands")
        yield from self._flash_links()
        yield from self._sensor_links()

    def _engine_links(self) -> Iterator[Link]:
        for engine, spec in zip(self._engines, self._board.engines, strict=True):
            if spec.chain_to is not None:
                yield Link(engine, self._engines[spec.chain_to], "the chain")
            if self._flashes:
                yield Link(engine, self._flashes[spec.flash], "models and parameters")

    def _spi_links(self) -> Iterator[Link]:
        if self._board.spi is None:
            return
        slave, buffer = self._spi
        engine = self._engines[self._board.spi.engine]
        yield Link(slave, buffer, "blocks")
        yield Link(buffer, engine, "commands")
        yield Link(engine, buffer, "news of models")
        if self._flashes:
            yield Link(buffer, self._flashes[0], "server upgrades")

    def _flash_links(self) -> Iterator[Link]:
        if self._flashes:
            for engine, spec in zip(self._engines, self._board.engines, strict=True):
                yield Link(_program(engine.tile), self._flashes[spec.flash], "windows")
        for flash in self._flashes:
            yield Link(_program(flash.tile), flash, "writes")

    def _sensor_links(self) -> Iterator[Link]:
        if self._board.sensor is None:
            return
        sensor, acquire = self._acquisition
        yield Link(sensor, acquire, "exposures")
        for number in self._board.acquiring:
            yield Link(self._engines[number], acquire, "acquisitions")
            yield Link(acquire, self._engines[number], "news of frames")


def _program(tile: int) -> Task:
    return Task(tile, "program", has_core=False)
