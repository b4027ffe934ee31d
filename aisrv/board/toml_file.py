"""Boards in TOML files: a table for each part, see docs/guides/boards.md.

Keys that a table leaves out have their defaults. Errors are reported with the file, the line and the key:
`board.toml:12: engines[1].arena: ...`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, defstruct, structs

from aisrv.board import (
    BOOT_MEMORIES,
    Board,
    BoardError,
    BoardFileError,
    CommandsSpec,
    EngineSpec,
    FlashSpec,
    Part,
    PortSpec,
    SensorSpec,
    SpiSpec,
    TaskSpec,
    UsbProtocol,
    plan_of,
)
from aisrv.board.user_tasks import task_table
from aisrv.model.labels import LARGEST_LABELS, labels_in
from aisrv.protocol.engine_kind import EngineKind, EngineKindError
from aisrv.protocol.memories import FlashPath, Memory
from aisrv.values.addons import load, offer, offered
from aisrv.values.regular_file import read_regular
from aisrv.values.settings.errors import SettingsError
from aisrv.values.settings.size import KIB, Size
from aisrv.values.settings.tables import Integer, Number, Table, convert
from aisrv.values.settings.toml_file import TomlFile, parse_toml, read_toml
from flash_server.chip.part import MX25R6435F, PARTS, Erase, FlashPart, part_named
from flash_server.client.cache import CacheGeometry
from flash_server.errors import FlashError


def read_board(path: Path) -> Board:
    """Read a board from a TOML file; paths in it are relative to its directory. Raises BoardFileError."""
    try:
        return _board(read_toml(path))
    except SettingsError as error:
        raise BoardFileError(str(error), *error.path) from None


def parse_board(text: str, name: str = "board.toml", directory: Path = Path()) -> Board:
    """Read a board from TOML text with paths relative to `directory`. Raises BoardFileError."""
    try:
        return _board(parse_toml(text, name, directory))
    except SettingsError as error:
        raise BoardFileError(str(error), *error.path) from None


# The tables of a file. Fields are called as in the specs; `rename` gives the keys that differ.


class _Cache(Table, frozen=True, rename={"line_bytes": "line"}):
    size: Size | None = None
    ways: Integer | None = None
    line_bytes: Size | None = None


_Leds = Annotated[tuple[str, ...], Meta(description='an array of texts, such as ["red", "green"]')]


class _Engine(
    Table,
    frozen=True,
    rename={
        "arena_bytes": "arena",
        "external_bytes": "external",
        "external_clock_mhz": "external_clock",
        "chain_to": "chain",
    },
):
    tile: Integer | None = None
    kind: str | None = None
    fallback: str | None = None
    arena_bytes: Size | None = None
    arena_memory: Memory | None = None
    external_clock_mhz: Number | None = None
    external_bytes: Size | None = None
    threads: Integer | None = None
    chain_to: Integer | None = None
    flash: Integer | None = None
    boot: Literal["arena", "ext"] | None = None
    """The memory that its model is loaded to from flash at start; none: it starts without a model."""
    cache: _Cache | None = None
    """The cache of the engine's windows on flash."""
    sensor: bool | None = None
    """Whether it acquires from the board's sensor. Default: engine 0 does."""
    leds: _Leds | None = None
    labels: Path | None = None
    """A text file with the name of a class in each line; without it, those in the model's file."""
    commands: str | None = None
    """Commands of your own, as `module:TABLE`: a table of codes and async functions."""


class _Node(
    Table,
    frozen=True,
    rename={"core_clock_mhz": "clock", "reference_mhz": "reference", "flash_path": "flash"},
):
    tiles: Integer | None = None
    core_clock_mhz: Integer | None = None
    reference_mhz: Number | None = None
    flash_path: FlashPath | Number | None = None
    device_time: bool | None = None
    xscope: Path | None = None
    memory: Size | None = None
    """SRAM of each tile, in whole KiB."""


