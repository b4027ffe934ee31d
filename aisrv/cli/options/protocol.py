"""The option of `run` and `exec` that chooses what the device speaks, and what else it decides.

A host cannot load a model over the "ioserver" protocol. So the device has the models from the start, an
engine for each, whose number is the model's; they lie beside the arenas, as those compiled into firmware do.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import click

from aisrv.board import DEFAULT_ARENA, KIB, Board, BoardError, UsbProtocol
from aisrv.board.catalog import find_board
from aisrv.cli.options.board import make_board

F = TypeVar("F", bound=Callable[..., Any])

MODEL_MEMORY: Final = {UsbProtocol.AISRV: "arena", UsbProtocol.IOSERVER: "ext"}
"""Memory that models go to unless `--model-memory` says otherwise."""


def protocol_option(function: F) -> F:
    """Add `--protocol` to a command."""
    option: Callable[[F], F] = click.option(
        "--protocol",
        type=click.Choice([protocol.value for protocol in UsbProtocol]),
        default=UsbProtocol.AISRV.value,
        show_default=True,
        callback=lambda _context, _parameter, value: UsbProtocol(value),
        help="What the device speaks; with ioserver, models are numbered in the order of --model.",
    )
    return option(function)


def make_protocol_board(protocol: UsbProtocol, models: int, **board: Any) -> Board:  # noqa: ANN401
    """Build the board of the options `board`, which `make_board` takes, for a number of models.

    With ioserver and no number of engines given, it has one for each model, and those of a tile share the
    default arena; there is no SPI port, whose commands are the AI server's. No model at all is a usage error,
    as is a board that cannot be.
    """
    if protocol is UsbProtocol.AISRV:
        return make_board(**board)
    if not models:
        raise click.UsageError("a host cannot load a model over the ioserver protocol: give --model FILE")
    try:
        base = find_board(board["board_name"])
    except BoardError as error:
        raise click.UsageError(str(error)) from None
    if board["engines"] is None and len(base.engines) < models:
        share = -(-models // (board["tiles"] or base.tiles))
        arena = board["arena"] if board["arena"] is not None else DEFAULT_ARENA // share // KIB * KIB
        board |= {"engines": models, "arena": arena}
    return replace(make_board(**board | {"spi": False}), protocol=protocol)
