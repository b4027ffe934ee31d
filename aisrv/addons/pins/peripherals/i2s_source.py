"""A source of samples on an I2S bus that others clock, such as a microphone."""

from collections.abc import Iterator, Sequence
from typing import Final

import trio

from aisrv.addons.pins.peripherals.driver import PinDriver
from aisrv.addons.pins.peripherals.i2s_format import I2sPins
from aisrv.addons.pins.peripherals.violations import Violations
from aisrv.addons.pins.peripherals.wires import Change, Wires
from aisrv.xcore.ports.pin import HIGH, LOW


class I2sSource:
    """Sends samples, left and right in turn, from the first left slot that begins, and then silence."""

    def __init__(self, name: str, pins: I2sPins, samples: Sequence[int], *, width: int = 16) -> None:
        """Send signed samples of `width` bits."""
        self.name: Final = name
        self.violations: Final = Violations(name)
        self._pins = pins
        self._samples = samples
        self._width = width
        self._driver = PinDriver(name)
        self._began: int | None = None  # the last slot

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send until cancelled."""
        data = self._pins.data
        data.drive(LOW, self._driver)
        self._pins.bclk.keep(self, data.runtime.clock.ticks())
        left = iter(self._samples)
        with Wires(self._pins.lrclk) as wires:
            task_status.started()
            try:
                started = False
                while True:
                    slot = await wires.change()
                    if slot is not None and (started := started or slot.level == LOW):
                        self._pins.bclk.keep(self, slot.tick)
                        await self._send(next(left, 0), slot)
            finally:
                self._pins.bclk.forget(self)
                data.withdraw(self._driver)
                data.release(self._driver)

    async def _send(self, sample: int, slot: Change) -> None:
        """Send a sample in a slot that has begun: bits at the falling edges that come after its first one."""
        bclk, lrclk, data = self._pins
        data.withdraw(self._driver, slot.tick)
        known = list(self._known_falls(slot.tick))
        bits = [sample >> bit & 1 for bit in range(self._width - 1, -1, -1)] + [LOW]
        self._check(slot.tick)
        data.drive_at(known, bits[: len(known)], self._driver)
        tick = known[-1] if known else slot.tick
        for bit in bits[len(known) :]:
            if lrclk.value(tick) != slot.level:
                return
            tick = await bclk.edge(rising=False, after=tick)
            data.drive(bit, self._driver, tick)

    def _known_falls(self, tick: int) -> Iterator[int]:
        """Return the falling edges of the bit clock after a tick, as far as they are known and needed."""
        bclk = self._pins.bclk
        count = 0
        while count <= self._width and (after := bclk.next_change(tick)) is not None:
            tick = after
            if bclk.value(tick) != HIGH:
                count += 1
                yield tick

    def _check(self, tick: int) -> None:
        """Note a slot that was too short for a sample."""
        began, self._began = self._began, tick
        if began is None:
            return
        bclk = self._pins.bclk
        periods = sum(level == LOW for _, level in bclk.changes(began, tick))
        if periods < self._width:
            self.violations.add(
                tick, "slot length", f"a slot has {periods} bits, a sample has {self._width} bits"
            )
