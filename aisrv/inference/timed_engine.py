"""The inference engine in device time: loads and runs take what the modeled device takes.

Source: "Device time and traces", section 2; the times of operators are those of GET_TIMINGS.
"""

import math
from fractions import Fraction
from typing import Any, Final

from aisrv.inference.engine import InferenceEngine, RunnerFactory
from aisrv.inference.interpreter import InPlaceModel, ModelBytes
from aisrv.inference.parameters import LOADS
from aisrv.protocol.memory_map import ModelMemory
from aisrv.xcore.device_costs import ISSUE_SLOTS, LOAD_TICKS
from aisrv.xcore.timeline import Timeline


class TimedInferenceEngine(InferenceEngine):
    """`InferenceEngine` on a core of a tile in device time.

    A run begins at the core's clock, and ends its predicted time later, or when this host is done with it.
    """

    def __init__(
        self,
        timeline: Timeline,
        tile: int,
        threads: int,
        runner: RunnerFactory,
        **settings: Any,  # noqa: ANN401 - those of InferenceEngine
    ) -> None:
        super().__init__(runner, **settings)
        self._timeline: Final = timeline
        self._tile: Final = tile
        self._threads: Final = threads

    async def load_model(
        self, model: ModelBytes, memory: ModelMemory, in_place: InPlaceModel | None = None
    ) -> None:
        """Load a model; see `InferenceEngine.load_model`. It takes its time for each operator."""
        await self._timeline.settle()
        await super().load_model(model, memory, in_place)
        ticks = LOAD_TICKS * len(self.operator_times)
        await self._timeline.wait_until(self._timeline.now() + self._timeline.clocks(ticks))

    async def invoke(self) -> None:
        """Run the model; see `InferenceEngine.invoke`. Loads from flash take what the flash takes."""
        await self._timeline.settle()
        await super().invoke()
        timeline, running = self._timeline, self._timeline.running
        running[self._tile] += self._threads - 1
        try:
            slot = Fraction(timeline.slot(self._tile), ISSUE_SLOTS)
            end = timeline.now() + math.ceil(self.computing_clocks * slot)
            running[self._tile] += 1  # as `wait_until` takes this core off
            try:
                await timeline.wait_until(end)
            finally:
                running[self._tile] -= 1
        finally:
            running[self._tile] -= self._threads - 1

    @property
    def computing_clocks(self) -> Fraction:
        """Clocks of a core of a run whose tile has no more than five running, without loads from flash."""
        total = self.total
        if total is None:
            return Fraction(0)
        loads = sum(time.ticks for time in self.operator_times if time.name in LOADS)
        return (total.ticks - loads) * self._timeline.core_clock_mhz / Fraction(total.tick_mhz)
