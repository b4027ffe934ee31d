"""The composition root: builds a device from a board, as the firmware's `main.xc` does.

Tasks on tiles, joined by channels: one core an engine; on the USB tile XUD, endpoint 0 and the data task; on
the SPI tile the slave and its buffer; and one core a flash chip.
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from typing import Final

import trio

from aisrv.aiengine import aiengine
from aisrv.board import Board, EngineSpec, FlashSpec, SpiSpec, UsbProtocol
from aisrv.debug_log import DebugLog
from aisrv.engine_channel import set_command
from aisrv.engine_commands import IOSERVER_SET_HANDLERS, SET_HANDLERS, SetHandler
from aisrv.engine_state import AIEngine, Watcher
from aisrv.inference.engine import InferenceEngine, RunnerFactory
from aisrv.inference.isolation import isolated
from aisrv.inference.timings import DeviceModel
from aisrv.protocol import Command, Spec, Status
from aisrv.server_upgrade import ServerUpgrade
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.node import Node, open_node
from flash_server.cache import WindowError
from flash_server.chip import FlashChip
from flash_server.flash_channel import FlashChannel
from flash_server.layout.headers import Part
from flash_server.partitions import divide
from flash_server.requests import FlashService
from flash_server.server import flash_server
from flash_server.storage import FileStorage, MemoryStorage, Storage
from flash_server.xip import XipWindow, open_window
from phy.spi.bus import SpiBus
from phy.spi.memory import SharedMemory
from phy.spi.slave import spi_slave
from phy.spi.spi_buffer import spi_buffer
from phy.usb.bus import UsbBus
from phy.usb.data import UsbData
from phy.usb.data_task import DataTask
from phy.usb.descriptors import aisrv_descriptors
from phy.usb.ep0 import usb_ep0
from phy.usb.ioserver import UsbIoserver

DATA_TASKS: Final[dict[UsbProtocol, type[DataTask]]] = {
    UsbProtocol.AISRV: UsbData,
    UsbProtocol.IOSERVER: UsbIoserver,
}
"""The task at the bulk endpoints, by what the device speaks."""

ENGINE_SETS: Final[dict[UsbProtocol, Mapping[int, SetHandler]]] = {
    UsbProtocol.AISRV: SET_HANDLERS,
    UsbProtocol.IOSERVER: IOSERVER_SET_HANDLERS,
}
"""The SET commands that engines know, by what the device speaks."""


class ModelRefused(Exception):
    """A model that the device's own program set, and an engine refused; the text is its debug log."""


class Device:
    """A running device: its node and engines, its buses, and a channel of its own to each engine."""

    def __init__(
        self,
        board: Board,
        node: Node,
        engines: Sequence[AIEngine],
        usb: UsbBus,
        spi: SpiBus | None,
        flashes: Sequence[FlashChip],
        local: Sequence[ChanEnd],
        windows: Sequence[FlashChannel],
        loaders: Sequence[FlashChannel],
    ) -> None:
        self.board: Final = board
        self.node: Final = node
        self.engines: Final = tuple(engines)
        self.usb: Final = usb
        self.spi: Final = spi
        """The master's side of the SPI port; None where the board has none."""
        self.flashes: Final = tuple(flashes)
        """The flash chips, as a programmer on their pins sees them."""
        self.local: Final = tuple(local)
        """Channel ends for an embedding program, a client of each engine by number."""
        self._windows = tuple(windows)
        self.loaders: Final = tuple(loaders)
        """For each flash chip a channel to its server that may write, for an embedding program."""

    async def open_window(self, engine: int = 0, part: Part = Part.XIP) -> XipWindow:
        """Open a window on the XIP or the operators segment of an engine's flash image.

        One task at a time may use the windows of an engine. Raises WindowError where the board has no flash
        or the segment is absent, FlashReadError where there is no valid image.
        """
        if not self._windows:
            raise WindowError("the board has no flash: there is nothing to open a window on")
        return await open_window(self._windows[engine], part, self.board.engines[engine].cache)

    async def boot(self) -> None:
        """Load the models that engines have in flash; why one cannot be loaded is in the debug log."""
        for number, engine in enumerate(self.board.engines):
            if engine.boot is not None:
                await set_command(self.local[number], engine.boot)

    async def load_model(
        self, model: bytes, *, engine: int = 0, command: Command = Command.SET_MODEL_ARENA
    ) -> None:
        """Set the model of an engine over its local channel; raises ModelRefused with the reason."""
        status = await set_command(self.local[engine], command, 0, model)
        if status is not Status.OKAY:
            text = bytes(self.engines[engine].log).rstrip(b"\0").decode(errors="replace")
            raise ModelRefused(f"engine {engine} answered {status!r}: {text.strip()}")


