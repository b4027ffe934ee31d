"""A run on several virtual devices at once: each is a process, with a thread here that talks to it.

The host library waits for each answer, so that several devices need several threads. Which examples are next
and what became of them is kept in Trio's thread alone.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Final

import trio

from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.inputs.preparation import Preparation
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.evaluate.running.device_run import BATCH, open_server, run_on_device
from aisrv.values.heeded_signals import heeded


class DevicesRun:
    """One run over what is missing of the answers."""

    def __init__(
        self,
        address: str,
        count: int,
        model: bytes,
        data: DataSet,
        preparation: Preparation,
        answers: Answers,
        outputs: int,
        on_batch: Callable[[int, int], None],
    ) -> None:
        """Take where the `count` devices are opened, what runs on them, and where answers go.

        `outputs` are the model's; `on_batch` is called with the first example of each batch that is done, and
        the one after its last.
        """
        self._address = address
        self._count = count
        self._model = model
        self._data = data
        self._preparation = preparation
        self._answers = answers
        self._output_bytes: Final = answers.outputs.shape[1]
        self._outputs = outputs
        self._on_batch = on_batch
        self._ranges: Final = _ranges(answers)
        self.was_stopped = False
        """Whether Ctrl-C ended it early."""
        self.was_killed = False
        """Whether a second one ended it at once."""
        self._error: EvaluateError | None = None

    async def run(self) -> None:
        """Run all that is missing; DeviceError.

        A first Ctrl-C ends it with the batches in flight, a second one at once.
        """
        async with trio.open_nursery() as nursery:
            if threading.current_thread() is threading.main_thread():
                nursery.start_soon(self._watch_interrupts, nursery.cancel_scope)
            async with trio.open_nursery() as devices:
                for _ in range(self._count):
                    devices.start_soon(self._run_device)
            nursery.cancel_scope.cancel()
        if self._error is not None:
            raise self._error

    async def _watch_interrupts(self, scope: trio.CancelScope) -> None:
        if not (numbers := heeded(signal.SIGINT)):
            return
        with trio.open_signal_receiver(*numbers) as signals:
            async for _ in signals:
                if self.was_stopped:
                    self.was_killed = True
                    scope.cancel()
                    return
                self.was_stopped = True

    async def _run_device(self) -> None:
        try:
            await trio.to_thread.run_sync(self._talk, abandon_on_cancel=True)
        except EvaluateError as error:  # the others end with the batches in flight
            self._error = self._error or error

    def _talk(self) -> None:
        """Serve one device, in a thread of its own."""
        with open_server(self._address, self._model) as server:
            while (bounds := trio.from_thread.run_sync(self._next)) is not None:
                first, end = bounds
                part = Answers(end - first, self._output_bytes, end - first, files=bool(self._data.files))
                run_on_device(server, self._data, self._preparation, part, self._outputs, _ignored, first)
                trio.from_thread.run_sync(self._collect, first, end, part)

    def _next(self) -> tuple[int, int] | None:
        bounds = None if self.was_stopped or self._error else next(self._ranges, None)
        if bounds is not None:
            self._answers.begin(*bounds)
        return bounds

    def _collect(self, first: int, end: int, part: Answers) -> None:
        self._answers.take(first, part, 0, end - first)
        self._on_batch(first, end)


def _ignored(_first: int, _end: int) -> None:
    """Examples of a batch are counted together."""


def _ranges(answers: Answers) -> Iterator[tuple[int, int]]:
    """Yield what is missing in ranges of BATCH examples at most."""
    for first, end in answers.missing():
        for start in range(first, end, BATCH):
            yield start, min(start + BATCH, end)
