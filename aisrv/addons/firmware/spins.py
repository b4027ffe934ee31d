"""Cores of a program in C that wait in a loop until a callback or another core changes memory.

The program itself sees the change, as only its own code makes one: then such a core asks for its next verb.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from aisrv.addons.firmware.code_places import in_lines, lines_of
from aisrv.xcore.core import Core
from aisrv.xcore.runtime import Parking, Runtime


class Spin:
    """Where a core sleeps that is in such a loop."""

    def __init__(self, runtime: Runtime, program: Path, others: Callable[[], Sequence[Core]]) -> None:
        """Sleep in a program; `others` are the cores that run it, too."""
        self._parking: Final[Parking[None]] = runtime.parking(runtime)
        self._program = program
        self._others = others
        self._frames: Sequence[int] = ()
        self.name: Final = "memory"

    async def wait(self, frames: Sequence[int]) -> None:
        """Sleep until `end`; `frames` are where the loop is."""
        self._frames = frames
        await self._parking.park("spin", self)

    def end(self) -> None:
        """Let the core go on."""
        self._parking.wake(None)

    def wakers(self) -> Sequence[Core]:
        """Return the cores that could change memory."""
        return self._others()

    def explain_wait(self) -> str:
        """Say where the loop is."""
        return f"until it changes{in_lines(lines_of(self._program, self._frames))}"
