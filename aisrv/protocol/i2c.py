"""I2C devices at the level of bytes: eight-bit registers at a seven-bit address.

The bus of the sensors' commands and the targets on pins both have such devices.
"""

from typing import Final, Protocol

LAST_ADDRESS: Final = 0x7F


class I2cNak(Exception):
    """An access without an acknowledge; the message says to what."""


class I2cDevice(Protocol):
    """A device on the bus. Both methods raise I2cNak for a register that the device does not acknowledge."""

    @property
    def address(self) -> int:
        """Seven-bit address."""

    def write(self, register: int, value: int) -> None: ...

    def read(self, register: int) -> int: ...
