"""A client of an AI engine for the nodes of a graph: inferences over a channel end, one after the other."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import trio

from aisrv.addons.graph.nodes.inference import EngineTensor, Job
from aisrv.addons.graph.nodes.samples import FP32, S8, S16, S32, U8
from aisrv.model.values import TensorType
from aisrv.protocol.commands import Command, Spec, Status
from aisrv.protocol.engine_channel import MODEL_CHANGED, get_command, set_command, take_notification
from aisrv.protocol.tensor_descriptions import TensorDescription, TensorDescriptions
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.verb import Steps
from aisrv.xcore.signal import Signal
from aisrv.xcore.tokens import WORD_BYTES

_RAW_TYPES: Final = {
    TensorType.INT8: S8,
    TensorType.UINT8: U8,
    TensorType.INT16: S16,
    TensorType.INT32: S32,
    TensorType.FLOAT32: FP32,
}
logger = logging.getLogger(__name__)

MOST_TENSORS: Final = 8
"""Tensors of each kind whose length is asked for."""


class EngineClient:
    """Runs the jobs of nodes on one engine. `finished` holds those that are over, for the shell."""

    def __init__(self, number: int, end: ChanEnd, changes: ChanEnd | None = None) -> None:
        """Take the number of the engine, a channel end that is its client, and one for its notifications."""
        self.number: Final = number
        self.finished: Final[deque[Job]] = deque()
        self.models = 0
        """Number of models with other tensors than the model before; no model counts as one."""
        self.busy = False
        self._end = end
        self._changes = changes
        self._changed = True
        self._jobs: deque[Job] = deque()
        self._work = Signal(end.runtime, "jobs of a graph")
        self.inputs: tuple[EngineTensor, ...] = ()
        self.outputs: tuple[EngineTensor, ...] = ()
        """Tensors as of the last `look`."""
        self._seen: object = None

    @property
    def at_rest(self) -> bool:
        """Return whether it has nothing to do: no job, and no unknown model."""
        return not (self.busy or self._jobs or self._changed)

    async def look(self) -> None:
        """Ask for the tensors; an engine without a model has none."""
        self._changed = False
        status, data = await get_command(self._end, Command.GET_SPEC)
        spec = Spec.from_bytes(data) if status is Status.OKAY else Spec()
        inputs = await self._lengths(Command.GET_INPUT_TENSOR_LENGTH, spec.input_bytes)
        outputs = await self._lengths(Command.GET_OUTPUT_TENSOR_LENGTH, spec.output_bytes)
        tensors = TensorDescriptions()
        if inputs:
            status, data = await get_command(self._end, Command.GET_TENSORS)
            if status is Status.OKAY:
                tensors = TensorDescriptions.from_bytes(data)
        self.inputs, self.outputs = _tensors(inputs, tensors.inputs), _tensors(outputs, tensors.outputs)
        if self._seen != (inputs, outputs, tensors):
            self._seen = inputs, outputs, tensors
            self.models += 1
            self._jobs.clear()

    async def _lengths(self, command: Command, total: int) -> list[int]:
        """Ask for the tensors that make up a total, and no further: hosts would see errors that are none."""
        lengths: list[int] = []
        while sum(lengths) < total and len(lengths) < MOST_TENSORS:
            status, data = await get_command(self._end, command, len(lengths))
            if status is not Status.OKAY or len(data) != WORD_BYTES:
                break
            lengths.append(int.from_bytes(data, "little"))
        return lengths

    def submit(self, job: Job) -> None:
        self._jobs.append(job)
        self._work.set()

    async def serve(self, wake: Callable[[], None]) -> None:
        """Run jobs, and look at new models, until cancelled; `wake` is called after each."""
        async with trio.open_nursery() as nursery:
            if self._changes is not None:
                self._end.runtime.start_task(nursery, self._watch, self._changes)
            while True:
                while not self._jobs and not self._changed:
                    await self._work.wait()
                if self._changed:
                    self.busy = True
                    await self.look()
                    self.busy = False
                else:
                    self.busy = True
                    job = self._jobs.popleft()
                    await self._infer(job)
                    self.busy = False
                    self.finished.append(job)
                wake()

    async def _watch(self, changes: ChanEnd) -> None:
        """Take the engine's notifications, each at the moment at which the engine sends it."""
        while True:
            await changes.run_verb("take_notification", self._take_notification(changes))

    def _take_notification(self, changes: ChanEnd) -> Steps[None]:
        if (yield from take_notification(changes)) == MODEL_CHANGED:
            self._changed = True
            self._work.set()

    async def _infer(self, job: Job) -> None:
        status = await set_command(self._end, Command.SET_INPUT_TENSOR, job.input_tensor, job.frame)
        if status is Status.OKAY:
            status = await set_command(self._end, Command.START_INFER)
        if status is Status.OKAY:
            status, job.output = await get_command(self._end, Command.GET_OUTPUT_TENSOR, job.output_tensor)
        if status is not Status.OKAY:
            job.error = status.name or f"status {int(status):#x}"


def _tensors(sizes: Sequence[int], described: Sequence[TensorDescription]) -> tuple[EngineTensor, ...]:
    return tuple(EngineTensor(size, _raw_type(described, number)) for number, size in enumerate(sizes))


def _raw_type(tensors: Sequence[TensorDescription], number: int) -> int | None:
    kind = tensors[number].type if number < len(tensors) else None
    return _RAW_TYPES.get(TensorType(kind)) if kind in tuple(TensorType) else None
