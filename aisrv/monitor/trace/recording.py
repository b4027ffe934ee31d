"""A trace of devices while they run: one file, a process for each device, and a clock for all."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final, Self

import trio

from aisrv.board import TaskKind, UsbProtocol, plan_of
from aisrv.device.device import Device
from aisrv.monitor.command_stream import FRAMINGS
from aisrv.monitor.trace.detail import Detail
from aisrv.monitor.trace.device_tracer import DeviceTracer
from aisrv.monitor.trace.requests import HOST_OF
from aisrv.monitor.trace.sinks import Sink
from aisrv.monitor.trace.transfers import TracedSpiPort, TracedUsbPort
from aisrv.monitor.trace.writer import TraceWriter
from aisrv.sensors.sources.pacing import PacedSource
from aisrv.values.activity import Activity, ActivityObserver
from phy.spi.bus import SpiPort
from phy.usb.bus import HostPort

SECOND: Final = 10**9
"""Nanoseconds."""
TICK_NS: Final = 10
_FIRST_HOST: Final = 10_000
"""Process id of the host of the first device; those of devices are lower."""


class TraceClock:
    """Trio's clock, live or virtual, since the trace began, in units of `unit_ns` nanoseconds."""

    def __init__(self, unit_ns: int = 1) -> None:
        self.unit_ns: Final = unit_ns
        self._start = trio.current_time()

    def now(self) -> int:
        """Return the units so far."""
        return round((trio.current_time() - self._start) * (SECOND // self.unit_ns))


class LiveTime:
    """An `EventClock` for devices whose cores take no time: an event is when it comes."""

    def __init__(self, clock: TraceClock) -> None:
        self._clock = clock

    def begin(self, tick: int) -> None:
        """Need nothing: every event asks for itself."""

    def at(self, tick: int) -> int:  # noqa: ARG002 - cores have no time of their own
        """Return the time now."""
        return self._clock.now()


class ChipTime:
    """An `EventClock` for devices in device time: an event is at its core's tick, of 10 ns."""

    def __init__(self, clock: TraceClock) -> None:
        self._clock = clock
        self._tick = TICK_NS // clock.unit_ns
        self._origin = 0

    def begin(self, tick: int) -> None:
        """Note when tick 0 of the node was."""
        self._origin = self._clock.now() - self._tick * tick

    def at(self, tick: int) -> int:
        """Return when that tick is; the core may be ahead of the time now."""
        return max(0, self._origin + self._tick * tick)


class _ActivityTrack:
    """Writes what a part does as slices of one track."""

    def __init__(self, writer: TraceWriter, clock: TraceClock, track: int, category: str) -> None:
        self._writer = writer
        self._clock = clock
        self._track = track
        self._category = category

    def began(self, name: str, size: int) -> None:
        self._writer.begin(self._track, self._clock.now(), name, self._category, {"bytes": size})

    def ended(self) -> None:
        self._writer.end(self._track, self._clock.now())


class _CacheCounters:
    """Counts hits and misses of the windows on a device's flash, as operations of its chips begin."""

    def __init__(self, writer: TraceWriter, clock: TraceClock, process: int, device: Device) -> None:
        self._writer = writer
        self._clock = clock
        self._process = process
        self._device = device
        self._tracks: tuple[int, ...] = ()
        self._last: tuple[int, ...] = (0, 0)

    def began(self, name: str, size: int) -> None:  # noqa: ARG002 - any operation
        self.write()

    def ended(self) -> None:
        """Need nothing: a miss counts only when its line has come."""

    def write(self) -> None:
        """Write what has changed."""
        counters = self._device.caches.values()
        if not counters:
            return
        if not self._tracks:
            names = ("cache hits", "cache misses")
            self._tracks = tuple(self._writer.counter(self._process, name, "accesses") for name in names)
        now = self._clock.now()
        values = sum(each.hits for each in counters), sum(each.misses for each in counters)
        for track, value, last in zip(self._tracks, values, self._last, strict=True):
            if value != last:
                self._writer.count(track, now, value)
        self._last = values


class TraceRecording:
    """A context manager, in a Trio task: it has a tracer for each device, and ends the trace."""

    def __init__(self, sink: Sink, detail: Detail, *, unit_ns: int = 1) -> None:
        """Take where packets go, how much is recorded, and the unit of time: 1 ns, or a tick of 10 ns."""
        self._sink = sink
        self._detail = detail
        self._writer = TraceWriter(sink, unit_ns=unit_ns)
        self._clock = TraceClock(unit_ns)
        self._tracers: list[DeviceTracer] = []
        self._names: list[str] = []
        self._hosts: dict[int, int] = {}
        self._ends = ExitStack()

    def tracer(self, name: str, *, device_time: bool = False) -> DeviceTracer:
        """Return the tracer of one more device by its `name`, and whether it takes the chip's time."""
        number = len(self._tracers) + 1
        clock = ChipTime(self._clock) if device_time else LiveTime(self._clock)
        process = self._writer.process(number, name)
        tracer = DeviceTracer(self._writer, clock, process, number, self._detail)
        self._tracers.append(tracer)
        self._names.append(name)
        return tracer

    def add_outputs(self, number: int, device: Device) -> None:
        """Record the LEDs of a device from now on, and in device time the operators of its models.

        `number` is that of its tracer.
        """
        tracer = self._tracers[number]
        process = tracer.process
        if device.board.device_time:
            for task in plan_of(device.board).tasks:
                if task.kind is TaskKind.AIENGINE:
                    inference = device.engines[task.number].inference
                    tracer.operators[task.name] = partial(getattr, inference, "operator_times")
        for engine, each in enumerate(device.engines):
            leds = [
                self._writer.counter(process, f"engine {engine} led {led}", "level")
                for led in range(len(each.gpio.levels))
            ]
            observer = partial(self._levels, leds)
            observer(each.gpio.levels)
            each.gpio.observe(observer)
            self._ends.callback(each.gpio.ignore, observer)

        caches = _CacheCounters(self._writer, self._clock, process, device)
        self._ends.callback(caches.write)
        for number_of_chip, chip in enumerate(device.flashes):
            self._follow(tracer, f"flash {number_of_chip}", "flash", chip.activity)
            self._observe(chip.activity, caches)
        if device.exposure is not None:
            self._follow(tracer, "exposures", "sensor", device.exposure.activity)
        if isinstance(source := device.source, PacedSource):
            tracer.sample(TaskKind.SENSOR.value, "frames dropped", "frames", lambda: source.dropped)

    def _follow(self, tracer: DeviceTracer, name: str, category: str, activity: Activity) -> None:
        """Record what a part does on a track of its own."""
        observer = _ActivityTrack(
            self._writer, self._clock, self._writer.track(tracer.process, name), category
        )
        self._observe(activity, observer)

    def _observe(self, activity: Activity, observer: ActivityObserver) -> None:
        activity.observe(observer)
        self._ends.callback(activity.ignore, observer)

    def traced_usb(self, number: int, port: HostPort, protocol: UsbProtocol) -> HostPort:
        """Return the USB port of a device, by the number of its tracer, as hosts are to drive it."""
        tracer, framing = self._tracers[number], FRAMINGS[protocol]
        host = self._host(number)
        return TracedUsbPort(port, self._writer, self._clock.now, host, tracer.requests, framing)

    def traced_spi(self, number: int, name: str, port: SpiPort) -> SpiPort:
        """Return an SPI port of a device, which is called `name`, as masters are to drive it.

        `number` is that of the device's tracer.
        """
        tracer = self._tracers[number]
        host = self._host(number)
        return TracedSpiPort(port, name, self._writer, self._clock.now, host, tracer.requests)

    def _host(self, number: int) -> int:
        """Return the track of the process of a device's host."""
        if number not in self._hosts:
            name = HOST_OF + self._names[number]
            self._hosts[number] = self._writer.process(_FIRST_HOST + number, name)
        return self._hosts[number]

    async def keep_flushed(self) -> None:
        """Have what was recorded written out soon, until cancelled."""
        await self._sink.keep_flushed()

    def _levels(self, tracks: Sequence[int], levels: Sequence[bool]) -> None:
        now = self._clock.now()
        for track, level in zip(tracks, levels, strict=True):
            self._writer.count(track, now, int(level))

    def __enter__(self) -> Self:
        self._sink.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()
        self._writer.finish()
        self._sink.close()
