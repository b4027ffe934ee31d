"""Recordings of engines' GPIO outputs, as VCD.

The signals are `engine0.led0` to `engine0.led3` of engine 0, and so on. Times are those of Trio's clock since
`begin`, by default that at which the recording is made.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio
from vcd.writer import Variable

from aisrv.engine.gpio import Gpio, Levels
from phy.vcd_recording import VcdRecording

SECOND: Final = 10**9
"""Nanoseconds."""


class GpioVcd(VcdRecording):
    """A recording of engines' outputs, whole up to the last change; made and closed in a Trio task."""

    def __init__(self, path: Path, outputs: Sequence[Gpio], begin: float | None = None) -> None:
        super().__init__(path)
        self._start = trio.current_time() if begin is None else begin
        for number, gpio in enumerate(outputs):
            variables = [
                self._writer.register_var(f"engine{number}", f"led{led}", "wire", 1, init=int(level))
                for led, level in enumerate(gpio.levels)
            ]
            gpio.observe(partial(self._record, variables))
        self.flush()

    def close(self) -> None:
        self._end(self._now())

    def _record(self, variables: Sequence[Variable[Any]], levels: Levels) -> None:
        if self._recording:
            now = self._now()
            try:
                for variable, level in zip(variables, levels, strict=True):
                    self._writer.change(variable, now, int(level))
            except OSError as error:
                self._fail(error)
        self.flush()

    def _now(self) -> int:
        return round((trio.current_time() - self._start) * SECOND)
