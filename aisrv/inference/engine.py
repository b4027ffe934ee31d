"""The inference engine: the calls of the firmware's API on one model at a time.

    initialize              InferenceEngine(...)
    load_model              InferenceEngine.load_model
    unload_model            InferenceEngine.unload_model
    interp_invoke           InferenceEngine.invoke
    print_profiler_summary  InferenceEngine.print_profiler_summary

Source: the design document, section Inference Engine; for limits and timings "Inference engines". What a run
leaves of its inputs is the interpreter's affair: some keep them, some reuse their memory, as a device does. A
host that works with all of them writes its inputs before every run.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

import trio
from msgspec import Struct
from msgspec.structs import replace

from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import InPlaceModel, LogSink, ModelBytes, TensorLayout
from aisrv.inference.parameters import (
    ParameterLoad,
    ParameterSource,
    ParameterTraffic,
    parameter_bytes,
    parameter_loads,
    read_parameters,
)
from aisrv.inference.timings import (
    DeviceModel,
    Memory,
    OperatorTime,
    Total,
    estimate_note,
    profiler_summary,
    to_words,
    total_of,
)
from aisrv.model import LoadResult, Model, ModelFileError, Tensor
from aisrv.protocol.engine_kind import EngineKind
from aisrv.protocol.memory_map import MemoryMap, ModelMemory
from aisrv.protocol.timing_bands import TickBand, TimingBands
from aisrv.xcore.runtime import let_others_run

T = TypeVar("T")

FREED_AT_ONCE: Final = 4096
"""Values of a model that are freed in one go."""


class Runner(Protocol):
    """Executes one model: `IsolatedInterpreter` or `InlineInterpreter`."""

    @property
    def layout(self) -> TensorLayout:
        """Sizes of the loaded model's tensors."""

    def input(self, number: int) -> memoryview:
        """Return the memory of an input, from which the next run starts."""

    def output(self, number: int) -> memoryview:
        """Return the memory of an output."""

    async def compute(self, function: Callable[[], T]) -> T:
        """Call a function that computes with the model, for long if the model is large."""

    async def load(self, model: ModelBytes, arena_bytes: int, in_place: InPlaceModel | None = None) -> None:
        """Load a model file into `arena_bytes`, or let it run from `in_place`. Raises ModelError."""

    async def invoke(self) -> None:
        """Run the model once. Raises InvokeError."""

    async def invoke_counted(self) -> int:
        """Run a model that runs in place; return the lines filled of the cache before its storage."""

    async def reset_variables(self) -> None:
        """Have the next `invoke` start with the variables of a model that was just loaded."""

    async def close(self) -> None:
        """Unload the model."""


RunnerFactory = Callable[[LogSink], Runner]
"""Creates a runner without a model; the argument takes the text that the interpreter prints."""


class Fallback(NamedTuple):
    """Runner of models that the engine's own interpreter has no code for."""

    kind: EngineKind
    runner: RunnerFactory


class Runners(Protocol):
    """Creates runners of every kind: `isolated`, `inline`, or `WorkerPool.isolated`."""

    def __call__(self, log: LogSink, /, *, kind: EngineKind = ...) -> Runner:
        """Create a runner without a model; EngineKindError for a kind without an interpreter."""


class _ExaminedModel(Struct, frozen=True):
    """All results of reading a model's file."""

    model: Model
    memory_map: MemoryMap
    parameter_loads: tuple[ParameterLoad, ...]
    operator_times: tuple[OperatorTime, ...]
    timings: tuple[int, ...]
    """Words of GET_TIMINGS after a run."""
    timing_bands: bytes
    """Answer of GET_TIMING_BANDS."""
    total: Total
    labels: tuple[str, ...]
    note: str
    """Remark on the times; empty for none."""


class _LoadedModel(_ExaminedModel, frozen=True):
    """A model and its runner."""

    runner: Runner
    fallback: EngineKind | None
    """Fallback that runs it; None for the engine's own interpreter."""
    in_place: InPlaceModel | None


