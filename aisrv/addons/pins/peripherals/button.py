"""A push button on a pin, which it pulls to its level while it is pressed, with the bounces of a contact."""

from collections.abc import Sequence
from typing import Final

import trio

from aisrv.addons.pins.peripherals.driver import PinDriver
from aisrv.addons.pins.peripherals.resistor import resistor
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.ports.pin import HIGH, LOW, Pin, Z


class Button:
    """A button between the pin and ground, or the supply, with a resistor the other way."""

    def __init__(
        self,
        name: str,
        pin: Pin,
        *,
        active: int = LOW,
        presses: Sequence[float] = (),
        hold: float = 0.1,
        bounces: Sequence[int] = (),
    ) -> None:
        """Be pressed `hold` seconds long at each of the times, in seconds of the node; times ascend.

        `bounces` are the lengths in ticks of contact and gap in turn before the contact stays.
        """
        self.name: Final = name
        self._pin = pin
        self._active = active
        self._presses = presses
        self._hold = hold
        self._bounces = bounces
        self._driver = PinDriver(name)
        self._steady_from = 0

    @property
    def is_pressed(self) -> bool:
        """Return whether it is pressed now."""
        return self._pin.is_driven(self._driver)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be pressed at the times, until cancelled."""
        with resistor(self.name, HIGH if self._active == LOW else LOW, self._pin):
            start = self._pin.runtime.clock.ticks()
            task_status.started()
            try:
                for seconds in self._presses:
                    tick = max(round(seconds * TICKS_PER_SECOND), start)
                    await self._pin.until(tick)
                    self._move(self._active, tick)
                    tick += round(self._hold * TICKS_PER_SECOND)
                    await self._pin.until(tick)
                    self._move(Z, tick)
                await trio.sleep_forever()
            finally:
                self._pin.withdraw(self._driver)
                self._pin.release(self._driver)

    def press(self) -> None:
        """Press it from now on."""
        self._move(self._active, self._pin.runtime.clock.ticks())

    def release(self) -> None:
        """Release it from now on."""
        self._move(Z, self._pin.runtime.clock.ticks())

    def _move(self, level: int, tick: int) -> None:
        """Have a level from a tick on, after the bounces."""
        self._pin.withdraw(self._driver, tick - 1)
        other = self._active if level == Z else Z
        for at, length in enumerate(self._bounces):
            self._pin.drive(level if at % 2 == 0 else other, self._driver, tick)
            tick += length
        self._pin.drive(level, self._driver, tick)
