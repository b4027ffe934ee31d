"""The file of a sweep: a profile suite's file with boards, axes, data, and what is wanted.

    models = ["small.tflite", "large.tflite"]
    boards = ["single", "no-flash"]

    [axes]
    clock = [600, 800]
    threads = [1, 5]

    [data]
    path = "test.npz"

    [want]
    rate = 20
    accuracy = 0.9

A cell of the sweep is a model on a board with one value of each axis. Paths count from the file.
"""

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta

from aisrv.addons.evaluate.data.allowance import LARGEST_DATA
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.predict.profile import SuiteModel, SuiteSettings
from aisrv.addons.predict.profile.suite import (
    MAX_ENTRIES,
    MAX_MEMORY,
    SuiteTables,
    named_settings,
    suite_models,
)
from aisrv.board import Board, BoardError
from aisrv.board.catalog import BOARDS, find_board
from aisrv.inference.timings import Kernels
from aisrv.protocol.engine_kind import EngineKind, EngineKindError
from aisrv.protocol.memory_map import ModelMemory
from aisrv.values.settings.errors import SettingsError
from aisrv.values.settings.size import Size
from aisrv.values.settings.tables import Table, convert
from aisrv.values.settings.toml_file import TomlFile, read_toml

ENGINE: Final = EngineKind("kernels")
"""The engine on which accuracy is measured where the file names none."""
CELLS: Final = 10_000
MINUTES: Final = 60.0

_MEMORIES: Final = {"arena": ModelMemory.ARENA, "external": ModelMemory.EXT}
_SHIPPED_DATA: Final = ("digits", "digits:all")

Link = Literal["usb", "spi"]
_Positive = Annotated[float, Meta(gt=0, le=1e6)]
_Names = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1, max_length=MAX_ENTRIES)]


class Axes(Table, frozen=True):
    """The axes of a sweep: each value with each of the others. What is left out is as the board has it."""

    clock: (
        Annotated[
            tuple[_Positive, ...], Meta(min_length=1, max_length=MAX_ENTRIES, description="an array of MHz")
        ]
        | None
    ) = None
    """Core clocks in MHz."""
    threads: (
        Annotated[
            tuple[Annotated[int, Meta(ge=1, le=5)], ...],
            Meta(min_length=1, max_length=5, description="an array of numbers of threads, 1 to 5"),
        ]
        | None
    ) = None
    """Threads of an inference, 1 to 5."""
    arena: (
        Annotated[
            tuple[Size, ...], Meta(min_length=1, max_length=MAX_ENTRIES, description="an array of sizes")
        ]
        | None
    ) = None
    """Tensor arenas of the engine."""
    model_memory: Annotated[tuple[Literal["arena", "external"], ...], Meta(min_length=1)] | None = None
    """Memories of the model; without any, the arena where it fits, else external memory."""
    kernels: Annotated[tuple[Kernels, ...], Meta(min_length=1)] | None = None
    """Kernels of operators that XMOS's converter did not replace."""


class Data(Table, frozen=True):
    """The examples on which accuracy is measured, as those of `aisrv evaluate`."""

    path: Annotated[str, Meta(min_length=1, pattern=r"\A[^\x00]+\Z", description="a path in quotes")]
    """Folder or file of the data, digits, or digits:all."""
    inputs: Path | None = None
    """File of settings of inputs."""
    labels: Path | None = None
    """Names of classes, or labels of IDX data."""
    limit: Annotated[int, Meta(ge=1, le=1 << 40)] | None = None
    """Examples at most."""
    max_memory: Size | None = None
    """Memory that the data may take; what is mapped takes none. Default: 2G."""
    engine: str | None = None
    """Engine that runs the models. Default: kernels."""


class Want(Table, frozen=True):
    """What a board has to do."""

    rate: _Positive | None = None
    """Inferences a second."""
    accuracy: Annotated[float, Meta(gt=0, le=1)] | None = None
    """Share of right answers, 0 to 1."""
    sure: bool = True
    """Whether the low ends of the time's band and of the accuracy's interval count, and not the figures."""


class Stop(Table, frozen=True):
    """Limits of a sweep."""

    cells: Annotated[int, Meta(ge=1, le=1_000_000)] = CELLS
    """Cells at most; more are refused before anything runs."""
    minutes: _Positive = MINUTES
    """Time after which it ends with what is done."""


