"""The profile of one model on one configuration of the device."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from dataclasses import replace as replace_field
from typing import Final

from msgspec.structs import replace

from aisrv.addons.predict.profile.errors import ProfileError
from aisrv.addons.predict.profile.host import HostTime
from aisrv.board import DEFAULT_ARENA, DEFAULT_EXTERNAL
from aisrv.board.specs import LARGEST_INTERNAL
from aisrv.inference.errors import ModelError
from aisrv.inference.parameters import FLASH_LOADS, used_constants
from aisrv.inference.placement import arena_need, check_tensor_counts, place_model
from aisrv.inference.timings import (
    MAX_THREADS,
    Basis,
    DeviceModel,
    FileGeneration,
    Memory,
    OperatorClass,
    OperatorTime,
    Total,
    basis_shares,
    estimate_share,
    generation_of,
    operator_classes,
    sum_of,
    total_of,
)
from aisrv.inference.timings.estimation import estimate_times, flash_basis
from aisrv.model import Model, ModelFileError
from aisrv.model.relocatable.model import read_loadable
from aisrv.protocol.memory_map import ModelMemory
from aisrv.values.printable import printable
from aisrv.values.settings.size import KIB

NAME_LIMIT: Final = 100
"""Shown characters of a name."""
CLOCKS_MHZ: Final = (600, 700, 800)
"""Core clocks for which times are predicted."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A device to profile on: the parameters of its times, and the memory of its engine in bytes."""

    device: DeviceModel = field(default_factory=DeviceModel)
    arena_bytes: int = DEFAULT_ARENA
    """Bytes of the engine's tensor arena."""
    external_bytes: int = DEFAULT_EXTERNAL
    """Bytes of the engine's external memory."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The time of one inference with a number of threads at a core clock."""

    threads: int
    clock_mhz: int
    ram: Total
    """Total with all parameters in memory."""
    flash: Total
    """Total with the parameters read from flash in every inference."""
    estimate_ticks: int = 0
    """Ticks of `ram` that rest on estimates."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Place of a model's file in one of the memories."""

    memory: ModelMemory
    """Memory of the file."""
    fits: bool
    free: int
    """Bytes of the arena that remain; below 0 the missing bytes of the memory that is too small."""
    detail: str
    """Reason why it does not fit; empty if it does."""


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """Bytes that a model needs: its file, and of the arena the tensors (head) and the interpreter (tail)."""

    model: int
    head: int
    tail: int
    """An estimate."""
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """Time and memory of a model on a configuration. Ticks are of the device's reference clock."""

    name: str
    configuration: Configuration
    """Device, with all that the file decides filled in."""
    generation: FileGeneration
    """Tools that made the file."""
    total: Total
    """Time of an inference, with its band."""
    flash_total: Total
    """Total with the parameters read from flash, by the model itself or beforehand."""
    notes: tuple[str, ...]
    times: tuple[OperatorTime, ...]
    classes: tuple[OperatorClass, ...]
    memory: MemoryProfile
    parameters: int
    """Bytes of constants that an inference needs."""
    flash_loads: Total
    """Part of `times` in which operators load parameters from flash."""
    predictions: tuple[Prediction, ...]
    """Times for other threads and clocks."""
    host: HostTime | None = None
    """Time on this host; None if it was not run."""
    model: Model | None = field(default=None, compare=False, repr=False)

    @property
    def ticks(self) -> int:
        """Ticks of one inference."""
        return self.total.ticks

    @property
    def flash_ticks(self) -> int:
        """Ticks of one inference with the parameters read from flash."""
        return self.flash_total.ticks

    @property
    def slots(self) -> int:
        """Issue slots of all operators of which they are known."""
        return sum(time.slots for time in self.times)

    @property
    def basis_shares(self) -> dict[Basis, float]:
        """Parts of the time by their basis, 0 to 1."""
        return basis_shares(self.times)

    @property
    def estimate_share(self) -> float:
        """Part of the time that rests on estimates, 0 to 1."""
        return estimate_share(self.times)


def profile_model(
    data: bytes, configuration: Configuration | None = None, *, name: str = "model"
) -> ModelProfile:
    """Profile a model file. Raises ProfileError if it is none, or no device could load it."""
    configuration = configuration or Configuration()
    name = printable(name, NAME_LIMIT)
    try:
        model = read_loadable(data)
        check_tensor_counts(model)
        memory = _memory(model, len(data), configuration)
    except (ModelFileError, ModelError) as error:
        raise ProfileError(f"{name}: {printable(str(error), limit=500)}") from error
    generation = generation_of(model, configuration.device.generation)
    device = _device(configuration.device, generation, memory)
    times = _estimate(model, device)
    total = total_of(times, device, model, generation)
    return ModelProfile(
        name=name,
        configuration=replace_field(configuration, device=device),
        generation=generation,
        total=total,
        flash_total=_from_flash(model, device, total),
        notes=tuple(_notes(device, generation)),
        times=times,
        classes=operator_classes(times),
        memory=memory,
        parameters=used_constants(model)[1],
        flash_loads=sum_of([time for time in times if time.name in FLASH_LOADS], device.tick_mhz),
        predictions=_predictions(model, device, generation),
        model=model,
    )


def _device(device: DeviceModel, generation: FileGeneration, memory: MemoryProfile) -> DeviceModel:
    """Fill in what the file decides: clocks and flash by its generation, and the place of its parameters."""
    device = device.for_generation(generation.generation)
    if device.parameters is not None:
        return device
    fits = memory.model + memory.head + memory.tail <= LARGEST_INTERNAL * KIB
    return replace(device, parameters=Memory.INTERNAL if fits else Memory.EXTERNAL)


def _notes(device: DeviceModel, generation: FileGeneration) -> Iterator[str]:
    if generation.note:
        yield generation.note
    if not generation.is_certain:
        yield "nothing in the file tells which tools made it: it is taken for one of 2023"
    if device.threads > 1 and device.parameters is Memory.EXTERNAL:
        yield (
            f"{device.threads} threads with parameters in external memory: XMOS builds for LPDDR have one "
            "thread"
        )


def _estimate(model: Model, device: DeviceModel) -> tuple[OperatorTime, ...]:
    return tuple(
        replace(time, name=printable(time.name, NAME_LIMIT)) for time in estimate_times(device, model)
    )


def _from_flash(model: Model, device: DeviceModel, total: Total) -> Total:
    """Add the time to read all parameters; a model that loads them itself is counted as it is."""
    if any(operator.name in FLASH_LOADS for operator in model.operators):
        return total
    count, nbytes = used_constants(model)
    ticks, (_, band, _) = device.flash_ticks(nbytes, count), flash_basis(device.flash)
    return total.scaled(
        total.ticks + round(ticks), total.low + round(ticks * band.low), total.high + round(ticks * band.high)
    )


def _predictions(model: Model, device: DeviceModel, generation: FileGeneration) -> tuple[Prediction, ...]:
    predictions = []
    for clock in CLOCKS_MHZ:
        for threads in range(1, MAX_THREADS + 1):
            changed = replace(device, clock_mhz=clock, threads=threads)
            times = estimate_times(changed, model)
            own = [time for time in times if time.name not in FLASH_LOADS]
            total = total_of(times, changed, model, generation)
            ram = total if len(own) == len(times) else sum_of(own, changed.tick_mhz)
            estimates = sum(time.ticks for time in own if time.basis is Basis.ESTIMATE)
            from_flash = _from_flash(model, changed, total)
            predictions.append(Prediction(threads, clock, ram, from_flash, estimates))
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
