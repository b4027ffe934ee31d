"""The inference engine in device time: loads and runs take what the modeled device takes.

Source: "Device time and traces", section 2; the times of operators are those of GET_TIMINGS.
"""

import math
from fractions import Fraction
from typing import Any, Final, NamedTuple

from aisrv.inference.engine import InferenceEngine, Runner, RunnerFactory
from aisrv.inference.interpreter import InPlaceModel, ModelBytes
from aisrv.inference.parameters import LOADS
from aisrv.protocol.memory_map import ModelMemory
from aisrv.xcore.timed.device_costs import ISSUE_SLOTS, LOAD_TICKS
from aisrv.xcore.timed.timeline import Timeline


class _Fetches(NamedTuple):
    """What a run of a model in place fetches, while its storage has changed so often."""

    changes: int
    lines: int


class TimedInferenceEngine(InferenceEngine):
    """`InferenceEngine` on a core of a tile in device time.

    A run begins at the core's clock, and ends its predicted time later, or when this host is done with it.
    """

    def __init__(
        self,
        timeline: Timeline,
        tile: int,
        threads: int,
        line_clocks: Fraction,
        runner: RunnerFactory,
        **settings: Any,  # noqa: ANN401 - those of InferenceEngine
    ) -> None:
        super().__init__(runner, **settings)
        self._timeline: Final = timeline
        self._tile: Final = tile
        self._threads: Final = threads
        self._line_clocks: Final = line_clocks
        self._fetches: _Fetches | None = None
        self.load_clocks = 0
        """Clocks of all loads so far."""
        self.run_clocks = Fraction(0)
        """Clocks of all runs so far, with the least and the most of them."""
        self.least_run_clocks = Fraction(0)
        self.most_run_clocks = Fraction(0)
        self.fetch_clocks = Fraction(0)
        """Clocks of all runs so far in which the cache before the flash was filled."""

    async def load_model(
        self, model: ModelBytes, memory: ModelMemory, in_place: InPlaceModel | None = None
    ) -> None:
        """Load a model; see `InferenceEngine.load_model`. It takes its time for each operator."""
        await self._timeline.settle()
        self._fetches = None
        await super().load_model(model, memory, in_place)
        ticks = LOAD_TICKS * len(self.operator_times)
        clocks = self._timeline.clocks(ticks)
        self.load_clocks += clocks
        await self._timeline.wait_until(self._timeline.now() + clocks)

    async def invoke(self) -> None:
        """Run the model; see `InferenceEngine.invoke`. Loads from flash take what the flash takes.

        So do the lines that a model fetches which runs in place.
        """
        await self._timeline.settle()
        await super().invoke()
        timeline, running = self._timeline, self._timeline.running
        running[self._tile] += self._threads - 1
        try:
            slot = Fraction(timeline.slot(self._tile), ISSUE_SLOTS)
            clocks = self.computing_clocks * slot
            self._count(clocks)
            fetching = self._fetches.lines * self._line_clocks if self._fetches else Fraction(0)
            self.fetch_clocks += fetching
            end = timeline.now() + math.ceil(clocks + fetching)
            running[self._tile] += 1  # as `wait_until` takes this core off
            try:
                await timeline.wait_until(end)
            finally:
                running[self._tile] -= 1
        finally:
            running[self._tile] -= self._threads - 1

    async def _run(self, runner: Runner, in_place: InPlaceModel | None) -> None:
        """Run the model; the first run of one that runs in place counts the lines for those after it.

        Which lines a kernel touches hardly depends on the data: by 0.3 % in the networks that were counted.
        """
        self._timeline.promise(self._timeline.now() + int(self.computing_clocks))
        if in_place is None or (self._fetches and self._fetches.changes == in_place.changes):
            await runner.invoke()
            return
        changes = in_place.changes
        self._fetches = _Fetches(changes, await runner.invoke_counted())

    def _count(self, clocks: Fraction) -> None:
        total = self.total
        self.run_clocks += clocks
        if total is not None and total.ticks:
            self.least_run_clocks += clocks * Fraction(total.low, total.ticks)
            self.most_run_clocks += clocks * Fraction(total.high, total.ticks)

    @property
    def computing_clocks(self) -> Fraction:
        """Clocks of a core of a run whose tile has no more than five running, without loads from flash."""
        total = self.total
        if total is None:
            return Fraction(0)
        loads = sum(time.ticks for time in self.operator_times if time.name in LOADS)
        return (total.ticks - loads) * self._timeline.core_clock_mhz / Fraction(total.tick_mhz)
