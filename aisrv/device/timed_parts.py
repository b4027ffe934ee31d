"""The parts of a device in device time."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aisrv.device.part_factory import PartFactory
from aisrv.device.time_account import TimeAccount
from aisrv.inference.timed_engine import TimedInferenceEngine
from aisrv.inference.timings.laws import FAST_FLASH_BYTE, FLASH_SERVER_BYTE, FLASH_SERVER_LOAD
from aisrv.protocol.memories import FlashPath
from aisrv.values.addons import load
from aisrv.xcore.timed.device_costs import I2C_WRITE_TICKS, graph_pass_slots
from aisrv.xcore.timed.tick_waiter import TimedTickWaiter
from flash_server.client.cache import XCORE_AI_CACHE
from phy.spi.timed_bus import TimedSpiBus
from phy.usb.timed_bus import TimedUsbBus
from phy.usb.timed_data import TimedUsbData

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisrv.board import Board, EngineSpec, FlashSpec
    from aisrv.protocol.usb_descriptors import Descriptors
    from aisrv.sensors.image.frame import FrameSource
    from aisrv.xcore.timed.runtime import TimedRuntime
    from aisrv.xcore.timed.timeline import Timeline
    from flash_server.chip.storage import Storage
    from flash_server.chip.timed_chip import ReadClocks, TimedChip
    from phy.spi.timed_buffer import TimedSpiBuffer

T = TypeVar("T")


class TimedParts(PartFactory):
    """Parts that take the time of the modeled chip."""

    def __init__(self, board: Board, runtime: TimedRuntime) -> None:
        self._board: Final = board
        self._runtime: Final = runtime
        self._timeline: Final = runtime.timeline
        self._account: Final = TimeAccount(runtime.timeline)

    @property
    def account(self) -> TimeAccount:
        return self._account

    def usb(self, descriptors: Descriptors) -> TimedUsbBus:
        bus = TimedUsbBus(descriptors, self._runtime)
        self._account.wires = bus.wires
        return bus

    def usb_data(self) -> Callable[..., TimedUsbData]:
        return partial(TimedUsbData, self._account)

    def spi(self) -> TimedSpiBus:
        bus = TimedSpiBus(self._runtime)
        self._account.spi = bus.taken
        bus.busy_clocks = self._account.busy_clocks
        return bus

    def spi_buffer(self) -> Callable[..., TimedSpiBuffer]:
        from phy.spi.timed_buffer import TimedSpiBuffer

        return partial(TimedSpiBuffer, self._timeline, self._account)

    def make(self, plain: type[T], timed: str) -> T:  # noqa: ARG002 - of the other factory
        made: T = load(timed)(self._runtime)
        if isinstance(made, TimedUsbBus):
            self._account.wires = made.wires
        return made

    async def i2c_transfer(self) -> None:
        await self._timeline.wait_until(self._timeline.now() + self._timeline.clocks(I2C_WRITE_TICKS))

    def graph_pass(self, calls: int, nbytes: int) -> None:
        self._timeline.charge_slots(graph_pass_slots(calls, nbytes))

    def flash_chip(self, spec: FlashSpec, storage: Storage) -> TimedChip:
        from flash_server.chip.timed_chip import TimedChip

        clocks = read_clocks(self._board.flash_path, self._board.core_clock_mhz)
        chip = TimedChip(spec.part, storage, self._runtime, clocks, clock_hz=spec.clock_hz, width=spec.width)
        self._account.chips.append(chip)
        return chip

    def engine(self, spec: EngineSpec) -> Callable[..., TimedInferenceEngine]:
        def make(*arguments: Any, **settings: Any) -> TimedInferenceEngine:  # noqa: ANN401 - of the class
            clocks = read_clocks(self._board.flash_path, self._board.core_clock_mhz)
            line = Fraction(clocks(XCORE_AI_CACHE.line_bytes))
            timing = self._timeline, spec.tile, spec.threads, line
            engine = TimedInferenceEngine(*timing, *arguments, **settings)
            self._account.engines.append(engine)
            return engine

        return make

    def source(self, source: FrameSource) -> FrameSource:
        from aisrv.sensors.sources.pacing import PacedSource

        if isinstance(source, PacedSource):
            return source.by(partial(_DeviceFrameClock, self._timeline))
        return source


class _DeviceFrameClock:
    """Frames in device time."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._origin = timeline.tick_of(timeline.now())

    def ticks(self) -> int:
        return self._timeline.tick_of(self._timeline.now()) - self._origin

    async def wait_until(self, tick: int) -> None:
        await TimedTickWaiter(self._timeline).sleep(self._origin + tick)


def read_clocks(path: FlashPath | float | None, core_mhz: int) -> ReadClocks:
    """Return what a read takes in clocks of a core, by the way from flash; a number is MB/s."""
    if path is FlashPath.FAST:
        return lambda size: Fraction(FAST_FLASH_BYTE) * size * core_mhz / 1000
    if isinstance(path, int | float):
        return lambda size: size * core_mhz / Fraction(path)
    return lambda size: FLASH_SERVER_LOAD + FLASH_SERVER_BYTE * size
