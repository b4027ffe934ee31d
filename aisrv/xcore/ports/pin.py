"""Pins: the level of each over time, by who drives it. Rules: "Ports", section Pins.

A pin knows its past as far as somebody reads it, and of its future what its drivers have laid down: a port
commits a whole word at once. Levels are as of the end of a tick.
"""

import enum
import logging
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from aisrv.xcore.ports.clock_edges import ClockEdges
from aisrv.xcore.ports.driven import RELEASED, Driven, Driver
from aisrv.xcore.runtime import Runtime

logger = logging.getLogger(__name__)

LOW: Final = 0
HIGH: Final = 1
Z: Final = RELEASED
"""Nobody drives, and nothing pulls."""
X: Final = 3
"""Two drivers disagree."""


class Pull(enum.Enum):
    """The resistor that holds a pin which nobody drives."""

    NONE = None
    DOWN = LOW
    UP = HIGH


class PinListener(Protocol):
    """Is told where the levels of a pin change."""

    def pin_changed(self, pin: "Pin", tick: int) -> None:
        """Called as changes are laid down or withdrawn, of which the first is at `tick`; it may lie ahead.

        It drives other pins alone.
        """


class PinReader(Protocol):
    """Reads the past of a pin late."""

    def read_pins(self, now: int) -> None:
        """Read what it needs of the ticks before `now`, as that is dropped then."""


