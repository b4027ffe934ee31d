"""The keys of the TOML files, from the classes that read them: name, type, default, meaning."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Final, cast

from msgspec import NODEFAULT, inspect

from aisrv.addons.evaluate.sweep.settings import SweepTables
from aisrv.addons.predict.profile.model_profile import Configuration
from aisrv.addons.predict.profile.suite import SuiteTables
from aisrv.board import (
    Board,
    EngineSpec,
)
from aisrv.board.toml_file import board_tables
from aisrv.board.user_tasks import task_tables
from aisrv.inference.timings import DeviceModel
from aisrv.values.addons import load, offered
from aisrv.values.settings.size import KIB, Size
from aisrv.values.settings.tables import Hertz
from docs.generate.markdown import code, plain, table
from docs.generate.member_docs import member_docs
from flash_server.chip.part import Erase, FlashPart
from flash_server.client.cache import CacheGeometry
from flash_server.image.pack_config import PackTables
from flash_server.image.pack_options import PackOptions

_BOARD: Final[Mapping[str, type]] = {
    "": Board,
    "node": Board,
    "usb": Board,
    "engines": EngineSpec,
    "engines.cache": CacheGeometry,
    "flash.part": FlashPart,
    "flash.part.erases": Erase,
}
"""What the tables of a board's file become, whose fields have the defaults and most of the meanings."""

_OWN_DEFAULTS: Final[Mapping[str, object]] = {
    "node.memory": Size(Board().internal_kib * KIB),
    "engines.kind": "the first of tflite, litert and kernels that is installed",
    "flash.part.clock": 50,
    "defaults.clock": "by the generation",
    "defaults.reference": "by the generation",
    "defaults.generation": "the file tells",
    "defaults.threads": DeviceModel().threads,
    "defaults.kernels": DeviceModel().kernels,
    "defaults.parameters": code('"auto"'),
    "defaults.arena_memory": DeviceModel().arena,
    "defaults.external_clock": "an eighth of the core clock",
    "defaults.flash": "by the generation",
    "defaults.flash_rate": "by the generation",
    "defaults.arena": Size(Configuration().arena_bytes),
    "defaults.external": Size(Configuration().external_bytes),
}
"""Defaults of keys that no field has in the unit of the file."""


def board_keys() -> str:
    """The keys of a board's file."""
    kinds = {name: load(place) for name, place in (offered("tables") | offered("arrays")).items()}
    tasks: Any = reduce(or_, task_tables())
    return _tables(board_tables(kinds, tuple[tasks, ...]), "Top of a board file", _BOARD)


def pack_keys() -> str:
    """The keys of a packing file."""
    return _tables(PackTables, "Top of a packing file", {"": PackOptions})


def suite_keys() -> str:
    """The keys of a suite's file."""
    return _tables(SuiteTables, "Top of a suite", {})


def sweep_keys() -> str:
    """The keys that a sweep's file has beside those of a suite's."""
    return _tables(SweepTables, "Top of a sweep", {}, frozenset(SuiteTables.__struct_fields__))


@dataclass(frozen=True, slots=True)
class _Section:
    """A table of a file: the path of its key, what the page calls it, what it is for, and its type."""

    path: str
    heading: str
    text: str
    kind: inspect.StructType


def _tables(
    root: type, heading: str, specs: Mapping[str, type], elsewhere: frozenset[str] = frozenset()
) -> str:
    """The tables of a file, but for those of the keys at its top that are listed elsewhere."""
    blocks = []
    for section in _sections(_Section("", heading, "", cast("inspect.StructType", inspect.type_info(root)))):
        if section.path.partition(".")[0] in elsewhere:
            continue
        spec = specs.get(section.path)
        docs = ({} if spec is None else member_docs(spec)) | member_docs(section.kind.cls)
        rows = [
            _row(section, field, spec, docs)
            for field in section.kind.fields
            if not _is_section(field) and (section.path or field.encode_name not in elsewhere)
        ]
        rows_as_text = table(("key", "type", "default", "meaning"), rows)
        blocks += [f"### {section.heading}", section.text, rows_as_text]
    return "\n\n".join(filter(None, blocks))


