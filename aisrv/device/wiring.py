"""The wiring of a board: its tasks on tiles, joined by channels, as the firmware's `main.xc` has them.

One core an engine; on the USB tile XUD, endpoint 0 and the data task; on the SPI tile the slave and its
buffer; one core a flash chip; two for a sensor. `aisrv.board.plan` counts the same beforehand.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from aisrv.board import Board, EngineSpec, FlashSpec, SensorSpec, SpiSpec, UsbProtocol
from aisrv.device.server_upgrade import ServerUpgrade
from aisrv.engine.aiengine import aiengine
from aisrv.engine.commands import IOSERVER_SET_HANDLERS, SET_HANDLERS, SetHandler
from aisrv.engine.debug_log import DebugLog
from aisrv.engine.state import AIEngine, FlashParameters, Watcher
from aisrv.inference.buffer_engine import create_engine
from aisrv.inference.engine import Runners
from aisrv.inference.timings import DeviceModel
from aisrv.protocol.commands import Spec
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from aisrv.sensors.acquire import start_acquisition
from aisrv.sensors.acquire_channel import AcquireChannel, AcquireEnds, connect
from aisrv.sensors.image.frame import Source
from aisrv.sensors.image.image_path import ImagePath
from aisrv.sensors.registers import SENSOR_MODELS
from aisrv.sensors.sources.opening import open_source
from aisrv.sensors.sources.spec import SourceSpec
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.node import Node
from flash_server.chip.chip import FlashChip
from flash_server.chip.partitions import divide
from flash_server.chip.storage import Storage
from flash_server.client.flash_channel import FlashChannel
from flash_server.server.server import flash_server
from flash_server.server.service import FlashService
from phy.spi.bus import SpiBus
from phy.spi.memory import SharedMemory
from phy.spi.slave import spi_slave
from phy.spi.spi_buffer import spi_buffer
from phy.usb.aisrv_data import UsbData
from phy.usb.bus import UsbBus
from phy.usb.data_task import DataTask
from phy.usb.ep0 import usb_ep0
from phy.usb.ioserver_data import UsbIoserver

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


class Wired(NamedTuple):
    """What the wiring made, as far as the outside needs it."""

    engines: Sequence[AIEngine]
    usb: UsbBus
    spi: SpiBus | None
    flashes: Sequence[FlashChip]
    local: Sequence[ChanEnd]
    """A client's end for an embedding program, for each engine."""
    windows: Sequence[FlashChannel]
    """A channel for windows on its flash image, for each engine of a board with flash."""
    loaders: Sequence[FlashChannel]
    """A channel that may write, for each flash chip."""


class Wiring:
    """Builds the tasks of a board and joins them by channels; `build` starts them."""

    def __init__(self, board: Board, node: Node, runner: Runners) -> None:
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
        self._acquirers: list[AcquireEnds] = []
        """The acquire task's ends of the channels to engines."""
        self._flash_windows: list[list[ChanEnd]] = [[] for _ in board.flashes]
        """The servers' ends of the channels to those who read a chip, engine by engine, and who write it."""

    def build(self, storages: Sequence[Storage], source: Source | None) -> Wired:
        """Build everything; the tasks of servers start when all their clients are joined to them."""
        board = self._board
        engines = [self._engine(number, spec) for number, spec in enumerate(board.engines)]
        if board.sensor is not None:
            self._sensor(board.sensor, source or open_sensor(board.sensor))
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
        return Wired(engines, usb, spi, chips, local, windows, loaders)

    def _engine(self, number: int, spec: EngineSpec) -> AIEngine:
        board = self._board
        self._node.tiles[spec.tile].memory.allocate(f"arena of engine {number}", spec.arena_bytes)
        log = DebugLog(logging.getLogger(f"aisrv.engine{number}"))
        flash = None
        if board.flashes:
            flash = FlashChannel(self._join_flash(spec.tile, spec.flash, self._flash_engines))
        inference = create_engine(
            spec.kind,
            self._runner,
            arena_bytes=spec.arena_bytes,
            external_bytes=spec.external_bytes,
            device=DeviceModel(clock_mhz=board.core_clock_mhz, threads=spec.threads),
            parameters=None if flash is None else FlashParameters(flash),
            log=log.write,
        )
        chain = None if spec.chain_to is None else self._connect(spec.tile, spec.chain_to)
        sensor = None
        if board.sensor is not None and number in board.acquiring:
            sensor = self._join_sensor(spec.tile, board.sensor.tile)
        return AIEngine(inference, log, hardware=self._hardware, chain=chain, flash=flash, sensor=sensor)

    def _usb(self) -> UsbBus:
        board = self._board
        usb = UsbBus(aisrv_descriptors(board.serial))
        engines = [self._connect(board.usb_tile, number) for number in range(len(board.engines))]
        data = DATA_TASKS[board.protocol](usb.out_endpoint, usb.in_endpoint, engines, "usb")
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

    def _sensor(self, spec: SensorSpec, source: Source) -> None:
        tile = self._node.tiles[spec.tile]
        registers = SENSOR_MODELS[spec.registers]()
        start_acquisition(self._node, tile, source, ImagePath(), registers, self._acquirers)

    def _join_sensor(self, tile: int, sensor_tile: int) -> AcquireChannel:
        """Make an engine on a tile a client of the acquire task."""
        channel, ends = connect(self._node, self._node.tiles[tile], self._node.tiles[sensor_tile])
        self._acquirers.append(ends)
        return channel

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


def open_sensor(spec: SensorSpec) -> Source:
    """Open the source of a board's sensor. Raises SourceError."""
    rate = None if spec.rate is None else f"{spec.rate:.12g}"
    text = SourceSpec.from_text(spec.source)
    size = f"{spec.width}x{spec.height}"
    return open_source(text.with_defaults(size=size, encoding=spec.encoding, rate=rate), spec.folder)
