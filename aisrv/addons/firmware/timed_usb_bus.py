"""A bus whose device side is the user's firmware, in device time."""

from aisrv.addons.firmware.usb_bus import FirmwareBus
from aisrv.xcore.timed.runtime import TimedRuntime
from phy.usb.timed_bus import TimedUsbBus
from phy.usb.xud import UsbReset


class TimedFirmwareBus(FirmwareBus, TimedUsbBus):
    """`FirmwareBus` on the wires of `TimedUsbBus`."""

    def __init__(self, runtime: TimedRuntime) -> None:
        self._resets = 0
        super().__init__(runtime)
        self.control.crossed = super()._until_free

    def reset(self) -> None:
        self._resets += 1
        super().reset()

    async def _until_free(self) -> None:
        """Wait for the end of the control transfer before. Raises UsbReset where one came meanwhile."""
        resets = self._resets
        await super()._until_free()
        if resets != self._resets:
            raise UsbReset("endpoint 0 was reset")