def _sections(section: _Section) -> Iterator[_Section]:
    """A table and those in it."""
    yield section
    docs = member_docs(section.kind.cls)
    for field in section.kind.fields:
        path = f"{section.path}.{field.encode_name}".lstrip(".")
        text = docs.get(field.name)
        for each in _members(field.type):
            if isinstance(each, inspect.StructType):
                yield from _sections(_Section(path, f"`[{path}]`", text or _first_line(each), each))
            elif isinstance(each, inspect.VarTupleType):
                for item in _members(each.item_type):
                    if isinstance(item, inspect.StructType):
                        yield from _sections(_Section(path, f"`[[{path}]]`", text or _first_line(item), item))


def _first_line(kind: inspect.StructType) -> str:
    """The first line of a table's docstring, for one that is declared nowhere else."""
    return (kind.cls.__doc__ or "").partition("\n")[0]


def _is_section(field: inspect.Field) -> bool:
    """Whether a key is nothing but a table with a section of its own."""
    kinds = [
        each.item_type if isinstance(each, inspect.VarTupleType) else each for each in _members(field.type)
    ]
    return all(isinstance(each, inspect.StructType) for each in kinds)


def _row(
    section: _Section, field: inspect.Field, spec: type | None, docs: Mapping[str, str]
) -> tuple[str, str, str, str]:
    meaning, _, stated = plain(docs[field.name]).partition(" Default: ")
    if _is_custom(field, Hertz):
        meaning = meaning.replace("in Hz", "in MHz")
    key = f"{section.path}.{field.encode_name}".lstrip(".")
    default = stated.removesuffix(".") or _default(key, field, spec)
    return code(field.encode_name), _type(field.type), default, meaning


def _default(key: str, field: inspect.Field, spec: type | None) -> str:
    if field.required:
        return "must be given"
    value: Any = None if field.default is NODEFAULT else field.default
    if key in _OWN_DEFAULTS:
        value = _OWN_DEFAULTS[key]
        if isinstance(value, str):
            return value
    elif value is None and spec is not None:
        value = _field_default(spec, field.name)
    if isinstance(value, int) and _is_custom(field, Size):
        value = Size(value)
    return _shown(value)


def _is_custom(field: inspect.Field, kind: type) -> bool:
    return any(isinstance(each, inspect.CustomType) and each.cls is kind for each in _members(field.type))


def _field_default(spec: type, name: str) -> object:
    found = next((each for each in fields(spec) if each.name == name), None)
    if found is None:
        return None
    if found.default_factory is not MISSING:
        return found.default_factory()
    return None if found.default is MISSING else found.default


def _shown(value: object) -> str:
    match value:
        case None | () | {} | "":
            return "none"
        case bool():
            return code(str(value).lower())
        case Enum():
            return code(f'"{value.value}"')
        case Hertz():
            return code(value // 1_000_000)
        case Size():
            return code(f'"{value.short()}"')
        case float():
            return code(f"{value:g}")
        case str() | Path():
            return code(f'"{value}"')
        case int():
            return code(value)
        case _:
            return "see its table"


def _members(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    """The types of a union but for None, without their descriptions."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    bare = (each.type if isinstance(each, inspect.Metadata) else each for each in kinds)
    return tuple(each for each in bare if not isinstance(each, inspect.NoneType))


def _type(kind: inspect.Type) -> str:
    return " or ".join(map(_name, _members(kind)))


def _name(kind: inspect.Type) -> str:
    match kind:
        case inspect.IntType():
            return "whole number"
        case inspect.FloatType():
            return "number"
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "`true`, `false`"
        case inspect.LiteralType():
            return ", ".join(code(f'"{each}"') for each in kind.values)
        case inspect.EnumType():
            return ", ".join(code(f'"{each.value}"') for each in kind.cls)
        case inspect.CustomType():
            return {Size: "size", Path: "path", Hertz: "whole number"}[kind.cls]
        case inspect.VarTupleType():
            return f"array of {' or '.join(map(_plural, _members(kind.item_type)))}"
        case inspect.DictType():
            return "table of texts"
        case inspect.StructType():
            return "table"
        case _:
            raise TypeError(f"settings have no {kind}")


def _plural(kind: inspect.Type) -> str:
    return _name(kind) if isinstance(kind, inspect.LiteralType | inspect.EnumType) else f"{_name(kind)}s"