class SweepTables(SuiteTables, frozen=True):
    """The tables of a sweep's file."""

    boards: _Names | None = None
    """Boards: names, or files .toml or .xn. Default: all that `aisrv boards` lists."""
    link: Link | None = None
    """Link that a board must have."""
    axes: Axes | None = None
    """What is tried: each value with each of the others. What is left out is as the board has it."""
    data: Data | None = None
    """Examples on which accuracy is measured, as those of `aisrv evaluate`; without any it is not."""
    want: Want | None = None
    """What a board has to do."""
    stop: Stop | None = None
    """Limits of the sweep."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One value of each axis, and of the file's configurations: what is changed of a board."""

    name: str
    """Name of the configuration; empty where the file has none."""
    layers: tuple[SuiteSettings, ...]
    """Settings, each over those before it."""
    memory: ModelMemory | None
    """Memory of the model; None is the arena where it fits, else external memory."""


@dataclass(frozen=True, slots=True)
class SweepData:
    """The examples of a sweep."""

    uri: str
    inputs: Path | None = None
    labels: Path | None = None
    limit: int | None = None
    engine: EngineKind = ENGINE
    memory: int = LARGEST_DATA


@dataclass(frozen=True, slots=True)
class Sweep:
    """All that a sweep's file says."""

    models: tuple[SuiteModel, ...]
    boards: dict[str, Board]
    variants: tuple[Variant, ...]
    link: Link | None = None
    data: SweepData | None = None
    """None: accuracy is not measured."""
    want: Want = field(default_factory=Want)
    stop: Stop = field(default_factory=Stop)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return len(self.models) * len(self.boards) * len(self.variants)


def load_sweep(path: Path) -> Sweep:
    """Read a sweep's file. Raises EvaluateError with file, line and key."""
    try:
        return _sweep(read_toml(path))
    except SettingsError as error:
        raise EvaluateError(str(error)) from None


def _sweep(file: TomlFile) -> Sweep:
    tables = convert(file, SweepTables)
    models = suite_models(file, tables)
    if not models:
        raise file.error('no models: name them, as models = ["net.tflite"]')
    want, stop = tables.want or Want(), tables.stop or Stop()
    if want.accuracy is not None and tables.data is None:
        raise file.error("an accuracy needs a table [data] with a path", ("want", "accuracy"))
    sweep = Sweep(
        models, _boards(file, tables), _variants(file, tables), tables.link, _data(file, tables), want, stop
    )
    if sweep.cells > stop.cells:
        raise file.error(
            f"{sweep.cells:,} cells, at most {stop.cells:,}: name fewer, or raise cells", ("stop", "cells")
        )
    return sweep


def _boards(file: TomlFile, tables: SweepTables) -> dict[str, Board]:
    found = {}
    for number, name in enumerate(tables.boards or tuple(BOARDS)):
        is_file = Path(name).suffix.lower() in (".toml", ".xn")
        try:
            found[name] = find_board(str(file.directory / name) if is_file else name)
        except BoardError as error:
            raise file.error(_with_nearest(str(error), name), ("boards", number)) from None
    return found


def _with_nearest(message: str, name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name[:100], tuple(BOARDS), 1)
    return f"{message}; did you mean {near[0]}?" if near else message


def _variants(file: TomlFile, tables: SweepTables) -> tuple[Variant, ...]:
    axes = tables.axes or Axes()
    for number, size in enumerate(axes.arena or ()):
        if size > MAX_MEMORY:
            raise file.error(f"{size} bytes; the most is {MAX_MEMORY}", ("axes", "arena", number))
    nothing = (None,)
    return tuple(
        Variant(
            name,
            (
                *([] if tables.defaults is None else [tables.defaults]),
                settings,
                SuiteSettings(clock=clock, threads=threads, arena=arena, kernels=kernels),
            ),
            None if memory is None else _MEMORIES[memory],
        )
        for (name, settings), clock, threads, arena, memory, kernels in product(
            named_settings(file, tables),
            axes.clock or nothing,
            axes.threads or nothing,
            axes.arena or nothing,
            axes.model_memory or nothing,
            axes.kernels or nothing,
        )
    )


def _data(file: TomlFile, tables: SweepTables) -> SweepData | None:
    data = tables.data
    if data is None:
        return None
    try:
        engine = ENGINE if data.engine is None else EngineKind.parse(data.engine)
    except EngineKindError as error:
        raise file.error(str(error), ("data", "engine")) from None
    uri = data.path if data.path in _SHIPPED_DATA else str(file.directory / data.path)
    return SweepData(uri, data.inputs, data.labels, data.limit, engine, int(data.max_memory or LARGEST_DATA))