@asynccontextmanager
async def open_device(
    board: Board | None = None, *, runner: RunnerFactory = isolated
) -> AsyncIterator[Device]:
    """Run a device for as long as the block lasts. Raises StorageError where a chip's file cannot be had.

    `runner` says where models execute, by default each in a process of its own. A device on virtual time
    needs `aisrv.inference.inline.inline`: a clock that jumps does not wait for a process.
    """
    board = board or Board()
    engines: list[AIEngine] = []
    try:
        with ExitStack() as files:
            storages = [files.enter_context(closing(_storage(flash))) for flash in board.flashes]
            async with open_node(tiles=board.tiles, core_clock_mhz=board.core_clock_mhz) as node:
                device = _Builder(board, node, runner).build(storages)
                engines.extend(device.engines)
                await device.boot()
                yield device
                node.stop()
    finally:
        with trio.CancelScope(shield=True):
            for engine in engines:
                await engine.inference.unload_model()


@asynccontextmanager
async def open_devices(
    boards: Sequence[Board], *, runner: RunnerFactory = isolated
) -> AsyncIterator[tuple[Device, ...]]:
    """Run a device for each board, side by side, for as long as the block lasts."""

    async def run(board: Board, *, task_status: trio.TaskStatus[Device]) -> None:
        async with open_device(board, runner=runner) as device:
            task_status.started(device)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        yield tuple([await nursery.start(run, board) for board in boards])
        nursery.cancel_scope.cancel()


def _storage(flash: FlashSpec) -> Storage:
    if flash.path is None:
        return MemoryStorage(flash.part.size)
    return FileStorage(flash.path, flash.part.size)


