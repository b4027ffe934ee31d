"""Resistors that hold pins where nobody drives them."""

from collections.abc import Iterator
from contextlib import contextmanager

from aisrv.addons.pins.peripherals.driver import PinDriver
from aisrv.xcore.ports.pin import Pin


@contextmanager
def resistor(name: str, level: int, *pins: Pin) -> Iterator[None]:
    """Hold pins at a level within the block: whatever drives them otherwise wins."""
    driver = PinDriver(f"the resistor of {name}", is_weak=True)
    for pin in pins:
        pin.drive(level, driver)
    try:
        yield
    finally:
        for pin in pins:
            pin.release(driver)
