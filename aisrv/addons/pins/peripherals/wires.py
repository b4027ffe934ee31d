"""The changes of several pins in their order, for a peripheral that waits on all of them.

A filter may leave out spikes, as the inputs of I2C devices do.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, NamedTuple, Self

import trio

from aisrv.addons.pins.peripherals.attention import Attention
from aisrv.xcore.ports.pin import HIGH, Pin

_KEEP_EVERY: Final = 32
"""Changes after which the pins are told that their past before is not wanted any more."""


class Change(NamedTuple):
    """A pin that has changed."""

    tick: int
    wire: int
    """Place among the pins that are watched."""
    level: int
    """0 or 1; one that two drivers disagree about counts as 0."""


class Wires(ExitStack):
    """Pins that are watched within a block, from the present tick on.

    A pulse shorter than `spike` ticks is no change: `on_spike` is called with its tick and pin. Every change
    is told `spike` ticks late then.
    """

    def __init__(
        self, *pins: Pin, spike: int = 0, on_spike: Callable[[int, int], object] | None = None
    ) -> None:
        super().__init__()
        self._pins = pins
        self._spike = spike
        self._on_spike = on_spike
        self._clock = pins[0].runtime.clock
        self._attention = Attention(*pins)
        self._tick = now = self._clock.ticks()
        self._seen = [_level(pin, now) for pin in pins]
        self._since = [now] * len(pins)
        self.levels: Final = list(self._seen)
        """The level of each pin after the last change that was told."""
        self._told = 0
        self._raw: int | None = None
        self._heard = -1  # as often the pins had had other changes when `_raw` was found

    def __enter__(self) -> Self:
        self.enter_context(self._attention)
        return self

    async def change(self, until: int | None = None) -> Change | None:
        """Wait for the next change; None where none is told up to tick `until`, at which that returns."""
        while True:
            raw, told = self._next_raw(), self._next_told()
            event = min((each for each in (raw, told) if each is not None), default=None)
            if until is not None and (event is None or event > until):
                event = until
            now = self._clock.ticks()
            if event is None or event > now:
                await self._attention.sleep(event)
            elif told is not None and told <= event:
                return await self._tell()
            elif raw == event:
                self._see(event)
            else:
                await trio.lowlevel.checkpoint_if_cancelled()
                return None

    def _next_raw(self) -> int | None:
        """Return the tick of the next change of a pin, as far as is known."""
        if self._heard == self._attention.heard:
            return self._raw
        found: int | None = None
        for pin, level in zip(self._pins, self._seen, strict=True):
            after = pin.first_other(self._tick, level)
            while after is not None and _level(pin, after) == level:
                after = pin.next_change(after)
            if after is not None and (found is None or after < found):
                found = after
        self._raw, self._heard = found, self._attention.heard
        return found

    def _next_told(self) -> int | None:
        """Return the tick at which a change has lasted long enough."""
        return min((self._since[wire] + self._spike for wire in self._waiting()), default=None)

    def _waiting(self) -> list[int]:
        return [wire for wire, level in enumerate(self._seen) if level != self.levels[wire]]

    def _see(self, tick: int) -> None:
        """Take one change of a pin."""
        self._tick, self._heard = tick, -1
        for wire, pin in enumerate(self._pins):
            if (level := _level(pin, tick)) != self._seen[wire]:
                self._seen[wire] = level
                if level != self.levels[wire]:
                    self._since[wire] = tick
                elif self._spike and self._on_spike is not None:
                    self._on_spike(self._since[wire], wire)
                return

    async def _tell(self) -> Change:
        wire = min(self._waiting(), key=self._since.__getitem__)
        await trio.lowlevel.checkpoint_if_cancelled()  # others run while it sleeps: it should not be late
        if self._told % _KEEP_EVERY == 0:
            self._attention.keep(self._tick)
        self.levels[wire] = self._seen[wire]
        self._told += 1
        return Change(self._since[wire], wire, self.levels[wire])


def _level(pin: Pin, tick: int) -> int:
    return int(pin.value(tick) == HIGH)
