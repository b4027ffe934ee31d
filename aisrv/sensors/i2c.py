"""The I2C bus of the sensors: register writes by address, acknowledged or not.

Addresses have seven bits, registers and values eight ("XCORE AI server: numbers and wire behavior",
START_ACQUIRE_SET_I2C). Every access is logged by `aisrv.sensors.i2c`.
"""

import logging
from collections.abc import Sequence

from aisrv.protocol.i2c import LAST_ADDRESS, I2cDevice, I2cNak

logger = logging.getLogger(__name__)


class I2cBus:
    """A bus with its devices; ValueError if two have one address, or one has more than seven bits."""

    def __init__(self, devices: Sequence[I2cDevice] = ()) -> None:
        self._devices = {device.address: device for device in devices}
        if len(self._devices) < len(devices):
            raise ValueError("two devices on an I2C bus have one address")
        for address in self._devices:
            if not 0 <= address <= LAST_ADDRESS:
                raise ValueError(f"I2C address 0x{address:02x} has more than seven bits")

    def write(self, address: int, register: int, value: int) -> None:
        """Write a register; raises I2cNak if no device has the address, or it refuses the register."""
        try:
            self._device(address).write(register, value)
        except I2cNak as nak:
            logger.info("write 0x%02x register 0x%02x = 0x%02x: NAK, %s", address, register, value, nak)
            raise
        logger.info("write 0x%02x register 0x%02x = 0x%02x", address, register, value)

    def read(self, address: int, register: int) -> int:
        value = self._device(address).read(register)
        logger.info("read 0x%02x register 0x%02x: 0x%02x", address, register, value)
        return value

    def _device(self, address: int) -> I2cDevice:
        device = self._devices.get(address)
        if device is None:
            known = ", ".join(f"0x{known:02x}" for known in sorted(self._devices)) or "none"
            raise I2cNak(f"no device at address 0x{address:02x} (there are: {known})")
        return device
