"""The tasks of a device: for each kind in the board's plan, how one is created from parts and ends.

The modules of a task are imported when a board has one.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from aisrv.board import Board, EngineSpec, Task, TaskKind, UsbProtocol
from aisrv.device.ends import Ends
from aisrv.device.parts import DeviceParts, Run
from aisrv.engine.aiengine import aiengine
from aisrv.engine.commands import GET_HANDLERS, IOSERVER_SET_HANDLERS, SET_HANDLERS
from aisrv.engine.handlers import SetHandler
from aisrv.engine.state import AIEngine, FlashParameters
from aisrv.inference.buffer_engine import create_engine
from aisrv.inference.interpreter import runs_in_place
from aisrv.inference.timings import DeviceModel
from aisrv.protocol.engine_channel import Watcher
from aisrv.protocol.memories import FlashPath
from phy.usb.ep0 import usb_ep0

if TYPE_CHECKING:
    from phy.usb.data_task import DataTask

ENGINE_SETS: Final[dict[UsbProtocol, Mapping[int, SetHandler]]] = {
    UsbProtocol.AISRV: SET_HANDLERS,
    UsbProtocol.IOSERVER: IOSERVER_SET_HANDLERS,
}
"""The SET commands that engines know, by what the device speaks."""

Create = Callable[[DeviceParts, Task, Ends], Run]
"""Creates a task; it may assume that the parts and ends are there which its entry in the plan has."""


def _usb_ep0(parts: DeviceParts, _task: Task, _ends: Ends) -> Run:
    return partial(usb_ep0, parts.usb)


def _usb_data(parts: DeviceParts, _task: Task, ends: Ends) -> Run:
    task: Callable[..., DataTask] = parts.factory.usb_data()
    if parts.board.protocol is UsbProtocol.IOSERVER:
        from phy.usb.ioserver_data import UsbIoserver

        task = UsbIoserver
    return task(parts.usb.out_endpoint, parts.usb.in_endpoint, ends.all("engines"), "usb", parts.ignored).run


def _spi_slave(parts: DeviceParts, _task: Task, ends: Ends) -> Run:
    from phy.spi.slave import spi_slave

    assert parts.spi is not None  # noqa: S101 - for the type checker
    return partial(spi_slave, parts.spi, parts.spi_memory, ends.one("buffer"))


def _spi_buffer(parts: DeviceParts, _task: Task, ends: Ends) -> Run:
    assert parts.board.spi is not None  # noqa: S101 - for the type checker
    log = parts.logs[parts.board.spi.engine].write
    flash = ends.one_or_none("flash")
    upgrade = None
    if flash is not None:
        from aisrv.device.server_upgrade import ServerUpgrade
        from flash_server.client.flash_channel import FlashChannel

        upgrade = ServerUpgrade(FlashChannel(flash), log)
    slave, engine, changes = ends.one("slave"), ends.one("engine"), ends.one("changes")
    return parts.factory.spi_buffer()(parts.spi_memory, slave, engine, changes, upgrade).run


def _flash_server(parts: DeviceParts, task: Task, ends: Ends) -> Run:
    from flash_server.server.server import flash_server

    clients = ends.all("engines"), ends.all("loaders"), ends.all("windows")
    return partial(flash_server, parts.flash_services[task.number], *clients)


def _part(parts: DeviceParts, task: Task, ends: Ends) -> Run:
    return parts.running[task.part].create(parts, task, ends)


def _sensor(parts: DeviceParts, _task: Task, ends: Ends) -> Run:
    from aisrv.sensors.acquire import sensor

    assert parts.source is not None  # noqa: S101 - for the type checker
    assert parts.exposure is not None  # noqa: S101 - for the type checker
    return partial(sensor, parts.source, parts.exposure, ends.one("acquire"))


def _acquire(parts: DeviceParts, _task: Task, ends: Ends) -> Run:
    from aisrv.sensors.acquire import acquire
    from aisrv.sensors.acquire_channel import AcquireEnds
    from aisrv.sensors.image.image_path import ImagePath

    assert parts.exposure is not None  # noqa: S101 - for the type checker
    clients = list(map(AcquireEnds, ends.all("clients"), ends.all("frames")))
    transfer = parts.factory.i2c_transfer
    sensor = ends.one("sensor")
    return partial(acquire, parts.exposure, ImagePath(), parts.registers, clients, sensor, transfer)


def _aiengine(parts: DeviceParts, task: Task, ends: Ends) -> Run:
    board, number = parts.board, task.number
    spec = board.engines[number]
    log = parts.logs[number]
    parts.node.tiles[task.tile].memory.allocate(f"arena of engine {number}", spec.internal_arena_bytes)
    flash_end, sensor_end = ends.one_or_none("flash"), ends.one_or_none("sensor")
    flash = window = sensor = None
    if flash_end is not None:
        from flash_server.client.flash_channel import FlashChannel

        flash = FlashChannel(flash_end)
        if runs_in_place(spec.kind):
            of_chip = [n for n, each in enumerate(board.engines) if each.flash == spec.flash]
            window = partial(parts.flash_services[spec.flash].open_segment, of_chip.index(number))
    if sensor_end is not None:
        from aisrv.sensors.acquire_channel import AcquireChannel

        sensor = AcquireChannel(sensor_end, ends.one("frames"))
    inference = create_engine(
        spec.kind,
        parts.runner,
        arena_bytes=spec.arena_bytes,
        external_bytes=spec.external_bytes,
        device=device_model(board, spec),
        parameters=None if flash is None else FlashParameters(flash),
        fallback=spec.fallback,
        log=log.write,
        make=parts.factory.engine(spec),
    )
    engine = AIEngine(
        inference,
        log,
        hardware=parts.hardware,
        chain=ends.one_or_none("chain"),
        flash=flash,
        sensor=sensor,
        starts_stream=board.sensor is not None and board.sensor.stream,
        window=window,
    )
    engine.watchers.extend(map(Watcher, ends.all("watchers")))
    parts.engines.append(engine)
    gets, sets = GET_HANDLERS, ENGINE_SETS[board.protocol]
    if parts.user_commands:
        own = parts.user_commands[number]
        gets, sets = {**gets, **own.gets}, {**sets, **own.sets}
    return partial(aiengine, engine, ends.all("clients"), sets, gets)


def device_model(board: Board, spec: EngineSpec) -> DeviceModel:
    """Return what decides on the times of an engine of a board."""
    return DeviceModel(
        clock_mhz=board.core_clock_mhz,
        reference_mhz=board.reference_mhz,
        threads=spec.threads,
        flash=_flash_path(board),
        arena=spec.arena_memory,
        external_clock_mhz=spec.external_clock_mhz,
    )


def _flash_path(board: Board) -> FlashPath | float | None:
    path = board.flash_path
    return path * 1e6 if isinstance(path, int | float) else path


def _user(parts: DeviceParts, task: Task, ends: Ends) -> Run:
    tile = parts.node.tiles[task.tile]
    return partial(parts.user_tasks[task.number].run, ends.by_name(), parts.node, tile)


TASKS: Final[Mapping[TaskKind, Create | None]] = {
    TaskKind.XUD: None,
    TaskKind.USB_EP0: _usb_ep0,
    TaskKind.USB_DATA: _usb_data,
    TaskKind.SPI_SLAVE: _spi_slave,
    TaskKind.SPI_BUFFER: _spi_buffer,
    TaskKind.PART: _part,
    TaskKind.FLASH_SERVER: _flash_server,
    TaskKind.SENSOR: _sensor,
    TaskKind.ACQUIRE: _acquire,
    TaskKind.AIENGINE: _aiengine,
    TaskKind.USER: _user,
}
"""How each kind of task is created; None is hardware support that takes a core and needs no task here."""
