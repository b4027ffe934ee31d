"""Effects of a device's protocol on its board and its models.

A host cannot load a model over the "ioserver" protocol. So the device has the models from the start, an
engine for each, whose number is the model's; they lie beside the arenas, as those compiled into firmware do.
"""

from dataclasses import replace
from typing import Final

import click

from aisrv.board import DEFAULT_ARENA, KIB, Board, BoardError, UsbProtocol
from aisrv.board.catalog import find_board
from aisrv.cli.options.board import BoardOptions, make_board

MODEL_MEMORY: Final = {UsbProtocol.AISRV: "arena", UsbProtocol.IOSERVER: "ext"}
"""Memory that models go to unless `--model-memory` says otherwise."""


def make_protocol_board(protocol: UsbProtocol, models: int, options: BoardOptions) -> Board:
    """Build the board of the options, for a number of models.

    With ioserver and no number of engines given, it has one for each model, and those of a tile share the
    default arena; there is no SPI port, whose commands are the AI server's. No model at all is a usage error,
    as is an impossible board.
    """
    if protocol is UsbProtocol.AISRV:
        return make_board(options)
    if not models:
        raise click.UsageError("a host cannot load a model over the ioserver protocol: give --model FILE")
    try:
        base = find_board(options.name)
    except BoardError as error:
        raise click.UsageError(str(error)) from None
    if options.engines is None and len(base.engines) < models:
        share = -(-models // (options.tiles or base.tiles))
        arena = options.arena if options.arena is not None else DEFAULT_ARENA // share // KIB * KIB
        options = replace(options, engines=models, arena=arena)
    return replace(make_board(replace(options, spi=False)), protocol=protocol)
