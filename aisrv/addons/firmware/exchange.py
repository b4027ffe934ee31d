"""When the results of cores go to their program in C, and its requests come back.

Where several cores have a result in the same pass of the scheduler, all go in one message. Source: "Firmware
in C on the substrate", The design.
"""

from collections.abc import Callable, Sequence
from typing import Final

import trio

from aisrv.addons.firmware.records import ASK_WHERE, Place, RecordError, Request, read_requests, result
from aisrv.addons.firmware.tile_process import ProgramEnded, TileProcess

Lost = ProgramEnded | RecordError
"""Why a program takes no more results: it is gone, or writes no requests."""


class Exchange:
    """Lets a program run with results, and gives its requests on."""

    def __init__(
        self,
        process: TileProcess,
        *,
        is_live: bool,
        others_run: Callable[[], bool],
        take: Callable[[Sequence[Request]], None],
        lose: Callable[[Lost], None],
    ) -> None:
        """Exchange messages with a process.

        While it runs, a live one lets other tasks run; else time stands still. `others_run` says whether a
        core but the running one is about to have a result; `take` is given the requests, and may raise
        RecordError; `lose` is told of the program's end.
        """
        self.is_live: Final = is_live
        self._process: Final = process
        self._others_run, self._take, self._lose = others_run, take, lose
        self._results: list[bytes] = []
        self._count = 0  # in which results have gone to the program
        self._pass: trio.Event | None = None

    async def give(self, answer: bytes) -> None:
        """Give a result to the program, and wait until its cores have asked for their next verbs."""
        self._results.append(answer)
        count = self._count
        while self._count == count:
            if self._pass is not None:
                await self._pass.wait()
            elif self._others_run():
                self._pass = trio.Event()
                try:
                    await trio.lowlevel.cancel_shielded_checkpoint()
                    await self._run()
                finally:
                    self._pass_ends()
            else:
                await self._run()

    def give_alone(self, answer: bytes) -> None:
        """Give the result of the only core, and take its next request. Blocks: not for a live one."""
        self._results.append(answer)
        self._run_blocking()

    def where(self, core: int) -> tuple[int, ...]:
        """Ask the program for the frames of a coroutine that sleeps in a verb, the innermost first."""
        if self._process.is_running:
            return ()
        try:
            self._process.give([result(core | ASK_WHERE, 0, 0)])
            places = [Place.from_bytes(request.data) for request in read_requests(self._process.take_soon())]
            return places[0].frames if places else ()
        except (ProgramEnded, RecordError):
            return ()

    def _pass_ends(self) -> None:
        passed, self._pass = self._pass, None
        if passed is not None:
            passed.set()

    async def _run(self) -> None:
        """Let the program run with the results that are there, and take its requests."""
        if not self.is_live:
            self._run_blocking()
            return
        try:
            if self._pass is None:
                self._pass = trio.Event()
            try:
                if self._process.is_running:  # it has just been started
                    await self._process.answered()
                    self._process.take()
                self._give_results()
                if not self._process.has_answered():
                    await self._process.answered()
            finally:
                self._pass_ends()
            self._take(read_requests(self._process.take()))
        except (ProgramEnded, RecordError) as error:
            self._lose(error)

    def _run_blocking(self) -> None:
        try:
            self._give_results()
            self._take(read_requests(self._process.take()))
        except (ProgramEnded, RecordError) as error:
            self._lose(error)

    def _give_results(self) -> None:
        results, self._results = self._results, []
        self._count += 1
        self._process.give(results)
