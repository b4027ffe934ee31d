"""What the page puts between a device and its hosts: faults, and a trace that it gets at its end."""

from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Final

import trio

from aisrv.cli.options.added import Ports
from aisrv.device.device import Device
from aisrv.monitor.trace.detail import Detail
from aisrv.monitor.trace.recording import TraceRecording
from aisrv.monitor.trace.sinks import MemorySink
from phy.spi.bus import SpiPort, SpiTapPoint
from phy.usb.bus import HostPort
from phy.usb.taps.fault_plan import Fault, FaultPlan
from phy.usb.taps.faults import FaultyPort
from phy.usb.taps.tap_point import TapPoint

RING: Final = 16 << 20
"""Bytes of a trace that are kept, the last ones."""


class BenchError(ValueError):
    """What cannot be done with a bench; the text says why."""


class Bench:
    """A device's bench; hosts are to drive its `port` and `spi`, which pass everything straight on."""

    def __init__(
        self,
        name: str,
        device: Device,
        ports: tuple[HostPort, SpiPort | None],
        nursery: trio.Nursery,
        traced: set[str],
    ) -> None:
        """`ports` are those of USB and SPI behind it; `nursery` runs delays of faults.

        `traced` has the device that is traced, of all benches.
        """
        usb, spi = ports
        self._name = name
        self.device: Final = device
        self._nursery = nursery
        self._traced = traced
        self._plan: Final = FaultPlan(())
        self._faulty: Final = TapPoint(usb)
        self._has_faults = False
        self._tap: Final = TapPoint(self._faulty)
        self._spi: Final = None if spi is None else SpiTapPoint(spi)
        self._trace = ExitStack()
        self._sink = MemorySink(RING)

    @property
    def port(self) -> HostPort:
        """The device's USB port, in place of its own."""
        return self._tap

    @property
    def spi(self) -> SpiPort | None:
        """Its SPI port, in the same way; None where it has none."""
        return self._spi

    @property
    def faults(self) -> list[str]:
        """Faults that may still come."""
        return [str(fault) for fault in self._plan.faults]

    @property
    def traces(self) -> bool:
        """Return whether a trace of the device is running."""
        return self._name in self._traced

    def inject(self, text: str) -> None:
        """Add a fault, which counts transfers from now on. Raises FaultError.

        From the first one on every transfer is relayed, as by `--fault`.
        """
        self._plan.add(Fault.parse(text))
        if not self._has_faults:
            self._has_faults = True
            self._faulty.put(partial(FaultyPort, plan=self._plan, nursery=self._nursery, name=self._name))

    def take_faults_back(self) -> None:
        """Take back the faults that have not come."""
        self._plan.clear()

    def start_trace(self) -> None:
        """Trace cores, USB, SPI and LEDs. Raises BenchError while a device is traced, be it another one."""
        if self._traced:
            raise BenchError(f"a trace of {next(iter(self._traced))} is running")
        device, self._sink = self.device, MemorySink(RING)
        recording = self._trace.enter_context(TraceRecording(self._sink, Detail.RUNS))
        tracer = recording.tracer(self._name, device_time=device.board.device_time)
        self._trace.enter_context(device.node.tracing(tracer))
        recording.add_outputs(0, device)
        self._tap.put(partial(recording.traced_usb, 0, protocol=device.board.protocol))
        self._trace.callback(self._tap.take_out)
        if self._spi is not None:
            self._spi.put(partial(recording.traced_spi, 0, "spi"))
            self._trace.callback(self._spi.take_out)
        self._traced.add(self._name)

    def stop_trace(self) -> bytes:
        """End the trace and return it. Raises BenchError where there is none."""
        if not self.traces:
            raise BenchError(f"no trace of {self._name} is running")
        self.close()
        return b"".join(self._sink.take())

    def close(self) -> None:
        """End the trace, if there is one."""
        self._traced.discard(self._name)
        self._trace.close()


@asynccontextmanager
async def open_benches(
    devices: Mapping[str, Device], ports: Ports | None = None
) -> AsyncIterator[dict[str, Bench]]:
    """Have a bench for each device, by name, within the block; before `ports`, or those of the devices."""
    if ports is None:
        ports = Ports([each.usb for each in devices.values()], [each.spi for each in devices.values()])
    traced: set[str] = set()
    async with trio.open_nursery() as nursery:
        pairs = zip(devices.items(), zip(ports.usb, ports.spi, strict=True), strict=True)
        benches = {name: Bench(name, device, pair, nursery, traced) for (name, device), pair in pairs}
        try:
            yield benches
        finally:
            for bench in benches.values():
                bench.close()
            nursery.cancel_scope.cancel()
