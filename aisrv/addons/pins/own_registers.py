"""Registers of an I2C target of the user's own: a class of a module, beside the board's file or installed."""

import logging
from typing import Any, Final

from aisrv.addons.pins.board import Pins
from aisrv.board import BoardError
from aisrv.device.user_module import UserModuleError, import_user_module
from aisrv.protocol.i2c import LAST_ADDRESS, I2cDevice, I2cNak

logger = logging.getLogger(__name__)


class OwnRegisters(I2cDevice):
    """An object of the user's class; what goes wrong in it is logged, and not acknowledged."""

    def __init__(self, name: str, own: Any) -> None:  # noqa: ANN401 - whatever the user's class is
        self._name = name
        self._own = own
        self._address: Final[int] = own.address

    @property
    def address(self) -> int:
        """Seven-bit address."""
        return self._address

    def write(self, register: int, value: int) -> None:
        """Write a register; raises I2cNak where the user's class raises anything."""
        try:
            self._own.write(register, value)
        except I2cNak:
            raise
        except Exception as error:
            raise self._failed(f"write of register 0x{register:02x}", error) from error

    def read(self, register: int) -> int:
        """Read a register; raises I2cNak where the user's class raises anything, or returns no byte."""
        try:
            value: int = self._own.read(register)
            (byte,) = bytes((value,))
        except I2cNak:
            raise
        except Exception as error:
            raise self._failed(f"read of register 0x{register:02x}", error) from error
        return byte

    def _failed(self, what: str, error: Exception) -> I2cNak:
        logger.error("%s: %s: %s: %s", self._name, what, type(error).__name__, error)
        return I2cNak(f"{type(error).__name__}: {error}")

    @classmethod
    def load(cls, pins: Pins, number: int) -> "OwnRegisters":
        """Import the class of the board's peripheral `number`, and make one. Raises BoardError."""
        spec = pins.peripherals[number]
        module_name, _, name = (spec.registers or "").partition(":")
        try:
            module = import_user_module(module_name, pins.folder)
            own = getattr(module, name, None)
            if not callable(own):
                raise UserModuleError(f"the module {module_name!r} has no class {name!r}")
            return cls(spec.name, _checked(name, own))
        except UserModuleError as error:
            origin = pins.place(spec.name, "peripherals", number)
            raise BoardError(f"{origin}: {error}", "peripherals", number, "registers") from error.__cause__


def _checked(name: str, own: Any) -> Any:  # noqa: ANN401 - whatever the user's class is
    """Make an object, which must have an address and the two methods. Raises UserModuleError."""
    try:
        made = own()
    except Exception as error:  # whatever the user's class raises
        raise UserModuleError(f"{name}() cannot be made: {type(error).__name__}: {error}") from error
    address = getattr(made, "address", None)
    if not (isinstance(address, int) and 0 <= address <= LAST_ADDRESS):
        raise UserModuleError(f"{name}.address is 0 to {LAST_ADDRESS}, not {address!r}")
    for method in ("read", "write"):
        if not callable(getattr(made, method, None)):
            needs = "it needs read(register) and write(register, value)"
            raise UserModuleError(f"{name} has no method {method}: {needs}")
    return made
