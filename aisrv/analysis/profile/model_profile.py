"""The profile of one model on one configuration of the device."""

from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from aisrv.analysis.profile.errors import ProfileError
from aisrv.analysis.profile.host import HostTime
from aisrv.board import DEFAULT_ARENA, DEFAULT_EXTERNAL
from aisrv.inference.errors import ModelError
from aisrv.inference.memory import arena_need, check_tensor_counts, place_model
from aisrv.inference.timings import (
    FLASH_LOADS,
    MAX_THREADS,
    Basis,
    DeviceModel,
    OperatorClass,
    OperatorTime,
    estimate_share,
    operator_classes,
    used_constant_bytes,
)
from aisrv.inference.timings.estimation import estimate_times
from aisrv.model import Model, ModelFileError
from aisrv.printable import printable
from aisrv.protocol.commands import TICKS_PER_SECOND
from aisrv.protocol.memory_map import ModelMemory
from aisrv.relocatable.model import read_loadable

NAME_LIMIT: Final = 100
"""Characters of a name that are shown."""
CLOCKS_MHZ: Final = (600, 700, 800)
"""Core clocks for which times are predicted."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A device to profile on: what decides on time, and the memory of its engine in bytes."""

    device: DeviceModel = field(default_factory=DeviceModel)
    """What decides on time."""
    arena_bytes: int = DEFAULT_ARENA
    """Bytes of the engine's tensor arena."""
    external_bytes: int = DEFAULT_EXTERNAL
    """Bytes of the engine's external memory."""
    name: str = ""
    """What reports call it."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Ticks of one inference with a number of threads at a core clock."""

    threads: int
    """Threads of the inference."""
    clock_mhz: int
    """Core clock in MHz."""
    ram_ticks: int
    """With all parameters in memory."""
    flash_ticks: int
    """With the parameters read from flash in every inference."""
    estimate_ticks: int = 0
    """Those of `ram_ticks` that rest on estimates."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Whether a model fits with its file in one of the memories."""

    memory: ModelMemory
    """The memory that the file is in."""
    fits: bool
    """Whether it fits."""
    free: int
    """Bytes of the arena that remain; below 0 what is missing, of the memory that is too small."""
    detail: str
    """Why it does not fit; empty where it does."""


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """Bytes that a model needs: its file, and of the arena the tensors (head) and the interpreter (tail)."""

    model: int
    """The file."""
    head: int
    """The tensors."""
    tail: int
    """An estimate."""
    placements: tuple[Placement, ...]
    """Whether it fits, for each memory."""


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """What one inference of a model takes on a configuration. Ticks are of 10 ns."""

    name: str
    """What reports call it."""
    configuration: Configuration
    """The device."""
    times: tuple[OperatorTime, ...]
    """The time of each operator."""
    classes: tuple[OperatorClass, ...]
    """The time of each kind of operator."""
    memory: MemoryProfile
    """What it takes of the memories."""
    parameters: int
    """Bytes of constants that an inference needs."""
    flash_loads: int
    """Ticks of `times` that operators take to load parameters from flash."""
    predictions: tuple[Prediction, ...]
    """Times for other threads and clocks."""
    host: HostTime | None = None
    """What it took on this host; None where it was not run."""
    model: Model | None = field(default=None, compare=False, repr=False)
    """The model itself, for those who draw it."""

    @property
    def ticks(self) -> int:
        """Ticks of one inference."""
        return sum(time.ticks for time in self.times)

    @property
    def flash_ticks(self) -> int:
        """Ticks of one inference with the parameters read from flash, by the model itself or beforehand."""
        if self.flash_loads:
            return self.ticks
        return self.ticks + round(self.configuration.device.flash_ticks(self.parameters))

    @property
    def estimate_share(self) -> float:
        """Part of the time that rests on estimates, 0 to 1."""
        return estimate_share(self.times)


def milliseconds(ticks: float) -> float:
    """Ticks of 10 ns in ms."""
    return 1000 * ticks / TICKS_PER_SECOND


def profile_model(
    data: bytes, configuration: Configuration | None = None, *, name: str = "model"
) -> ModelProfile:
    """Profile a model file; ProfileError for bytes that are not a model, or that no device could load.

    `data` is the file; `name` is what reports call the model.
    """
    configuration = configuration or Configuration()
    name = printable(name, NAME_LIMIT)
    try:
        model = read_loadable(data)
        check_tensor_counts(model)
        memory = _memory(model, len(data), configuration)
    except (ModelFileError, ModelError) as error:
        raise ProfileError(f"{name}: {printable(str(error), limit=500)}") from error
    times = _estimate(model, configuration.device)
    return ModelProfile(
        name=name,
        configuration=configuration,
        times=times,
        classes=operator_classes(times),
        memory=memory,
        parameters=used_constant_bytes(model),
        flash_loads=_load_ticks(times),
        predictions=_predictions(model, configuration.device),
        model=model,
    )


def _estimate(model: Model, device: DeviceModel) -> tuple[OperatorTime, ...]:
    return tuple(
        replace(time, name=printable(time.name, NAME_LIMIT)) for time in estimate_times(device, model)
    )


def _load_ticks(times: tuple[OperatorTime, ...]) -> int:
    return sum(time.ticks for time in times if time.name in FLASH_LOADS)


def _predictions(model: Model, device: DeviceModel) -> tuple[Prediction, ...]:
    """Predict all clocks and threads. A model that loads its parameters itself is counted as it is."""
    has_loads = any(operator.name in FLASH_LOADS for operator in model.operators)
    extra = 0 if has_loads else round(device.flash_ticks(used_constant_bytes(model)))
    predictions = []
    for clock in CLOCKS_MHZ:
        for threads in range(1, MAX_THREADS + 1):
            times = estimate_times(replace(device, clock_mhz=clock, threads=threads), model)
            total = sum(time.ticks for time in times)
            estimates = sum(
                time.ticks for time in times if time.basis is Basis.ESTIMATE and time.name not in FLASH_LOADS
            )
            predictions.append(
                Prediction(threads, clock, total - _load_ticks(times), total + extra, estimates)
            )
    return tuple(predictions)


def _memory(model: Model, size: int, configuration: Configuration) -> MemoryProfile:
    need = arena_need(model)
    placements = []
    for memory in ModelMemory:
        try:
            placed = place_model(size, need, configuration.arena_bytes, configuration.external_bytes, memory)
        except ModelError as shortage:
            missing = getattr(shortage, "missing", 0)
            placements.append(Placement(memory, fits=False, free=-missing, detail=str(shortage)))
        else:
            free = placed.tensor_arena.size - need.total
            placements.append(Placement(memory, fits=True, free=free, detail=""))
    return MemoryProfile(size, need.head, need.tail, tuple(placements))
