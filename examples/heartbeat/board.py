"""A heart that beats: a task that asks engine 0 for its status, so often a second."""

from collections.abc import Iterator
from typing import ClassVar

from aisrv.board import Board, BoardError, Link, Part, Servers, Task


class Heartbeat(Part, frozen=True):
    """A heart that beats; without this table there is none."""

    table: ClassVar[str] = "heartbeat"
    opens: ClassVar[str] = "heartbeat.device:RunningHeart"

    tile: int = 0
    """Tile of its task."""
    rate: float = 100.0
    """Beats a second."""

    def check(self, board: Board) -> None:
        """Refuse a tile that the board lacks, and a rate that no heart has."""
        board.check_tile("the heart", self.tile, "heartbeat")
        if not 0 < self.rate <= 1000:
            raise BoardError(f"a heart of {self.rate:g} beats a second; 1000 at most", "heartbeat", "rate")

    def plan(self, servers: Servers) -> Iterator[Task | Link]:
        """Place its task, and join it to engine 0 as a client."""
        heart = servers.task("heart", self.tile)
        yield heart
        yield Link(heart.end("engine"), servers.engines[0].end("clients"), "beats")
