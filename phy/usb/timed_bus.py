"""A device on its bus in device time: its endpoints and its control transfers take theirs.

Source: "Device time and traces", section 2.
"""

from typing import Final

from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT
from aisrv.protocol.usb_descriptors import Descriptors
from aisrv.xcore.timed.device_costs import usb_control_ticks
from aisrv.xcore.timed.parking import HostParking
from aisrv.xcore.timed.runtime import TimedRuntime
from phy.usb.bus import ControlUrb, UsbBus
from phy.usb.timed_xud import Crossing, TimedInEndpoint, TimedOutEndpoint, TimedWires
from phy.usb.urb import TransferStatus


class _TimedControl(ControlUrb):
    """A control transfer that ends when its stages have crossed."""

    __slots__ = ("_bus", "_request")

    def __init__(self, request: ControlUrb, bus: "TimedUsbBus") -> None:
        super().__init__(request.setup, request.data, request.finish)
        self._request = request
        self._bus = bus

    def finish(self, status: TransferStatus, data: bytes = b"") -> None:
        self._bus.end_control(self._request, status, data)


class TimedUsbBus(UsbBus):
    """`UsbBus` in device time."""

    def __init__(self, descriptors: Descriptors, runtime: TimedRuntime) -> None:
        self.wires: Final = TimedWires(runtime)
        """What crosses, and how long that took so far."""
        super().__init__(descriptors)
        self._ep0: HostParking[ControlUrb] = HostParking(runtime, runtime.timeline)
        self._crossing: Final = Crossing(self.wires, 0)
        self._free = 0
        """Clock at which the last control transfer ends."""

    def submit_control(self, urb: ControlUrb) -> None:
        urb.submitted = self.wires.timeline.arrival()
        super().submit_control(urb)

    async def get_setup(self) -> ControlUrb:
        """Wait for a control transfer, after the one before has ended."""
        await self._until_free()
        if self._control:
            return _TimedControl(self._control.popleft(), self)
        return _TimedControl(await self._ep0.park("get_setup", self, timed=True), self)

    async def _until_free(self) -> None:
        timeline = self.wires.timeline
        await timeline.settle()
        if timeline.now() < self._free:
            await timeline.wait_until(self._free)

    def end_control(self, request: ControlUrb, status: TransferStatus, data: bytes) -> None:
        """End a control transfer that began now with the time that its data take."""
        timeline = self.wires.timeline
        nbytes = max(len(request.data), min(len(data), request.setup.length))
        self._free = max(timeline.now(), request.submitted) + timeline.clocks(usb_control_ticks(nbytes))
        self._crossing.end_at(self._free, lambda ended: request.finish(ended, data), status)

    def reset(self) -> None:
        self._crossing.drop()
        super().reset()

    def _new_out_endpoint(self, address: int = ENDPOINT_OUT) -> TimedOutEndpoint:
        return TimedOutEndpoint(address, self.wires)

    def _new_in_endpoint(self, address: int = ENDPOINT_IN) -> TimedInEndpoint:
        return TimedInEndpoint(address, self.wires)
