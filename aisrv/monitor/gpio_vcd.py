"""Recordings of engines' GPIO outputs, as VCD.

A Value Change Dump (IEEE 1364, section 18) has the signals `engine0.led0` to `engine0.led3` of engine 0, and
so on. Times are nanoseconds of Trio's clock since the recording began. GTKWave and sigrok read it.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import trio
from vcd import VCDWriter
from vcd.writer import Variable

from aisrv.engine.gpio import Gpio, Levels

logger = logging.getLogger(__name__)

SECOND: Final = 10**9
"""Nanoseconds."""


class GpioVcd:
    """A VCD file of the outputs of engines by number, which is whole up to the last change at any time.

    Make it and close it in a Trio task. Raises OSError where the file cannot be made. One that cannot be
    written later, as on a full disk, ends the recording with an error in the log, and nothing else.
    """

    def __init__(self, path: Path, outputs: Sequence[Gpio]) -> None:
        self._path = path
        self._start = trio.current_time()
        self._file = path.open("w", encoding="ascii")
        self._writer = VCDWriter(self._file, timescale="1 ns", version="aisrv", date="", check_values=False)
        self._recording = True
        for number, gpio in enumerate(outputs):
            variables = [
                self._writer.register_var(f"engine{number}", f"led{led}", "wire", 1, init=int(level))
                for led, level in enumerate(gpio.levels)
            ]
            gpio.observe(partial(self._record, variables))
        self._flush()

    def close(self) -> None:
        """End the recording at the present time; what comes later is not recorded."""
        if self._recording:
            self._recording = False
            try:
                self._writer.close(self._now())
                self._file.close()
            except OSError as error:
                self._fail(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _record(self, variables: Sequence[Variable[Any]], levels: Levels) -> None:
        if self._recording:
            now = self._now()
            try:
                for variable, level in zip(variables, levels, strict=True):
                    self._writer.change(variable, now, int(level))
            except OSError as error:
                self._fail(error)
        self._flush()

    def _flush(self) -> None:
        if self._recording:
            try:
                self._writer.flush()
            except OSError as error:
                self._fail(error)

    def _now(self) -> int:
        return round((trio.current_time() - self._start) * SECOND)

    def _fail(self, error: OSError) -> None:
        self._recording = False
        logger.error("%s: %s; the recording ends here", self._path, error.strerror)
        with suppress(OSError):  # of the rest in its buffer
            self._file.close()