class _Builder:
    """Builds the tasks of a board and joins them by channels; `build` starts them."""

    def __init__(self, board: Board, node: Node, runner: RunnerFactory) -> None:
        self._board = board
        self._node = node
        self._runner = runner
        self._hardware = Spec(
            tiles=board.tiles,
            internal_kib=board.internal_kib,
            flash_kib=board.flash_kib,
            external_kib=board.external_kib,
        )
        self._clients: list[list[ChanEnd]] = [[] for _ in board.engines]
        """The engines' ends of the channels to their clients."""
        self._flash_engines: list[list[ChanEnd]] = [[] for _ in board.flashes]
        self._flash_loaders: list[list[ChanEnd]] = [[] for _ in board.flashes]
        self._flash_windows: list[list[ChanEnd]] = [[] for _ in board.flashes]
        """The servers' ends of the channels to those who read a chip, engine by engine, and who write it."""

    def build(self, storages: Sequence[Storage]) -> Device:
        """Build everything; the tasks of servers start when all their clients are joined to them."""
        board = self._board
        engines = [self._engine(number, spec) for number, spec in enumerate(board.engines)]
        usb = self._usb()
        spi = None if board.spi is None else self._spi(board.spi, engines[board.spi.engine])
        local = [self._connect(spec.tile, number) for number, spec in enumerate(board.engines)]
        windows = [
            FlashChannel(self._join_flash(spec.tile, spec.flash, self._flash_windows))
            for spec in (board.engines if board.flashes else ())
        ]
        loaders = [
            FlashChannel(self._join_flash(spec.tile, number, self._flash_loaders))
            for number, spec in enumerate(board.flashes)
        ]
        chips = [
            self._flash(number, spec, storage, engines)
            for number, (spec, storage) in enumerate(zip(board.flashes, storages, strict=True))
        ]
        for number, (engine, spec) in enumerate(zip(engines, board.engines, strict=True)):
            sets = ENGINE_SETS[board.protocol]
            self._node.tiles[spec.tile].start(
                aiengine, self._node, engine, self._clients[number], sets, name=f"aiengine {number}"
            )
        return Device(board, self._node, engines, usb, spi, chips, local, windows, loaders)

    def _engine(self, number: int, spec: EngineSpec) -> AIEngine:
        board = self._board
        self._node.tiles[spec.tile].memory.allocate(f"arena of engine {number}", spec.arena_bytes)
        log = DebugLog(logging.getLogger(f"aisrv.engine{number}"))
        inference = InferenceEngine(
            self._runner,
            arena_bytes=spec.arena_bytes,
            external_bytes=spec.external_bytes,
            device=DeviceModel(clock_mhz=board.core_clock_mhz, threads=spec.threads),
            log=log.write,
        )
        chain = None if spec.chain_to is None else self._connect(spec.tile, spec.chain_to)
        flash = None
        if board.flashes:
            flash = FlashChannel(self._join_flash(spec.tile, spec.flash, self._flash_engines))
        return AIEngine(inference, log, hardware=self._hardware, chain=chain, flash=flash)

    def _usb(self) -> UsbBus:
        board = self._board
        usb = UsbBus(aisrv_descriptors(board.serial))
        engines = [self._connect(board.usb_tile, number) for number in range(len(board.engines))]
        data = DATA_TASKS[board.protocol](usb.out, usb.into, engines, "usb")
        tile = self._node.tiles[board.usb_tile]
        tile.reserve_core("XUD")
        tile.start(usb_ep0, usb)
        tile.start(data.run, name="usb_data")
        return usb

    def _spi(self, spec: SpiSpec, engine: AIEngine) -> SpiBus:
        tile = self._node.tiles[spec.tile]
        slave = self._node.channel(tile, tile)
        changes = self._node.channel(tile, self._node.tiles[self._board.engines[spec.engine].tile])
        engine.watchers.append(Watcher(changes.b))
        upgrade = None
        if self._board.flashes:
            loader = FlashChannel(self._join_flash(spec.tile, 0, self._flash_loaders))
            upgrade = ServerUpgrade(loader, engine.log.write)
        memory = SharedMemory()
        bus = SpiBus()
        client = self._connect(spec.tile, spec.engine)
        tile.start(spi_slave, bus, memory, slave.a)
        tile.start(spi_buffer, self._node, memory, slave.b, client, changes.a, upgrade)
        return bus

    def _flash(
        self, number: int, spec: FlashSpec, storage: Storage, engines: Sequence[AIEngine]
    ) -> FlashChip:
        chip = FlashChip(spec.part, storage)
        logs = [
            engine.log.write
            for engine, engine_spec in zip(engines, self._board.engines, strict=True)
            if engine_spec.flash == number
        ]

        def log(line: str) -> None:
            for write in logs:
                write(line)

        service = FlashService(divide(chip, spec.boot_bytes), log)
        self._node.tiles[spec.tile].start(
            flash_server,
            self._node,
            service,
            self._flash_engines[number],
            self._flash_loaders[number],
            self._flash_windows[number],
            name=f"flash_server {number}",
        )
        return chip

    def _connect(self, tile: int, engine: int) -> ChanEnd:
        """Make a task on a tile a client of an engine."""
        channel = self._node.channel(
            self._node.tiles[tile], self._node.tiles[self._board.engines[engine].tile]
        )
        self._clients[engine].append(channel.b)
        return channel.a

    def _join_flash(self, tile: int, chip: int, served: list[list[ChanEnd]]) -> ChanEnd:
        """Make a task on a tile a client of a flash server."""
        channel = self._node.channel(self._node.tiles[tile], self._node.tiles[self._board.flashes[chip].tile])
        served[chip].append(channel.b)
        return channel.a