class InferenceEngine:
    """Loads and runs one model at a time, with the memory and the timings of a modeled device.

    `arena_bytes` and `external_bytes` are the sizes of its two memories; `number` is a tensor's.
    """

    def __init__(
        self,
        runner: RunnerFactory,
        *,
        arena_bytes: int,
        external_bytes: int,
        device: DeviceModel | None = None,
        parameters: ParameterSource | None = None,
        fallback: Fallback | None = None,
        log: LogSink = lambda _text: None,
    ) -> None:
        """Create an engine without a model; `log` gets what interpreters print, for the debug log.

        `parameters` is the flash from which a model's operators load; None refuses models that do. `fallback`
        runs models that the interpreter has no code for; None refuses them.
        """
        self._make_runner = runner
        self.arena_bytes: Final = arena_bytes
        """Memory for tensors, and for a model in ARENA memory."""
        self.external_bytes: Final = external_bytes
        """Memory for a model in EXT memory."""
        self._device = device or DeviceModel()
        self._parameters = parameters
        self._fallback = fallback
        self._log = log
        self._loaded: _LoadedModel | None = None
        self._host_seconds: float | None = None
        self.before_run: Callable[[], object] | None = None
        """Called before each run, whose inputs are still there; None, unless somebody looks."""
        self._parameter_traffic = ParameterTraffic()

    @property
    def is_ready(self) -> bool:
        """Return whether there is something to run."""
        return self._loaded is not None

    @property
    def model(self) -> Model | None:
        """Loaded model; None if no model is loaded."""
        return None if self._loaded is None else self._loaded.model

    @property
    def fallback(self) -> EngineKind | None:
        """Fallback that runs the loaded model; None for the engine's own interpreter."""
        return None if self._loaded is None else self._loaded.fallback

    @property
    def memory_map(self) -> MemoryMap | None:
        """Places of the loaded model and its tensors in the device's memory."""
        return None if self._loaded is None else self._loaded.memory_map

    @property
    def operator_times(self) -> tuple[OperatorTime, ...]:
        """Predicted time of each operator of the loaded model, in order."""
        return () if self._loaded is None else self._loaded.operator_times

    @property
    def total(self) -> Total | None:
        """Predicted time of a run with its band; None without a model."""
        return None if self._loaded is None else self._loaded.total

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the loaded model's classes, as far as its file has them."""
        return () if self._loaded is None else self._loaded.labels

    @property
    def input_count(self) -> int:
        """Number of input tensors, 0 without a model."""
        return len(self._loaded.model.inputs) if self._loaded else 0

    @property
    def output_count(self) -> int:
        """Number of output tensors, 0 without a model."""
        return len(self._loaded.model.outputs) if self._loaded else 0

    def input(self, number: int) -> memoryview:
        """Return the bytes of an input tensor, which `invoke` uses and may overwrite. Raises IndexError."""
        if self._loaded is None:
            raise IndexError(f"no input {number}: no model is loaded")
        if number >= self.input_count:  # there may be one more: the parameters
            raise IndexError(f"no input {number}: the model has {self.input_count}")
        return self._loaded.runner.input(number)

    def output(self, number: int) -> memoryview:
        """Return the bytes of an output tensor, zeros before the first run. Raises IndexError."""
        if self._loaded is None:
            raise IndexError(f"no output {number}: no model is loaded")
        return self._loaded.runner.output(number)

    @property
    def timings(self) -> tuple[int, ...]:
        """Ticks of each operator of the last run on the modeled device; zeros before it.

        A tick is one of the board's reference clock, 10 ns unless a board file says otherwise.
        """
        if self._loaded is None:
            return ()
        if self._host_seconds is None:
            return (0,) * len(self._loaded.timings)
        return self._loaded.timings

    @property
    def timing_bands(self) -> bytes:
        """Seconds that this host took for the last run, None before the first; not the device's time."""
        if self._loaded is None:
            return bytes(TimingBands(round(self._device.tick_mhz * 1e6)))
        return self._loaded.timing_bands

    @property
    def host_seconds(self) -> float | None:
        """Seconds of the last run on this host, None before the first; says nothing about the device."""
        return self._host_seconds

    @property
    def parameter_traffic(self) -> ParameterTraffic:
        """Flash traffic of the last run for parameters; none before the first."""
        return self._parameter_traffic

    async def load_model(
        self, model: ModelBytes, memory: ModelMemory, in_place: InPlaceModel | None = None
    ) -> None:
        """Load a model file as if it were put in `memory`, in place of the previous one. Raises ModelError.

        One that runs `in_place` takes none of the memory; it is closed when it is unloaded, or fails to load.
        On a device the new model overwrites the old one, so after an error, or when cancelled, there is no
        model.
        """
        try:
            await self.unload_model()
            examined, runner, fallback = await self._load(model, memory, in_place)
        except BaseException:
            if in_place is not None:
                in_place.close()
            raise
        self._loaded = _LoadedModel(
            examined.model,
            examined.memory_map,
            examined.parameter_loads,
            examined.operator_times,
            examined.timings,
            examined.timing_bands,
            examined.total,
            examined.labels,
            examined.note,
            runner,
            fallback,
            in_place,
        )
        if examined.note:
            self._log(examined.note)

    async def _load(
        self, model: ModelBytes, memory: ModelMemory, in_place: InPlaceModel | None
    ) -> tuple[_ExaminedModel, Runner, EngineKind | None]:
        """Load a model on the engine's interpreter or its fallback; return also which."""
        runner, fallback = self._make_runner(self._log), None
        try:
            size = len(model) if in_place is None else 0
            examined = await runner.compute(partial(self._examine, model, size, memory))
            arena_bytes = examined.memory_map.tensor_arena.size
            try:
                await runner.load(model, arena_bytes, in_place)
            except ModelError as refusal:
                fallback = None if in_place is not None else self._fallback
                if fallback is None or refusal.load_result is not LoadResult.UNSUPPORTED:
                    raise
                await _close(runner)
                runner = fallback.runner(self._log)
                await _load_instead(runner, fallback.kind, model, arena_bytes, refusal)
                self._log(f"{refusal}; {fallback.kind} runs it\n")
            _check_layout(examined.model, parameter_bytes(examined.parameter_loads), runner.layout)
            if in_place is not None and in_place.changes:
                raise ModelError("the model was overwritten where it is stored while it was loaded")
        except BaseException:
            await _close(runner)
            raise
        return examined, runner, None if fallback is None else fallback.kind

    def _examine(self, model: ModelBytes, size: int, memory: ModelMemory) -> _ExaminedModel:
        """Read and check a model of `size` bytes, place it and estimate its times, maybe on a thread."""
        from aisrv.inference.placement import arena_need, check_tensor_counts, place_model
        from aisrv.inference.timings.estimation import estimate_times
        from aisrv.model.labels import labels_of

        parsed = _parse(model)
        check_tensor_counts(parsed)
        memory_map = place_model(size, arena_need(parsed), self.arena_bytes, self.external_bytes, memory)
        loads = parameter_loads(parsed)
        if loads and self._parameters is None:
            raise ModelError(f"{len(loads)} operators load parameters from flash: the engine has none")
        parameters = Memory.EXTERNAL if memory is ModelMemory.EXT and size else Memory.INTERNAL
        device = replace(self._device, parameters=parameters)
        times = estimate_times(device, parsed)
        total = total_of(times, device, parsed)
        note = estimate_note(times, total)
        return _ExaminedModel(
            parsed,
            memory_map,
            loads,
            times,
            to_words(times),
            bytes(_bands_of(times, total)),
            total,
            labels_of(model),
            note,
        )

    async def unload_model(self) -> None:
        """Unload the model, if there is one."""
        loaded, self._loaded = self._loaded, None
        self._host_seconds = None
        self._parameter_traffic = ParameterTraffic()
        if loaded is None:
            return
        await _close(loaded.runner)
        if loaded.in_place is not None:
            loaded.in_place.close()
        values = [*loaded.model.operators, *loaded.model.tensors, *loaded.operator_times]
        del loaded
        while values:  # at once they would take long where they are many
            del values[-FREED_AT_ONCE:]
            with trio.CancelScope(shield=True):
                await let_others_run()

    async def invoke(self) -> None:
        """Run the model once on its inputs as they are. Raises InvokeError.

        The model stays loaded whatever happens, with inputs, outputs and timings as they were; if its process
        died, the next `invoke` starts a new one.
        """
        loaded = self._loaded
        if loaded is None:
            raise InvokeError("no model is loaded")
        if loaded.parameter_loads:
            await self._load_parameters(loaded)
        if self.before_run is not None:
            self.before_run()
        start = time.perf_counter()
        await self._run(loaded.runner, loaded.in_place)
        self._host_seconds = time.perf_counter() - start

    async def _run(self, runner: Runner, _in_place: InPlaceModel | None) -> None:
        await runner.invoke()

    async def _load_parameters(self, loaded: _LoadedModel) -> None:
        """Read what the operators load from flash into the interpreter; a device does so during the run."""
        if self._parameters is not None and loaded.parameter_loads:
            memory = loaded.runner.input(len(loaded.model.inputs))
            await read_parameters(loaded.parameter_loads, self._parameters, memory)
            self._parameter_traffic = ParameterTraffic.of(loaded.parameter_loads)

    async def reset_variables(self) -> None:
        """Return the times of the last run on the modeled device by operator and class, and on this host."""
        if self._loaded is not None and self._loaded.model.has_variables:
            await self._loaded.runner.reset_variables()

    async def operator_names(self) -> bytes:
        """Return the names of the operators, a zero byte behind each; nothing without a model."""
        if self._loaded is None:
            return b""
        names = (operator.name for operator in self._loaded.model.operators)
        return await self._loaded.runner.compute(
            lambda: b"".join(name.encode(errors="replace") + b"\0" for name in names)
        )

    async def print_profiler_summary(self) -> str:
        """Return what the last run took on the modeled device, by operator and by class, and on this host."""
        if self._loaded is None:
            return "No model is loaded.\n"
        if self._host_seconds is None:
            return "The model has not run yet.\n"
        times, total, seconds = self._loaded.operator_times, self._loaded.total, self._host_seconds
        summary = await self._loaded.runner.compute(partial(profiler_summary, times, total))
        return f"{summary}\nThis host took {1000 * seconds:.3f} ms.\n"


