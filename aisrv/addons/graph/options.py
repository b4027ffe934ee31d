"""The options of `run` about a graph that runs on the device."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from msgspec.structs import replace

from aisrv.addons.graph.board import Graph
from aisrv.board import Board, BoardError, plan_of
from aisrv.cli.options.added import AddedOptions
from aisrv.terminal.file_types import FILE
from aisrv.terminal.option_group import option


@dataclass(frozen=True, slots=True)
class GraphOptions(AddedOptions):
    """A graph and the ends of its IOs."""

    path: Path | None = option(
        "--graph",
        type=FILE,
        help="Graph to run beside the hosts: its text, or its words. [default: the board's]",
    )
    ios: Sequence[str] = option(
        "--graph-io",
        default=(),
        multiple=True,
        metavar="IO=WHAT",
        help="What an IO is joined to: 4=wav:speech.wav, 8=gpio:led, 9=file:out.raw; adds to the board's.",
    )
    platform: Path | None = option(
        "--graph-platform",
        type=FILE,
        help="Top manifest that the text of the graph is compiled for. [default: the one that is shipped]",
    )

    def boards(self, boards: Sequence[Board]) -> Sequence[Board]:
        """Put the graph on each board."""
        return [self._on(board) for board in boards]

    def _on(self, board: Board) -> Board:
        spec = board.part(Graph)
        if self.path is not None:
            spec = Graph(path=self.path) if spec is None else replace(spec, path=self.path)
        if spec is None:
            if self.ios or self.platform is not None:
                raise click.UsageError("--graph-io and --graph-platform need a graph: give --graph FILE")
            return board
        ios = {}
        for text in self.ios:
            number, equals, what = text.partition("=")
            if not (equals and number.isascii() and number.isdigit() and len(number) < 4):
                raise click.UsageError(f"--graph-io {text!r} is not IO=WHAT, such as 8=gpio:led")
            ios[int(number)] = what
        try:
            spec = replace(spec, ios={**spec.ios, **ios}, platform=self.platform or spec.platform)
            board = board.with_part(Graph, spec.resolved(Path.cwd()))
            plan_of(board).check()
        except BoardError as error:
            raise click.UsageError(str(error)) from None
        return board
