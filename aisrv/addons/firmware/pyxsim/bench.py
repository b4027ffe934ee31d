"""The bench: checkers on the pins of a node, resumed one by one at each tick, as registered.

A tick of 10 ns is a step. The checkers' time is finer: that of a tick is what a checker has waited for, where
that lies within the tick. So a clock that a checker drives has edges at the times that it meant, also for
those who measure what comes of them in the same tick.
"""

import math
import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.addons.firmware.pyxsim.sim_thread import Changes, Check, NextTick, SimThread, Until, Xsi
from aisrv.addons.firmware.pyxsim.testers import TestError
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.node import Node
from aisrv.xcore.ports.map import PORT_PINS
from aisrv.xcore.ports.pin import HIGH, Pin
from aisrv.xcore.timed.classes import timeline_of

Checker = SimThread | tuple[Any, ...]
"""A checker, or one with the arguments of its `run`."""

_CLOCKS_IN_TICK: Final = 5
"""How often in a tick a checker goes on whose function holds: xsim asks at each clock of the cores."""
_AHEAD: Final = 100_000
"""Ticks that are looked ahead at once where nothing else is to come."""
_ROUNDING: Final = 1e-6
_PORT: Final = re.compile(r"tile\[([01])\]:XS1_PORT_(\d+[A-P])(?:\.(\d+))?")


class _External:
    """The driver of pins that checkers are."""

    def __init__(self, *, is_weak: bool) -> None:
        self.name = "a checker"
        self.is_weak = is_weak


