"""Cells of a sweep: a model on a board with one value of each axis, whether it fits, and its time.

Fit is that of a device which loads the model: the board holds, and model and tensors have room in its memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from msgspec.structs import replace as replace_fields

from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.folder.plan import ModelFile
from aisrv.addons.evaluate.sweep.settings import Link, Sweep, Variant
from aisrv.addons.predict.profile import Configuration
from aisrv.board import Board, BoardError
from aisrv.device.tasks import device_model
from aisrv.inference.errors import ModelError
from aisrv.inference.placement import ArenaNeed, arena_need, check_tensor_counts, place_model
from aisrv.inference.timings import DeviceModel, Kernels, Memory, Total, generation_of, total_of
from aisrv.inference.timings.estimation import estimate_times
from aisrv.model import Model, ModelFileError
from aisrv.model.relocatable.model import read_loadable
from aisrv.protocol.memory_map import ModelMemory
from aisrv.values.regular_file import read_regular


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. Where it does not fit, `misfit` says why, and there is no time."""

    model: int
    """Number of the model in the sweep."""
    board: str
    engine: int
    """Number of the board's engine."""
    configuration: str
    clock_mhz: float
    threads: int
    arena_bytes: int
    memory: ModelMemory
    """Memory of the model."""
    kernels: Kernels
    bytes: int
    """Bytes that are set aside: those of the model, and of the tensor arena, which is what it leaves."""
    total: Total | None
    """Time of an inference, with its band."""
    misfit: str = ""

    def rate(self, *, sure: bool) -> float:
        """Return the inferences a second, or with `sure` the least of their band; 0 where it does not fit."""
        if self.total is None:
            return 0.0
        ticks = max(self.total.high if sure else self.total.ticks, 1)
        return 1000 / self.total.in_ms(ticks)


class SweptModel:
    """A model of a sweep, which predicts the time for each device once."""

    def __init__(self, name: str, file: ModelFile, model: Model, need: ArenaNeed) -> None:
        """Keep the model, by its name in reports, and its need of the arena."""
        self.name = name
        self.file = file
        self.need = need
        self._model = model
        self._generation = generation_of(model)
        self._totals: dict[DeviceModel, Total] = {}

    def total(self, device: DeviceModel) -> Total:
        """Return the time of an inference on a device."""
        if device not in self._totals:
            generation = (
                self._generation
                if device.generation is None
                else generation_of(self._model, device.generation)
            )
            filled = device.for_generation(generation.generation)
            times = estimate_times(filled, self._model)
            self._totals[device] = total_of(times, filled, self._model, generation)
        return self._totals[device]


def read_models(sweep: Sweep) -> tuple[SweptModel, ...]:
    """Read the models of a sweep; EvaluateError, OSError."""
    found = []
    for each in sweep.models:
        file = ModelFile(each.path.name, read_regular(each.path))
        try:
            model = read_loadable(file.data)
            check_tensor_counts(model)
            found.append(SweptModel(each.name, file, model, arena_need(model)))
        except (ModelFileError, ModelError) as error:
            raise EvaluateError(f"{each.path}: {error}") from None
    return tuple(found)


def cells_of(sweep: Sweep, number: int, model: SweptModel) -> Iterator[Cell]:
    """Yield the cells of one of the sweep's models, by its number; of a board's engines the fastest."""
    for name, board in sweep.boards.items():
        for variant in sweep.variants:
            found = [_cell(sweep, number, model, name, board, engine, variant) for engine in _engines(board)]
            yield max(found, key=lambda cell: (cell.rate(sure=False), -cell.bytes, -cell.engine))


def _engines(board: Board) -> range:
    return range(len(board.engines))


def _cell(
    sweep: Sweep, number: int, model: SweptModel, name: str, board: Board, engine: int, variant: Variant
) -> Cell:
    spec = board.engines[engine]
    settled = Configuration(device_model(board, spec), spec.arena_bytes, spec.external_bytes)
    for layer in variant.layers:
        settled = layer.over(settled)
    device = settled.device
    memory, taken, misfit = _place(model, settled, variant.memory)
    misfit = _missing_link(board, sweep.link) or _misfit(board, engine, settled) or misfit
    if device.parameters is None:
        is_internal = memory is ModelMemory.ARENA and device.arena is Memory.INTERNAL
        device = replace_fields(device, parameters=Memory.INTERNAL if is_internal else Memory.EXTERNAL)
    return Cell(
        number,
        name,
        engine,
        variant.name,
        device.core_mhz,
        device.threads,
        settled.arena_bytes,
        memory,
        device.kernels,
        taken,
        None if misfit else model.total(device),
        misfit,
    )


def _place(
    model: SweptModel, settled: Configuration, wanted: ModelMemory | None
) -> tuple[ModelMemory, int, str]:
    """Return the memory of a model, the bytes that are set aside, and why it does not fit, if so."""
    reasons = []
    memories = tuple(ModelMemory) if wanted is None else (wanted,)
    for memory in memories:
        try:
            placed = place_model(
                len(model.file.data), model.need, settled.arena_bytes, settled.external_bytes, memory
            )
        except ModelError as error:
            reasons.append(str(error))
        else:
            return memory, placed.model_bytes + placed.tensor_arena.size, ""
    return memories[0], 0, reasons[0]


def _missing_link(board: Board, link: Link | None) -> str:
    return "the board has no SPI port" if link == "spi" and board.spi is None else ""


def _misfit(board: Board, engine: int, settled: Configuration) -> str:
    """Return why the board does not hold with the engine's memory as settled; empty where it does."""
    spec = board.engines[engine]
    changed = replace(
        spec,
        arena_bytes=settled.arena_bytes,
        arena_memory=settled.device.arena,
        external_bytes=settled.external_bytes,
    )
    if changed == spec:
        return ""
    engines = (*board.engines[:engine], changed, *board.engines[engine + 1 :])
    try:
        replace(board, engines=engines)
    except BoardError as error:
        return str(error)
    return ""