async def _load_instead(
    runner: Runner, kind: EngineKind, model: ModelBytes, arena_bytes: int, refusal: ModelError
) -> None:
    """Load a model that another interpreter refused; the ModelError has both reasons."""
    try:
        await runner.load(model, arena_bytes)
    except ModelError as error:
        raise ModelError(f"{refusal}; on {kind}: {error}", error.load_result) from error


def _bands_of(times: Sequence[OperatorTime], total: Total) -> TimingBands:
    bands = tuple(TickBand(time.low, time.high) for time in times)
    return TimingBands(round(total.tick_mhz * 1e6), TickBand(total.low, total.high), bands)


async def _close(runner: Runner) -> None:
    with trio.CancelScope(shield=True):
        await runner.close()


def _parse(model: ModelBytes) -> Model:
    from aisrv.model.relocatable.model import read_loadable  # which a device without a model does not need

    try:
        return read_loadable(model)
    except ModelFileError as error:
        raise ModelError.of(error) from error


def _check_layout(model: Model, parameters: int, layout: TensorLayout) -> None:
    """Raise ModelError if the interpreter has tensors of other sizes than the file, and so the device.

    An interpreter of models with `parameters` bytes in flash has them as its last input.
    """
    inputs = layout.inputs
    if parameters:
        *first, last = inputs or (0,)
        if last != parameters:
            raise ModelError(f"the operators load {parameters} bytes from flash, the interpreter has {last}")
        inputs = tuple(first)
    _check_sizes("input", model.input_tensors, inputs)
    _check_sizes("output", model.output_tensors, layout.outputs)


def _check_sizes(kind: str, tensors: tuple[Tensor, ...], sizes: tuple[int, ...]) -> None:
    if len(tensors) != len(sizes):
        raise ModelError(f"the file has {len(tensors)} {kind}s, the interpreter {len(sizes)}")
    for number, (tensor, size) in enumerate(zip(tensors, sizes, strict=True)):
        if tensor.nbytes != size:
            raise ModelError(
                f"{kind} {number} has {tensor.nbytes} bytes in the file, {size} in the interpreter: "
                "sizes that change while a model runs are not supported"
            )
