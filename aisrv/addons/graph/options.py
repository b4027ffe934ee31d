"""The options of `run` about a graph that runs on the device."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from aisrv.board import Board, BoardError, GraphSpec, plan_of
from aisrv.terminal.file_types import FILE
from aisrv.terminal.option_group import option, option_group


@dataclass(frozen=True, slots=True)
class GraphOptions:
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


graph_options = option_group("graph", GraphOptions)


def with_graph(board: Board, options: GraphOptions) -> Board:
    """Return the board with the graph of the options. Raises click.UsageError for an impossible one."""
    spec = board.graph
    if options.path is not None:
        spec = GraphSpec(options.path) if spec is None else replace(spec, path=options.path)
    if spec is None:
        if options.ios or options.platform is not None:
            raise click.UsageError("--graph-io and --graph-platform need a graph: give --graph FILE")
        return board
    ios = dict(spec.ios)
    for text in options.ios:
        number, equals, what = text.partition("=")
        if not (equals and number.isascii() and number.isdigit() and len(number) < 4):
            raise click.UsageError(f"--graph-io {text!r} is not IO=WHAT, such as 8=gpio:led")
        # Paths of the command line are relative to where it runs.
        scheme, _, place = what.partition(":")
        ios[int(number)] = f"{scheme}:{Path.cwd() / place}" if scheme in _PATHS else what
    try:
        board = replace(board, graph=replace(spec, ios=ios, platform=options.platform or spec.platform))
        plan_of(board).check()
    except BoardError as error:
        raise click.UsageError(str(error)) from None
    return board


_PATHS = ("file", "wav", "csv", "raw", "image", "folder", "video")
"""Schemes with a path behind them."""
