"""The command: run a board, and say how often its heart beats."""

from pathlib import Path

import click
import trio

from aisrv.board.toml_file import read_board
from aisrv.device.device import open_device
from heartbeat.device import RunningHeart


@click.command()
@click.argument("board", type=click.Path(path_type=Path))
def beat(board: Path) -> None:
    """Say how often a board's heart beats in half a second."""

    async def main() -> None:
        async with open_device(read_board(board)) as device:
            await trio.sleep(0.5)
            part = device.part(RunningHeart)
            click.echo(f"{part.beats if part else 0} beats")

    trio.run(main)
