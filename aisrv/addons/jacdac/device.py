"""The Jacdac device of a running board: its bus, and its task."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Self

from aisrv.addons.jacdac.board import Jacdac
from aisrv.addons.jacdac.bus.bus import JacdacBus
from aisrv.addons.jacdac.task.control import Identity
from aisrv.addons.jacdac.task.device import device_id_of
from aisrv.addons.jacdac.task.engine_client import EngineClient
from aisrv.addons.jacdac.task.flash_store import ChipStore, EngineStore, SettingsStore
from aisrv.addons.jacdac.task.jacdac import JacdacSettings, jacdac
from aisrv.board import Task
from aisrv.device.device import Device
from aisrv.device.ends import Ends
from aisrv.device.parts import DeviceParts, Run, RunningPart
from aisrv.values.version import __version__
from flash_server.client.flash_channel import FlashChannel


class JacdacOnDevice(RunningPart):
    """A Jacdac device that runs."""

    bus: JacdacBus
    """The bus, for peers to join."""

    def __init__(self, spec: Jacdac) -> None:
        self._spec = spec

    @classmethod
    @contextmanager
    def open(cls, spec: Jacdac) -> Iterator[Self]:
        yield cls(spec)

    def create(self, parts: DeviceParts, _task: Task, ends: Ends) -> Run:
        """Make the bus, and what runs the task: it has a Model Runner for each engine."""
        self.bus = parts.factory.make(JacdacBus, "aisrv.addons.jacdac.bus.timed_bus:TimedJacdacBus")
        board, spec = parts.board, self._spec
        tiles = [engine.tile for engine in board.engines]
        chips: list[ChipStore] = []
        engines_of: list[list[int]] = []  # of each chip
        for number, (flash, end) in enumerate(zip(board.flashes, ends.all("flashes"), strict=True)):
            engines_of.append([n for n, engine in enumerate(board.engines) if engine.flash == number])
            data_bytes = flash.part.size - flash.boot_bytes
            sector = flash.part.sector_size
            chips.append(ChipStore(FlashChannel(end), data_bytes, len(engines_of[-1]), sector))
        clients = []
        pairs = zip(ends.all("engines"), ends.all("changes"), strict=True)
        for number, (commands, changes) in enumerate(pairs):
            store = None
            if chips:
                chip = board.engines[number].flash
                store = EngineStore(chips[chip], engines_of[chip].index(number))
            clients.append(EngineClient(commands, changes, store, reference_mhz=board.reference_mhz))
        settings = JacdacSettings(
            device_id=spec.device_id or device_id_of(board.serial or "aisrv"),
            identity=Identity(firmware_version=__version__),
            parallel=[tiles.count(tile) == 1 for tile in tiles],
            protocol_test=spec.protocol_test,
            resets_after_load=spec.resets_after_load,
        )
        store_of_settings = SettingsStore(chips[0]) if chips else None
        return partial(jacdac, self.bus.join_device(), settings, clients, store_of_settings)


def bus_of(device: Device) -> JacdacBus:
    """Return the bus of a device, for peers to join; its board must have one."""
    part = device.part(JacdacOnDevice)
    assert part is not None, "the board has no Jacdac device"  # noqa: S101
    return part.bus
