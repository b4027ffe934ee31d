"""Devices that run with their models loaded: what the commands that serve devices have in common."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from aisrv.board import Board
from aisrv.commands.board_options import MODEL_COMMANDS
from aisrv.commands.port_options import PortOptions, stand_before
from aisrv.device import ModelRefused, open_devices
from phy.usb.bus import HostPort


@asynccontextmanager
async def running_devices(
    boards: Sequence[Board], models: Sequence[Path], memory: str, options: PortOptions | None = None
) -> AsyncIterator[Sequence[HostPort]]:
    """Run a device for each board and load the models into each; gives the hosts' side of the devices.

    Raises ModelRefused, OSError where a file cannot be had, XcoreError for a board with more than a node has.
    """
    engines = min(len(board.engines) for board in boards)
    if len(models) > engines:
        raise ModelRefused(f"{len(models)} models for {engines} engines")
    async with open_devices(boards) as devices:
        for engine, path in enumerate(models):
            model = await trio.Path(path).read_bytes()
            for device in devices:
                await device.load_model(model, engine=engine, command=MODEL_COMMANDS[memory])
        async with stand_before([device.usb for device in devices], options or PortOptions()) as ports:
            yield ports


def first_error(errors: BaseExceptionGroup[Exception]) -> str:
    """Say what the first error in a group of groups was."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
