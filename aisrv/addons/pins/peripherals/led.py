"""An LED on a pin: what it shows, in the log and for who asks."""

import logging
from typing import Final

import trio

from aisrv.addons.pins.peripherals.resistor import resistor
from aisrv.addons.pins.peripherals.wires import Wires
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.ports.pin import HIGH, LOW, Pin

logger = logging.getLogger(__name__)


class Led:
    """An LED that is lit while its pin has its level; on a pin that nobody drives it is dark."""

    def __init__(self, name: str, pin: Pin, *, active: int = HIGH) -> None:
        """Be lit at the level `active`."""
        self.name: Final = name
        self._pin = pin
        self._active = active
        self.is_lit = False
        """Whether it is lit now."""
        self.changes: Final[list[tuple[int, bool]]] = []
        """The tick of each change, and whether it is lit from then on; the latest `MOST_CHANGES`."""

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the pin until cancelled."""
        dark = LOW if self._active == HIGH else HIGH
        with resistor(self.name, dark, self._pin), Wires(self._pin) as wires:
            self._show(self._pin.runtime.clock.ticks(), wires.levels[0])
            task_status.started()
            while True:
                change = await wires.change()
                if change is not None:
                    self._show(change.tick, change.level)

    def _show(self, tick: int, level: int) -> None:
        lit = level == self._active
        if lit == self.is_lit:
            return
        self.is_lit = lit
        self.changes.append((tick, lit))
        del self.changes[:-MOST_CHANGES]
        logger.info("%s is %s at %.6f s", self.name, "on" if lit else "off", tick / TICKS_PER_SECOND)


MOST_CHANGES: Final = 10_000
"""Changes of an LED that are kept."""