class _Usb(Table, frozen=True, rename={"usb_tile": "tile", "usb_task": "task", "usb_port": "port"}):
    usb_tile: Integer | None = None
    """Tile of the USB tasks; with `task`, by itself that task's."""
    usb_task: str | None = None
    serial: str | None = None
    """USB serial number; hardware has none."""
    protocol: UsbProtocol | None = None
    usb_port: Integer | None = None


class _Erase(Table, frozen=True):
    opcode: Integer
    size: Size
    seconds: Number


class _Part(
    Table,
    frozen=True,
    rename={
        "page_program_seconds": "page_program",
        "chip_erase_seconds": "chip_erase",
        "write_status_seconds": "write_status",
    },
):
    name: str
    size: Size
    jedec_id: Integer
    page_size: Size | None = None
    erases: tuple[_Erase, ...] | None = None
    """An erase command, for each, from the smallest; without any, those of the MX25R6435F."""
    clock: Integer | None = None
    """Largest clock of a quad read, in MHz."""
    page_program_seconds: Number | None = None
    chip_erase_seconds: Number | None = None
    write_status_seconds: Number | None = None


_PartName = Annotated[str, Meta(description=f"a part ({', '.join(PARTS)})")]


class _Flash(FlashSpec, frozen=True):
    part: _PartName | _Part = MX25R6435F.name  # type: ignore[assignment]  # not yet a part


class BoardTables(Table, frozen=True):
    """The tables of a board's file."""

    description: str | None = None
    """Short description of the board."""
    node: _Node | None = None
    """The chip."""
    usb: _Usb | None = None
    """The USB port, which every board has."""
    spi: SpiSpec | None = None
    engines: tuple[_Engine, ...] | None = None
    """An AI engine, for each; without any of these tables there is one engine with the defaults."""
    flash: tuple[_Flash, ...] = ()
    """A flash chip, for each; without any of these tables there is none."""
    sensor: SensorSpec | None = None
    """A sensor; without this table there is none."""
    ports: tuple[PortSpec, ...] = ()
    """A port with a use, for each, only to be shown."""
    tasks: tuple[TaskSpec, ...] = ()
    """A task of your own, for each."""


def _board(file: TomlFile) -> Board:
    kinds = _added(file)
    tables = convert(file, board_tables(kinds, _tasks_type(file.values.get("tasks"))))
    changes: dict[str, Any] = {name: getattr(tables, name) for name in ("spi", "sensor", "ports", "tasks")}
    changes |= {"folder": file.directory, "file": file}
    if tables.description is not None:
        changes["description"] = tables.description
    if tables.node is not None:
        changes |= _node(file, tables.node)
    if tables.usb is not None:
        changes |= tables.usb.given()
    if tables.engines is not None:
        changes["engines"] = tuple(
            _engine(file, number, table) for number, table in enumerate(tables.engines)
        )
    changes["flashes"] = tuple(_flash(file, number, table) for number, table in enumerate(tables.flash))
    if "usb_task" in changes and "usb_tile" not in changes:
        tiles = [task.tile for task in tables.tasks if task.name == changes["usb_task"]]
        changes |= {"usb_tile": tiles[0]} if tiles else {}
    changes["parts"] = tuple(part.placed(file) for part in _parts(tables, kinds))
    try:
        board = Board(**changes)
        plan_of(board).check()
    except BoardError as error:
        raise file.error(str(error), error.setting) from None
    return board


def _added(file: TomlFile) -> dict[str, type[Part]]:
    """Load the add-ons whose tables a file has; all of the product's where it has one that nobody knows."""
    unknown = file.values.keys() - set(BoardTables.__struct_fields__)
    places = {name: offer("tables", name) or offer("arrays", name) for name in file.values if name in unknown}
    if None in places.values():
        places = offered("tables") | offered("arrays")
    return {name: load(place) for name, place in places.items()}


def _tasks_type(tables: object) -> Any:  # noqa: ANN401 - a type of msgspec's
    """Return the type of `[[tasks]]`, a class for each; None where all are the core's."""
    if not isinstance(tables, list):
        return None
    found = tuple(task_table(table) if isinstance(table, dict) else TaskSpec for table in tables)
    return None if set(found) <= {TaskSpec} else tuple[found]  # type: ignore[valid-type]


