"""`--dump-tensors`: engines of the kind `kernels` write all their tensors into a folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from aisrv.board import Board
from aisrv.protocol.engine_kind import EngineKind


def dump_tensors(boards: Sequence[Board], folder: Path) -> list[Board]:
    """Return the boards with engines that write into a folder, each of several into one of its own below it.

    These are named `DEVICE.ENGINE`. Raises click.UsageError for an engine of another kind.
    """
    several = sum(len(board.engines) for board in boards) > 1
    return [
        replace(
            board,
            engines=tuple(
                replace(
                    engine,
                    kind=_dumping(engine.kind, engine_number, _place(folder, device, engine_number, several)),
                )
                for engine_number, engine in enumerate(board.engines)
            ),
        )
        for device, board in enumerate(boards)
    ]


def _place(folder: Path, device: int, engine: int, several: bool) -> Path:
    return folder.absolute() / f"{device}.{engine}" if several else folder.absolute()


def _dumping(kind: EngineKind, number: int, folder: Path) -> EngineKind:
    writing = kind.variant.writing(folder)
    if writing is None:
        raise click.UsageError(f"engine {number} is of kind {str(kind)!r}: only kernels can write tensors")
    return kind.with_variant(writing)
