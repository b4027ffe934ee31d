"""The table `[graph]` of a board: a graph that runs on the device, and the ends of its IOs."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final, Self

from msgspec import field
from msgspec.structs import replace

from aisrv.board import Board, BoardError, Link, Part, Servers, Task
from aisrv.values.settings.tables import Integer
from aisrv.values.settings.toml_file import TomlFile

MOST_CORES: Final = 7
"""Processors that a node of a graph can be bound to."""
LARGEST_IO: Final = 127
"""Largest IO_AL_idx, which has 7 bits."""
WITH_PATH: Final = ("file", "wav", "csv", "raw", "image", "folder", "video")
"""Schemes of ends with a path behind them."""


class Graph(Part, frozen=True, rename={"path": "file"}):
    """A graph of stream-processing nodes; without this table there is none."""

    table: ClassVar[str] = "graph"
    opens: ClassVar[str] = "aisrv.addons.graph.device:DeviceGraph"

    path: Path
    """File of the graph: its words, or its text, which is then compiled."""
    tile: Integer = 0
    """The tile of its interpreters."""
    cores: Integer = 1
    """Interpreters, 1 to 7, each on a core: processors 1, 2 and so on of the graph."""
    engines: tuple[Integer, ...] | None = None
    """Numbers of the engines that its nodes may use. Default: all."""
    ios: Mapping[int, str] = field(default_factory=dict)
    """End of each IO, by its IO_AL_idx, as "scheme:place": a source of frames, `file:PATH` or `gpio:NAME`."""
    platform: Path | None = None
    """Top manifest that its text is compiled for. Default: the one that is shipped."""
    paced: bool = True
    """Whether samples come at the rate of their format, or else as fast as the graph takes them."""

    def __hash__(self) -> int:
        return hash((self.path, self.tile, self.cores, self.engines, self.platform, self.paced))

    def placed(self, file: TomlFile) -> Self:
        return self.resolved(file.directory)

    def resolved(self, folder: Path) -> Self:
        """Return the graph with absolute paths in its ends, where these are relative to a folder."""
        return replace(self, ios={io: _absolute(text, folder) for io, text in self.ios.items()})

    def check(self, board: Board) -> None:
        board.check_tile("the graph", self.tile, "graph")
        if not 1 <= self.cores <= MOST_CORES:
            raise BoardError(f"a graph runs on 1 to {MOST_CORES} cores, not {self.cores}", "graph", "cores")
        for number in self.engines or ():
            if not 0 <= number < len(board.engines):
                raise BoardError(
                    f"the graph uses engine {number}; the board has {len(board.engines)}", "graph", "engines"
                )
        if len(set(self.engines or ())) != len(self.engines or ()):
            raise BoardError("the graph names an engine twice", "graph", "engines")
        for io, text in self.ios.items():
            if not 0 <= io <= LARGEST_IO:
                raise BoardError(f"unknown IO {io}; they are 0 to {LARGEST_IO}", "graph", "ios")
            if not all(text.partition(":")):
                raise BoardError(
                    f'IO {io} of the graph: {text!r} is nothing to join it to, write "scheme:what" such as '
                    "gpio:led",
                    *("graph", "ios", str(io)),
                )

    def numbers(self, engines: int) -> tuple[int, ...]:
        """Return the numbers of the engines that it may use, of so many."""
        return tuple(range(engines)) if self.engines is None else self.engines

    def plan(self, servers: Servers) -> Iterator[Task | Link]:
        tasks = [servers.task(f"graph {number}", self.tile, number) for number in range(self.cores)]
        yield from tasks
        for number in self.numbers(len(servers.engines)):
            engine = servers.engines[number]
            yield Link(tasks[0].end("engines"), engine.end("clients"), "inferences")
            yield Link(engine.end("watchers"), tasks[0].end("changes"), "model notifications")


def _absolute(text: str, folder: Path) -> str:
    scheme, colon, place = text.partition(":")
    return f"{scheme}{colon}{folder / place}" if scheme in WITH_PATH and place else text
