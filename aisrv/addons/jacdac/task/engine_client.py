"""A Model Runner's client of its engine: jobs become commands on a channel end.

Each engine has two tasks here: one runs jobs in order, one takes the engine's notifications. The bus waits
for neither.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from aisrv.addons.jacdac.task.engine_jobs import (
    BootJob,
    Job,
    LoadJob,
    LoadResult,
    ModelState,
    RunJob,
    RunResult,
)
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import MODEL_CHANGED, get_command, set_command, take_notification
from aisrv.protocol.memory_map import MemoryMap
from aisrv.protocol.tensor_descriptions import TensorDescriptions
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.mutex import Mutex
from aisrv.xcore.signal import Signal
from aisrv.xcore.tokens import WORD_BYTES

ModelListener = Callable[[ModelState, str], None]
"""Takes a model that another client has set, or the error if it failed to load."""


Post = Callable[[Callable[[], None]], None]
"""Schedules a function on the task that serves the bus."""


class ModelStore(Protocol):
    """Persistent storage of an engine's model: its part of a flash."""

    @property
    def boots(self) -> bool:
        """Return whether a reset loads the stored model."""

    async def room(self) -> int:
        """Return the size of the largest model that fits, in bytes."""

    async def save(self, model: bytes) -> str:
        """Store a model, or delete it if `model` is empty; return an error, or an empty text."""


class EngineClient:
    """Carries out the jobs of one Model Runner."""

    def __init__(
        self,
        commands: ChanEnd,
        changes: ChanEnd,
        store: ModelStore | None = None,
        *,
        reference_mhz: float = 100,
    ) -> None:
        self._reference_mhz = reference_mhz
        self._commands = commands
        self._changes = changes
        self._store = store
        self._jobs: deque[Job] = deque()
        self._submitted = Signal(commands.runtime, "jobs of a Model Runner")
        self._changed = False
        self._lock = Mutex(commands.runtime, f"client at {commands.name}")

    def submit(self, job: Job) -> None:
        """Queue a job. Model Runners bound how many there can be."""
        self._jobs.append(job)
        self._submitted.set()

    async def describe(self) -> ModelState:
        """Ask for the engine's model and its room for one."""
        async with self._lock:
            return await self._describe()

    async def run(self, post: Post) -> None:
        """Run jobs until cancelled; results go to `post`."""
        while True:
            await self._submitted.wait()
            while self._jobs:
                await self._carry_out(self._jobs.popleft(), post)

    async def _carry_out(self, job: Job, post: Post) -> None:
        match job:
            case LoadJob():
                post(partial(job.done, await self._load(job.model)))
            case BootJob():
                post(partial(job.done, await self._boot()))
            case RunJob():
                await self._infer(post, job)

    async def watch(self, post: Post, listener: ModelListener) -> None:
        """Report models that other clients set, by `post`, until cancelled."""
        while True:
            if await take_notification(self._changes) != MODEL_CHANGED:
                continue
            self._changed = True
            async with self._lock:
                if not self._changed:
                    continue  # it was the change of a job, which asks by itself
                self._changed = False
                state = await self._describe()
                error = "" if state.is_loaded else await self._last_words()
            post(partial(listener, state, error))

    async def _load(self, model: bytes) -> LoadResult:
        async with self._lock:
            status = await set_command(self._commands, Command.SET_MODEL_ARENA, 0, model)
            result = await self._result(status)
        if self._store is None:
            return result
        problem = await self._store.save(b"" if result.error else model)
        return LoadResult(result.state, result.error or problem)

    async def _boot(self) -> LoadResult:
        async with self._lock:
            if self._store is None or not self._store.boots:
                return LoadResult(await self._describe())
            return await self._result(await set_command(self._commands, Command.SET_MODEL_ARENA_FLASH))

    async def _result(self, status: Status) -> LoadResult:
        await self._commands.runtime.let_others_run()  # for the notification, which came before the status
        self._changed = False
        error = "" if status is Status.OKAY else await self._last_words()
        return LoadResult(await self._describe(), error)

    async def _infer(self, post: Post, job: RunJob) -> None:
        async with self._lock:
            if not job.is_wanted():
                return
            result = await self._run_once(job.tensor)
        post(partial(job.done, result))

    async def _run_once(self, tensor: bytes) -> RunResult:
        c = self._commands
        for command, data in ((Command.SET_INPUT_TENSOR, tensor), (Command.START_INFER, b"")):
            if await set_command(c, command, 0, data):
                return RunResult(error=await self._last_words())
        status, output = await get_command(c, Command.GET_OUTPUT_TENSOR)
        timed, timings = await get_command(c, Command.GET_TIMINGS)
        if status or timed:
            return RunResult(error=await self._last_words())
        ticks = sum(
            int.from_bytes(timings[at : at + WORD_BYTES], "little")
            for at in range(0, len(timings), WORD_BYTES)
        )
        return RunResult(output, int(ticks / self._reference_mhz))

    async def _describe(self) -> ModelState:
        memory = MemoryMap.from_bytes(await self._get(Command.GET_MEMORY))
        tensors = TensorDescriptions.from_bytes(await self._get(Command.GET_TENSORS))
        room = memory.arena_bytes
        if self._store is not None:
            room = min(room, await self._store.room())
        return ModelState(memory.model_bytes, memory.head_bytes + memory.tail_bytes, room, tensors)

    async def _get(self, command: Command) -> bytes:
        _, data = await get_command(self._commands, command)
        return data

    async def _last_words(self) -> str:
        """Return the last line of the engine's log."""
        text = (await self._get(Command.GET_DEBUG_LOG)).rstrip(b"\0").decode(errors="replace").strip()
        return text.rpartition("\n")[2] or "the engine gave no reason"
