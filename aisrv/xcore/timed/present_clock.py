"""The reference clock of a node in device time, as those read it that are outside of its cores."""

from typing import TYPE_CHECKING

from aisrv.xcore.clock import Clock

if TYPE_CHECKING:
    from aisrv.xcore.timed.timeline import Timeline


class PresentClock(Clock):
    """Its tick is the one to which the node has come: on a machine that is late that is before Trio's."""

    def __init__(self, timeline: "Timeline") -> None:
        super().__init__(timeline.reference.origin)
        self._timeline = timeline

    def ticks(self) -> int:
        """Tick of the turn that is being done; else the present one, or that of a turn that is due."""
        return self._timeline.ticks

    def leave_tick(self, tick: int) -> int:
        """Begin the next tick of virtual time where that one is now; return the present one."""
        return self._timeline.reference.leave_tick(tick)