def board_tables(kinds: Mapping[str, type[Part]], tasks: Any = None) -> type[BoardTables]:  # noqa: ANN401
    """Return the tables of a board's file with those of add-ons; `tasks` is the type of that key."""
    fields: list[tuple[str, Any, Any]] = [] if tasks is None else [("tasks", tasks, ())]
    fields += [(name, _type_of(name, kind) | None, None) for name, kind in kinds.items()]
    if not fields:
        return BoardTables
    made = defstruct("BoardTables", fields, bases=(BoardTables,), frozen=True, kw_only=True)
    return cast("type[BoardTables]", made)


def _type_of(name: str, kind: type[Part]) -> Any:  # noqa: ANN401 - a type
    """Return the type of a table of a part: the part, or an array that is a field of it."""
    if name not in kind.arrays:
        return kind
    return next(field.type for field in structs.fields(kind) if field.name == name)


def _parts(tables: BoardTables, kinds: Mapping[str, type[Part]]) -> Iterator[Part]:
    """Yield the parts that add-ons bring: those that are a table, and those that have arrays of tables."""
    for kind in dict.fromkeys(kinds.values()):
        if not kind.arrays:
            if (part := getattr(tables, kind.table)) is not None:
                yield part
        elif arrays := {name: found for name in kind.arrays if (found := getattr(tables, name, None))}:
            yield kind(**arrays)


def _node(file: TomlFile, table: _Node) -> dict[str, Any]:
    fields = table.given()
    memory = fields.pop("memory", None)
    if memory is not None:
        if memory % KIB:
            raise file.error(f"{memory} bytes are not whole KiB", ("node", "memory"))
        fields["internal_kib"] = memory // KIB
    return fields


def _engine(file: TomlFile, number: int, table: _Engine) -> EngineSpec:
    fields = table.given()
    if table.kind is not None:
        try:
            fields["kind"] = EngineKind.parse(table.kind)
        except EngineKindError as error:
            raise file.error(f"engine {number}: {error}", ("engines", number, "kind")) from None
        fields["origin"] = file.place(("engines", number, "kind"))
    if table.fallback is not None:
        try:
            fields["fallback"] = EngineKind.parse(table.fallback)
        except EngineKindError as error:
            raise file.error(f"engine {number}: {error}", ("engines", number, "fallback")) from None
    if table.boot is not None:
        fields["boot"] = BOOT_MEMORIES[table.boot]
    if table.cache is not None:
        try:
            fields["cache"] = CacheGeometry(**table.cache.given())
        except FlashError as error:
            raise file.error(str(error), ("engines", number, "cache")) from None
    if table.labels is not None:
        fields["labels"] = _labels(file, number, table.labels)
    if table.commands is not None:
        origin = file.place(("engines", number, "commands"))
        fields["commands"] = CommandsSpec(table.commands, file.directory, origin)
    return EngineSpec(**fields)


def _labels(file: TomlFile, number: int, path: Path) -> tuple[str, ...]:
    try:
        labels = labels_in(read_regular(path, LARGEST_LABELS))
    except OSError as error:
        raise file.error(f"{path}: {error.strerror}", ("engines", number, "labels")) from None
    if not labels:
        raise file.error(f"{path} is not text with a name in each line", ("engines", number, "labels"))
    return labels


def _flash(file: TomlFile, number: int, table: _Flash) -> FlashSpec:
    try:
        part = part_named(table.part) if isinstance(table.part, str) else _part(table.part)
    except FlashError as error:
        raise file.error(str(error), ("flash", number, "part")) from None
    return FlashSpec(**{**structs.asdict(table), "part": part})


def _part(table: _Part) -> FlashPart:
    fields = table.given()
    if table.erases is not None:
        fields["erases"] = tuple(Erase(**erase.given()) for erase in table.erases)
    if table.clock is not None:
        fields["largest_clock_hz"] = fields.pop("clock") * 1_000_000
    return FlashPart(**fields)
