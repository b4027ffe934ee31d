"""Devices that run with their models loaded: what the commands that serve devices have in common."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from aisrv.board import Board
from aisrv.cli.options.board import MODEL_COMMANDS
from aisrv.cli.options.spi import SpiOptions, stand_before_spi
from aisrv.cli.options.status import StatusOptions, Watched, watch_devices
from aisrv.cli.options.usb import PortOptions, stand_before
from aisrv.device.device import Device, ModelRefused, open_devices
from aisrv.inference.process.worker_pool import Spares, open_spares
from flash_server.chip.chip import FlashChip
from flash_server.client.flash_channel import FlashChannel
from phy.spi.bus import SpiPort
from phy.usb.bus import HostPort


@dataclass(frozen=True, slots=True)
class WireOptions:
    """What stands before the devices' ports."""

    usb: PortOptions = field(default_factory=PortOptions)
    spi: SpiOptions = field(default_factory=SpiOptions)
    status: StatusOptions = field(default_factory=StatusOptions)


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside of running devices, for doors to drive."""

    usb: Sequence[HostPort]
    spi: Mapping[str, SpiPort]
    """By bus and chip select, such as `0.0`."""
    flashes: Sequence[tuple[FlashChip, FlashChannel]]
    """All flash chips, device by device, each with a channel to its server that may write."""
    watched: Watched
    """Who watches the devices."""


@asynccontextmanager
async def running_devices(
    boards: Sequence[Board], models: Sequence[Path], memory: str, options: WireOptions | None = None
) -> AsyncIterator[Ports]:
    """Run a device for each board and load the models into each; gives the outside of the devices.

    Raises ModelRefused, OSError or StorageError where a file cannot be had, XcoreError for a board with more
    than a node has.
    """
    options = options or WireOptions()
    engines = min(len(board.engines) for board in boards)
    if len(models) > engines:
        raise ModelRefused(f"{len(models)} models for {engines} engines")
    async with AsyncExitStack() as stack:
        spares = stack.enter_context(open_spares())
        devices = await stack.enter_async_context(_loaded(boards, models, memory, spares))
        chips = [chip for device in devices for chip in zip(device.flashes, device.loaders, strict=True)]
        spi = stack.enter_context(stand_before_spi([device.spi for device in devices], options.spi))
        usb = await stack.enter_async_context(stand_before([device.usb for device in devices], options.usb))
        watched = stack.enter_context(watch_devices(devices, usb, spi, options.status))
        yield Ports(watched.usb, watched.spi, chips, watched)


@asynccontextmanager
async def _loaded(
    boards: Sequence[Board], models: Sequence[Path], memory: str, spares: Spares
) -> AsyncIterator[Sequence[Device]]:
    """Run the devices, with the models in their engines."""
    async with open_devices(boards, runner=spares.isolated) as devices:
        for engine, path in enumerate(models):
            model = await trio.Path(path).read_bytes()
            for device in devices:
                await device.load_model(model, engine=engine, command=MODEL_COMMANDS[memory])
        yield devices


def first_error(errors: BaseExceptionGroup[Exception]) -> str:
    """Say what the first error in a group of groups was."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
