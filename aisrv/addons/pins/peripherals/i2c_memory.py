"""An I2C device of 256 registers that keep what is written, as a small EEPROM does."""

from typing import Final

from aisrv.protocol.i2c import I2cDevice


class I2cMemory(I2cDevice):
    """The device; its registers are 0 at first."""

    def __init__(self, address: int = 0x10) -> None:
        self._address: Final = address
        self.registers: Final = bytearray(256)
        """The value of each register."""

    @property
    def address(self) -> int:
        """Seven-bit address."""
        return self._address

    def write(self, register: int, value: int) -> None:
        """Write a register."""
        self.registers[register] = value

    def read(self, register: int) -> int:
        """Read a register."""
        return self.registers[register]