class Bench:
    """What checkers do to the pins of a node, and see of them."""

    def __init__(self, node: Node, units_in_tick: int, *, is_weak: bool = False) -> None:
        """Take the node; `units_in_tick` is the unit of the checkers' time, `is_weak` of what they drive."""
        self._node = node
        self._clock = node.clock
        self._units = units_in_tick
        self._driver = _External(is_weak=is_weak)
        self._ports: dict[str, tuple[Pin, ...]] = {}
        self._tick = 0
        self._time = 0.0
        self._has_acted = False
        self._since: dict[Xsi, int] = {}
        self._checked: Counter[Xsi] = Counter()
        self._heard = trio.Event()

    # Signals, for the checkers.

    def get_time(self) -> float:
        """Return the time, in the unit of the checkers."""
        return self._time

    def is_driving(self, port: str) -> bool:
        """Return whether the device drives the first pin of a port, or of its bit."""
        return self.pins_of(port)[0].is_driven_by_another(self._driver, self._tick)

    def sample(self, port: str) -> int:
        """Return the value of a port, or of its bit."""
        bits = (pin.value(self._tick) == HIGH for pin in self.pins_of(port))
        return sum(bit << place for place, bit in enumerate(bits))

    def drive(self, port: str, value: int) -> None:
        """Drive the pins of a port, or of its bit."""
        for place, pin in enumerate(self.pins_of(port)):
            pin.drive(int(value) >> place & 1, self._driver)

    def pins_of(self, port: str) -> tuple[Pin, ...]:
        """Return the pins of a port or of its bit. Raises TestError for another name."""
        pins = self._ports.get(port)
        if pins is None:
            pins = self._ports[port] = self._find(port)
            for pin in pins:
                pin.listen(self)
        return pins

    def _find(self, port: str) -> tuple[Pin, ...]:
        found = _PORT.fullmatch(port)
        if found is None or (name := found[2]) not in PORT_PINS:
            raise TestError(
                f"{port!r} is no port: one is tile[0]:XS1_PORT_8A, or its bit tile[0]:XS1_PORT_8A.3"
            )
        bits = range(len(PORT_PINS[name])) if found[3] is None else (int(found[3]),)
        if bits[-1] >= len(PORT_PINS[name]):
            raise TestError(f"port {name} has no bit {bits[-1]}")
        tile = self._node.tiles[int(found[1])]
        return tuple(tile.pins.numbered(PORT_PINS[name][bit]) for bit in bits)

    def pin_changed(self, pin: Pin, tick: int) -> None:  # noqa: ARG002 - as in PinListener
        """Look again when something else is to be seen."""
        self._heard.set()

    # The run.

    async def run(
        self,
        checkers: Sequence[Checker],
        seconds: float,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> str | None:
        """Run checkers until one asks for the end; return why they can't go on where none does.

        They have started where each waits for the first time. `seconds` are those of this machine that they
        have. Raises TestError where one fails.
        """
        threads: list[Xsi] = []
        give_up = time.monotonic() + seconds
        try:
            for checker in checkers:
                first, *arguments = checker if isinstance(checker, tuple) else (checker,)
                threads.append(Xsi(first, arguments, self))
                threads[-1].start()
                self._since[threads[-1]] = 0
            task_status.started()
            while not any(thread.terminated for thread in threads):
                self._heard = trio.Event()
                await self._cores_rest()
                self._enter(self._clock.ticks())
                if (ready := self._find_ready(threads)) is not None:
                    self._has_acted = True
                    self._checked[ready] += isinstance(ready.waits_for, Check)
                    ready.resume()
                    self._since[ready] = self._tick
                elif time.monotonic() > give_up:
                    return "Simulator timed out"
                elif not await self._sleep(threads):
                    return "Nothing can happen any more"
            return None
        finally:
            for thread in threads:
                thread.close()
            for pins in self._ports.values():
                for pin in pins:
                    pin.stop_listening(self)

    async def _cores_rest(self) -> None:
        """Wait until nothing happens any more at this tick."""
        await wait_all_tasks_blocked()
        timeline = timeline_of(self._node.runtime)
        while timeline is not None and not timeline.is_at_rest:
            await wait_all_tasks_blocked()

    def _enter(self, tick: int) -> None:
        if tick != self._tick:
            self._tick = tick
            self._has_acted = False
            self._checked.clear()

    def _find_ready(self, threads: Sequence[Xsi]) -> Xsi | None:
        """Return the thread that goes on next at this tick.

        As the tick begins, that is one whose time lies within it; then who hears of what came of that.
        """
        due = self._first_due(threads)
        if due is None or self._has_acted:
            if not self._has_acted:
                self._time = max(self._time, float(self._tick * self._units))
            for thread in threads:
                if self._is_ready(thread):
                    return thread
        if due is not None:
            self._time = max(self._time, due[0])
            return due[1]
        return None

    def _first_due(self, threads: Sequence[Xsi]) -> tuple[float, Xsi] | None:
        due: tuple[float, Xsi] | None = None
        for thread in threads:
            wait = thread.waits_for
            if not isinstance(wait, Until) or self._tick_of(wait.time) > self._tick:
                continue
            if due is None or wait.time < due[0]:
                due = wait.time, thread
        return due

    def _is_ready(self, thread: Xsi) -> bool:
        wait = thread.waits_for
        if isinstance(wait, Changes):
            return any(
                thread.state_of(port) != before for port, before in zip(wait.ports, wait.before, strict=True)
            )
        if isinstance(wait, Check):
            return self._checked[thread] < _CLOCKS_IN_TICK and bool(wait.holds())
        return isinstance(wait, NextTick) and self._tick > self._since[thread]

    async def _sleep(self, threads: Sequence[Xsi]) -> bool:
        """Sleep until a thread may be ready; return False where nothing can ever happen."""
        waits = [thread.waits_for for thread in threads]
        ticks = [self._tick_of(wait.time) for wait in waits if isinstance(wait, Until)]
        ticks += [self._tick + 1 for wait in waits if isinstance(wait, NextTick)]
        for port in {port for wait in waits if isinstance(wait, Changes) for port in wait.ports}:
            events = (pin.next_event(self._tick) for pin in self.pins_of(port))
            ticks += [event for event in events if event is not None]
        seconds = trio.lowlevel.current_statistics().seconds_to_next_deadline
        if checks := [wait for wait in waits if isinstance(wait, Check)]:
            ahead = _AHEAD if seconds == math.inf else max(math.ceil(seconds * TICKS_PER_SECOND - 0.05), 1)
            ticks.append(self._look_ahead(checks, min([self._tick + ahead, *ticks])))
        if not ticks and seconds == math.inf:
            return False
        until = min(ticks) if ticks else self._tick + _AHEAD  # by then all may wait for each other
        with trio.move_on_at(self._clock.deadline(until)):
            await self._heard.wait()
        return True

    def _look_ahead(self, checks: Sequence[Check], end: int) -> int:
        """Return the first tick before `end` at which one holds, or `end`; no task runs before that."""
        tick, now = self._tick, self._time
        try:
            for self._tick in range(tick + 1, end):
                self._time = float(self._tick * self._units)
                if any(check.holds() for check in checks):
                    return self._tick
            return end
        finally:
            self._tick, self._time = tick, now

    def _tick_of(self, moment: float) -> int:
        return math.ceil(moment / self._units - _ROUNDING)
