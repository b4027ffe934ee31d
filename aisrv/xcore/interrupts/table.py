"""The events that may interrupt a core, by their resources, and whether they listen."""

from contextlib import ExitStack
from typing import Final

from aisrv.xcore.core import Core, check_tile
from aisrv.xcore.interrupts.source import Callback, Interrupted, InterruptSource
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.select import Event
from aisrv.xcore.timer import TimerAfter
from aisrv.xcore.traps import InterruptError


class InterruptTable:
    """Those of one core, in the order in which they were set up."""

    def __init__(self, runtime: Runtime, core: Core) -> None:
        self._runtime = runtime
        self._core: Final = core
        self._by_resource: dict[int, InterruptSource] = {}
        self._expects = ExitStack()
        self.armed: Final[list[InterruptSource]] = []
        """Those that fire as their event comes."""

    def set_up(self, event: Event, callback: Callback, name: str, interrupts: Interrupted) -> bool:
        """Set the callback of an event, disabled; return whether its resource was enabled."""
        self._check(event, "setv")
        key = _resource_of(event)
        before = self._by_resource.get(key)
        self._by_resource[key] = InterruptSource(interrupts, event, callback, self._core.callback(name))
        return before is not None and before.is_enabled

    def enable(self, event: Event) -> bool:
        """Enable an event, and return whether it was not."""
        source = self._find(event, "eeu")
        changed, source.is_enabled = not source.is_enabled, True
        return changed

    def disable(self, event: Event) -> bool:
        """Disable an event, and return whether it was enabled."""
        source = self._find(event, "edu")
        changed, source.is_enabled = source.is_enabled, False
        return changed

    def disable_all(self) -> None:
        """Disable all events."""
        for source in self._by_resource.values():
            source.is_enabled = False

    def next(self) -> InterruptSource | None:
        """Return the first one that is enabled and whose event is there."""
        for source in self._by_resource.values():
            if source.is_enabled and source.event.ready:
                return source
        return None

    def arm(self) -> None:
        """Have all that are enabled fire as their event comes."""
        for source in self._by_resource.values():
            if source.is_enabled:
                source.arm()
                self.armed.append(source)
                if None in source.wakers:
                    self._expects.enter_context(self._runtime.outside_world())

    def disarm(self) -> None:
        """Have none fire any more."""
        for source in self.armed:
            source.disarm()
        self.armed.clear()
        self._expects.close()

    def _check(self, event: Event, verb: str) -> None:
        tile = getattr(event, "tile", self._core.tile)
        check_tile(tile, f"{verb} on {event.name}")

    def _find(self, event: Event, verb: str) -> InterruptSource:
        self._check(event, verb)
        found = self._by_resource.get(_resource_of(event))
        if found is None:
            raise InterruptError(f"{verb} on {event.name}, of which {self._core} has no interrupt callback")
        return found


def _resource_of(event: Event) -> int:
    """Tell the resource of an event from others: of a timer, whatever its time."""
    return id(event.timer if isinstance(event, TimerAfter) else event)
