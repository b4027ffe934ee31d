"""Checkers: each a thread of its own, which runs while the simulation stands still, until it waits."""

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from aisrv.addons.firmware.pyxsim.testers import TestError


class Until(Struct, frozen=True):
    """A thread waits for a time, in the unit of the checkers."""

    time: float


class Changes(Struct, frozen=True):
    """A thread waits until one of several ports is driven otherwise, or to another value."""

    ports: tuple[str, ...]
    before: tuple[tuple[bool, int], ...]
    """Whether each was driven as the wait began, and its value then."""


class Check(Struct, frozen=True):
    """A thread waits until a function of its own holds, which is asked at each tick."""

    holds: Callable[[], object]


class NextTick(Struct, frozen=True):
    """A thread waits for the next tick."""


Wait = Until | Changes | Check | NextTick


class Signals(Protocol):
    """What checkers see and drive: the pins of a device."""

    def get_time(self) -> float:
        """Return the time, in the unit of the checkers."""

    def is_driving(self, port: str) -> bool:
        """Return whether the device drives the first pin of a port, or of its bit."""

    def sample(self, port: str) -> int:
        """Return the value of a port, or of its bit."""

    def drive(self, port: str, value: int) -> None:
        """Drive the pins of a port, or of its bit."""


class SimThread:
    """A checker: XMOS's tests derive theirs from it, and `run` them on the pins of a device."""

    xsi: "Xsi"
    """The device as this thread sees it, from its start on."""

    def run(self, *arguments: Any) -> None:  # noqa: ANN401 - the checker's own
        """Do nothing; checkers do what they check."""

    def wait(self, holds: Callable[[Any], object]) -> None:
        """Wait until a function of the device holds."""
        self.xsi.wait_for(Check(lambda: holds(self.xsi)))

    def wait_until(self, time: float) -> None:
        """Wait until a time."""
        self.xsi.wait_for(Until(time))

    def wait_for_port_pins_change(self, ports: Sequence[str]) -> None:
        """Wait until one of several ports is driven otherwise, or to another value."""
        self.xsi.wait_for(Changes(tuple(ports), tuple(map(self.xsi.state_of, ports))))

    def wait_for_next_cycle(self) -> None:
        """Wait until the next tick."""
        self.xsi.wait_for(NextTick())


class _Ended(BaseException):
    """The run is over, and the checker with it."""


class Xsi:
    """The device as one checker sees it, and the thread of that checker."""

    def __init__(self, checker: SimThread, arguments: Sequence[object], signals: Signals) -> None:
        """Create the thread; `start` starts it."""
        self._checker = checker
        self._arguments = arguments
        self._signals = signals
        self._go = threading.Semaphore(0)
        self._waits = threading.Semaphore(0)
        self._ends = False
        self._failed = False
        self._driven: list[tuple[str, int]] = []
        self._is_settling = False
        self._thread: Final = threading.Thread(target=self._run, daemon=True)
        self.waits_for: Wait | None = None
        """What the checker waits for; None where it has returned."""
        self.terminated = False
        """Whether the checker has asked for the end of the run."""

    # What checkers call.

    def get_time(self) -> float:
        """Return the time, in the unit of the checkers."""
        return self._signals.get_time()

    def is_port_driving(self, port: str) -> bool:
        """Whether the device drives the first pin of a port, or of its bit: `tile[0]:XS1_PORT_8A.3`."""
        self._settle()
        return self._signals.is_driving(port)

    def sample_port_pins(self, port: str) -> int:
        """Return the value of a port, or of its bit."""
        self._settle()
        return self._signals.sample(port)

    def drive_port_pins(self, port: str, value: int) -> None:
        """Drive the pins of a port, or of its bit."""
        self._driven.append((port, value))

    def terminate(self) -> None:
        """End the run."""
        self.terminated = True
        self.wait_for(Check(lambda: False))

    def state_of(self, port: str) -> tuple[bool, int]:
        """Return whether the device drives a port, and its value where it does."""
        is_driven = self.is_port_driving(port)
        return is_driven, self._signals.sample(port) if is_driven else 0

    def wait_for(self, wait: Wait) -> None:
        """Let the simulation go on, until what is waited for is there."""
        self.waits_for = wait
        self._hand_over()

    def _settle(self) -> None:
        """Have what was driven on the pins before they are looked at: the simulation's thread does that."""
        if self._driven:
            self._is_settling = True
            self._hand_over()

    def _hand_over(self) -> None:
        self._waits.release()
        self._go.acquire()
        if self._ends:
            raise _Ended

    # What the simulation calls.

    def start(self) -> None:
        """Run the checker until it waits. Raises TestError where it fails."""
        self._checker.xsi = self
        self._thread.start()
        self._until_it_waits()

    def resume(self) -> None:
        """Let the checker run until it waits again. Raises TestError where it fails."""
        self._go.release()
        self._until_it_waits()

    def close(self) -> None:
        """End the checker, and its thread."""
        if self._thread.is_alive():
            self._ends = True
            self._go.release()
            self._thread.join()

    def _until_it_waits(self) -> None:
        self._waits.acquire()
        self._drive()
        while self._is_settling:
            self._is_settling = False
            self._go.release()
            self._waits.acquire()
            self._drive()
        if self._failed:
            raise TestError("a checker failed: its traceback is on stderr")

    def _drive(self) -> None:
        driven, self._driven = self._driven, []
        for port, value in driven:
            self._signals.drive(port, value)

    def _run(self) -> None:
        try:
            self._checker.run(*self._arguments)
        except _Ended:
            return
        except Exception:
            self._failed = True
            traceback.print_exc(file=sys.stderr)
        self.waits_for = None
        self._waits.release()