class Pin:
    """One pin of a tile."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        """Create the pin of that name, such as `X0D00`."""
        self.runtime: Final = runtime
        self.name: Final = name
        self._pull = Pull.NONE
        self._port_pulls: dict[object, Pull] = {}
        self._released = Z
        self._driven: dict[int, Driven] = {}
        self._listeners: list[PinListener] = []
        self._kept: dict[object, int] = {}
        self._prune_at = 64
        self._readers: tuple[PinReader, ...] = ()
        self._disagreed = False

    # Levels.

    @property
    def pull(self) -> Pull:
        """The resistor on the board; it wins against that of a port."""
        return self._pull

    @pull.setter
    def pull(self, pull: Pull) -> None:
        self._pull = pull
        self._hold()

    def set_port_pull(self, port: object, pull: Pull) -> None:
        """Hold the pin by the resistor of a port's pad, where nobody drives it and nothing else pulls."""
        self._port_pulls.pop(port, None)
        if pull is not Pull.NONE:
            self._port_pulls[port] = pull
        self._hold()

    def _hold(self) -> None:
        pulls = (self._pull, *reversed(self._port_pulls.values()))
        held = next((pull.value for pull in pulls if pull.value is not None), Z)
        if held != self._released:
            self._released = held
            self._changed(self.runtime.clock.ticks())

    def level(self, tick: int | None = None) -> int:
        """Return the level at the end of a tick, the present one by default: 0, 1, Z or X."""
        if tick is None:
            tick = self.runtime.clock.ticks()
        driven = self._driven
        if not driven:
            return self._released
        if len(driven) == 1:
            for only in driven.values():
                level = only.level(tick)
                return self._released if level == Z else level
        return self._resolve(tick)

    def value(self, tick: int | None = None) -> int:
        """Return the level as a reader sees it: 0, 1, or X where two disagree. A floating pin reads 0."""
        level = self.level(tick)
        return LOW if level == Z else level

    def bits(self, ticks: Sequence[int]) -> int:
        """Return the bits read at some ticks, the first in bit 0; a pin that floats or is X reads 0."""
        value = self.value
        first = value(ticks[0])
        after = self._next_candidate(ticks[0])
        if after is None or after > ticks[-1]:
            return (1 << len(ticks)) - 1 if first == HIGH else 0
        bits = 0
        for at, tick in enumerate(ticks):
            bits |= (value(tick) == HIGH) << at
        return bits

    def drive(self, level: int, driver: Driver, tick: int | None = None) -> None:
        """Drive 0, 1 or Z from a tick on, the present one by default; what the driver does later stays."""
        now = self.runtime.clock.ticks()
        if tick is None:
            tick = now
        self._of(driver).put(tick, level)
        self._laid_down(tick, now)

    def drive_run(self, bits: Sequence[int], first: int, period: int, driver: Driver) -> None:
        """Drive a level a `period` from tick `first` on; the last one stays."""
        self.drive_at(range(first, first + period * len(bits), period), bits, driver)

    def drive_at(self, ticks: Sequence[int], levels: Sequence[int], driver: Driver) -> None:
        """Drive each level from its tick on; ticks ascend."""
        if not ticks:
            return
        self._of(driver).put_all(ticks, levels)
        self._laid_down(ticks[0], self.runtime.clock.ticks())

    def drive_clock(
        self, edges: ClockEdges, driver: Driver, *, inverted: bool = False, since: int | None = None
    ) -> None:
        """Drive a periodic clock from a tick on, by default its origin, until the driver drives otherwise."""
        if since is None:
            since = edges.origin
        self._of(driver).put_clock(edges, since, inverted=inverted)
        self._laid_down(since, self.runtime.clock.ticks())

    def clock_driven(self, tick: int) -> tuple[ClockEdges, bool] | None:
        """Return the periodic clock that alone drives the pin from a tick on, and whether it is inverted."""
        if len(self._driven) != 1:
            return None
        for only in self._driven.values():
            return only.clock_at(tick)
        return None

    def release(self, driver: Driver, tick: int | None = None) -> None:
        """Drive no more from a tick on, the present one by default."""
        if id(driver) in self._driven:
            self.drive(Z, driver, tick)

    def withdraw(self, driver: Driver, tick: int | None = None) -> None:
        """Forget what a driver has laid down later than a tick, the present one by default."""
        driven = self._driven.get(id(driver))
        if driven is None:
            return
        if tick is None:
            tick = self.runtime.clock.ticks()
        if driven.cut(tick):
            self._changed(tick + 1)

    def is_driven(self, driver: Driver, tick: int | None = None) -> bool:
        """Return whether a driver drives the pin at a tick, the present one by default."""
        return self.level_of(driver, self.runtime.clock.ticks() if tick is None else tick) != Z

    def level_of(self, driver: Driver, tick: int) -> int:
        """Return what a driver does at the end of a tick: 0, 1 or Z."""
        driven = self._driven.get(id(driver))
        return Z if driven is None else driven.level(tick)

    def is_driven_by_another(self, driver: Driver, tick: int | None = None) -> bool:
        """Return whether anyone but that driver drives the pin at a tick, the present one by default.

        A pull-up is no drive.
        """
        if tick is None:
            tick = self.runtime.clock.ticks()
        levels = ((each, each.level(tick)) for each in self._driven.values() if each.driver is not driver)
        return any(level != Z and not (level == HIGH and each.open_drain) for each, level in levels)

    @property
    def drivers(self) -> tuple[Driver, ...]:
        """Who has ever driven the pin."""
        return tuple(driven.driver for driven in self._driven.values())

    def user_changed(self, driver: Driver) -> None:
        """Have who waits for the pin look again: another core uses a driver, and that may wake it."""
        if id(driver) in self._driven:
            self._changed(self.runtime.clock.ticks())

    # Waits.

    async def edge(self, rising: bool | None = None, *, after: int | None = None) -> int:
        """Wait for the next change to 1, to 0, or (None) to any other level; return its tick.

        `after` is a tick from which on changes count; by default it is the present one, without what is laid
        down for it already.
        """
        clock = self.runtime.clock
        tick = clock.ticks() if after is None else after
        level = self.value(tick)
        watch = _Watch(self)
        try:
            while True:
                now = clock.ticks()
                changed = self.first_other(tick, level)
                if changed is not None and changed <= now:
                    tick, level = changed, self.value(changed)
                    if rising is None or level == int(rising):
                        await self.until(now)
                        return tick
                else:
                    await watch.sleep(changed)
        finally:
            watch.close()

    async def until(self, tick: int) -> None:
        """Wait until a tick has come."""
        await self.runtime.tick_waiter().sleep(tick)

    def next_change(self, tick: int) -> int | None:
        """Return the first tick after `tick` at which the level is another one, as far as is known."""
        return self.first_other(tick + 1, self.value(tick))

    def first_other(self, tick: int, level: int) -> int | None:
        """Return the first tick, from `tick` on, at which a reader sees another level, as far as is known."""
        if self.value(tick) != level:
            return tick
        after = self._next_candidate(tick)
        while after is not None and self.value(after) == level:
            after = self._next_candidate(after)
        return after

    def next_event(self, tick: int) -> int | None:
        """Return the first tick after `tick` at which a driver changes, as far as is known."""
        return self._next_candidate(tick)

    # Who hears of changes, and the past.

    def listen(self, listener: PinListener) -> None:
        """Tell a listener of all changes, those that lie ahead and withdrawals as well."""
        self._listeners.append(listener)

    def stop_listening(self, listener: PinListener) -> None:
        """Remove a listener, if it is one."""
        self._listeners = [each for each in self._listeners if each is not listener]

    def read_by(self, reader: "PinReader") -> None:
        """Ask a reader before the past is dropped."""
        self._readers = (*self._readers, reader)

    def read_no_more(self, reader: "PinReader") -> None:
        """Remove a reader, if it is one."""
        self._readers = tuple(each for each in self._readers if each is not reader)

    def settle(self, now: int) -> None:
        """Have all readers read what they need of the ticks before `now`."""
        for reader in self._readers:
            reader.read_pins(now)

    def tell_anew(self) -> None:
        """Have who listens look again, as it reads the pin otherwise from now on."""
        self._changed(self.runtime.clock.ticks())

    def keep(self, reader: object, since: int) -> None:
        """Keep changes from a tick on for a reader, which calls again with a later one."""
        self._kept[reader] = since
        self._note_kept()

    def forget(self, reader: object) -> None:
        """Keep nothing more for a reader."""
        self._kept.pop(reader, None)
        self._note_kept()

    def changes(self, since: int, until: int | None = None) -> Iterator[tuple[int, int]]:
        """Iterate over tick and level of each change later than `since`, up to a tick, by default now.

        Who wants changes of the past has them kept by `keep`.
        """
        end = self.runtime.clock.ticks() if until is None else until
        tick, level = since, self.level(since)
        while (after := self._next_candidate(tick)) is not None and after <= end:
            tick = after
            if (now := self.level(tick)) != level:
                level = now
                yield tick, level

    # Inside.

    def _of(self, driver: Driver) -> Driven:
        driven = self._driven.get(id(driver))
        if driven is None:
            driven = self._driven[id(driver)] = Driven(driver)
            self._note_kept()
        return driven

    def _note_kept(self) -> None:
        since = min(self._kept.values(), default=None)
        for driven in self._driven.values():
            driven.kept_since = since

    def _resolve(self, tick: int) -> int:
        """Combine what several drivers do at a tick."""
        strong, weak, pulled = Z, Z, False
        for driven in self._driven.values():
            level = driven.level(tick)
            if level == HIGH and driven.open_drain:
                pulled = True
            elif driven.is_weak:
                weak = level if weak == Z else weak
            elif level != Z:
                if strong not in (Z, level):
                    self._note_disagreement(tick)
                    return X
                strong = level
        if strong != Z or weak != Z:
            return weak if strong == Z else strong
        return HIGH if pulled else self._released

    def _note_disagreement(self, tick: int) -> None:
        if self._disagreed:
            return
        self._disagreed = True
        names = " and ".join(each.driver.name for each in self._driven.values() if each.level(tick) != Z)
        logger.warning("pin %s: %s drive different levels at tick %d", self.name, names, tick)

    def _next_candidate(self, tick: int) -> int | None:
        """Return the first tick after `tick` at which a driver changes."""
        found: int | None = None
        for driven in self._driven.values():
            changed = driven.next_change(tick)
            if changed is not None and (found is None or changed < found):
                found = changed
        return found

    def _laid_down(self, tick: int, now: int) -> None:
        if len(self._driven) > 1:
            self._resolve(tick)
        if sum(map(len, self._driven.values())) >= self._prune_at:
            self._prune(now)
        self._changed(tick)

    def _changed(self, tick: int) -> None:
        for listener in tuple(self._listeners):
            listener.pin_changed(self, tick)

    def _prune(self, now: int) -> None:
        """Drop changes that nobody reads any more: the level before the present tick stays."""
        self.settle(now)
        since = min(now, *self._kept.values()) - 1 if self._kept else now - 1
        for driven in self._driven.values():
            driven.drop_before(since)
        self._prune_at = max(64, 2 * sum(map(len, self._driven.values())))


class _Watch:
    """Wakes a task at a tick, or where the levels of its pin change before."""

    def __init__(self, pin: Pin) -> None:
        self._pin = pin
        self._waiter = pin.runtime.tick_waiter()
        pin.listen(self)

    def pin_changed(self, pin: Pin, tick: int) -> None:  # noqa: ARG002 - as in PinListener
        self._waiter.wake()

    async def sleep(self, tick: int | None) -> None:
        await self._waiter.sleep(tick)

    def close(self) -> None:
        self._pin.stop_listening(self)
