"""The pins of a port: which of them it drives, and what it reads.

Of enabled ports on one pin the narrowest drives; a wider one's bit reads the pin.
"""

from collections.abc import Sequence
from typing import Final

from aisrv.xcore.ports.clock_edges import ClockEdges
from aisrv.xcore.ports.driven import RELEASED, Driver
from aisrv.xcore.ports.edges import Edges
from aisrv.xcore.ports.pin import HIGH, Pin


class PortPins:
    """The pins of one port, from bit 0 on."""

    def __init__(self, pins: tuple[Pin, ...], driver: Driver) -> None:
        """Create them for the port that is `driver`."""
        self.pins: Final = pins
        self.inverted = False
        """Whether the port, of one bit, drives and reads the opposite."""
        self._driver = driver
        self._driven: Sequence[tuple[int, Pin]] = tuple(enumerate(pins))

    def value_at(self, tick: int) -> int:
        """Return the port's value at the end of a tick."""
        pins = self.pins
        if len(pins) == 1:
            return (pins[0].value(tick) == HIGH) ^ self.inverted
        value = 0
        for bit, pin in enumerate(pins):
            value |= (pin.value(tick) == HIGH) << bit
        return value

    def values_at(self, ticks: Sequence[int]) -> int:
        """Return the values at some ticks in one word, the first one lowest."""
        pins = self.pins
        if len(pins) == 1:
            bits = pins[0].bits(ticks)
            return bits ^ (1 << len(ticks)) - 1 if self.inverted else bits
        word = 0
        for at, tick in enumerate(ticks):
            word |= self.value_at(tick) << at * len(pins)
        return word

    def next_change(self, tick: int) -> int | None:
        """Return the first tick after one at which a pin changes, as far as is known."""
        changes = [changed for pin in self.pins if (changed := pin.next_change(tick)) is not None]
        return min(changes, default=None)

    def drive(self, ticks: Sequence[int], values: Sequence[int]) -> None:
        """Drive values of the port from ticks on."""
        if len(self.pins) == 1:
            if self._driven:
                bits = [value ^ 1 for value in values] if self.inverted else values
                self.pins[0].drive_at(ticks, bits, self._driver)
            return
        for bit, pin in self._driven:
            pin.drive_at(ticks, [value >> bit & 1 for value in values], self._driver)

    def drive_edges(self, edges: Edges, now: int) -> None:
        """Drive the signal of a clock from a tick on, as far as its edges are known."""
        self.withdraw(now)
        if isinstance(edges, ClockEdges):
            self._drive_periodic(edges, None, inverted=False)
            return
        periodic = edges.periodic()
        fallen, risen = edges.falling_until(now), edges.rising_until(now)
        ticks, levels = [now], [edges.lag + risen - fallen]
        while True:
            level = 1 - levels[-1]
            tick = edges.rising(risen + 1) if level else edges.falling(fallen + 1)
            if tick is None or (periodic is not None and tick > periodic[2]):
                break
            risen, fallen = risen + level, fallen + 1 - level
            ticks.append(tick)
            levels.append(level)
        self.drive(ticks, levels)
        if periodic is not None:
            clock, inverted, since = periodic
            self._drive_periodic(clock, max(since, now), inverted=inverted)

    def _drive_periodic(self, edges: ClockEdges, since: int | None, *, inverted: bool) -> None:
        """Drive a periodic clock from a tick on, None for its origin."""
        for _, pin in self._driven:
            pin.drive_clock(edges, self._driver, inverted=self.inverted ^ inverted, since=since)

    def release(self, tick: int) -> None:
        """Drive no more from a tick on."""
        for _, pin in self._driven:
            if pin.level_of(self._driver, tick) != RELEASED:
                pin.release(self._driver, tick)

    def withdraw(self, tick: int) -> None:
        """Forget what was laid down later than a tick."""
        for _, pin in self._driven:
            pin.withdraw(self._driver, tick)

    def may_drive(self, pins: Sequence[Pin], tick: int) -> bool:
        """Drive those pins alone from now on, as of a tick; return whether that changes anything."""
        driven = tuple((bit, pin) for bit, pin in enumerate(self.pins) if pin in pins)
        if driven == self._driven:
            return False
        for _, pin in self._driven:
            if pin not in pins:
                pin.withdraw(self._driver, tick)
                pin.release(self._driver, tick)
        self._driven = driven
        return True
