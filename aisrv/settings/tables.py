"""The tables of a TOML file as typed classes, declared with msgspec.

    class Engine(Table, rename={"arena_bytes": "arena"}):
        tile: Integer | None = None
        arena_bytes: Size | None = None

Keys that a class does not have are refused. Beside msgspec's own types, fields may be a `Size`, written as a
number or a text, and a `Path`, which is relative to the file's directory. What does not fit is reported with
file, line and key, and says what is allowed or which key may be meant.
"""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import inspect

from aisrv.settings.errors import KeyPath
from aisrv.settings.size import Size
from aisrv.settings.toml_file import TomlFile, shown

_LARGEST: Final = 1 << 40

Integer = Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
"""A whole number of some size."""
Number = Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
"""A number of some size, whole or not; neither infinite nor NaN."""

T = TypeVar("T")


class Table(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all tables. TOML has no null, so None is the value of a key that is left out."""

    def given(self) -> dict[str, Any]:
        """Return the fields that the file gives, by name."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


def convert(file: TomlFile, kind: type[T]) -> T:
    """Convert a file's values to a class. Raises SettingsError."""

    def convert_own(own: type, value: object) -> Any:  # noqa: ANN401 - what msgspec wants
        if own is Size and type(value) is int and 0 <= value <= _LARGEST:
            return Size(value)
        if own is Size and isinstance(value, str):
            return Size.parse(value)
        if own is Path and isinstance(value, str) and value and "\0" not in value:
            return file.directory / value
        raise ValueError(_mismatch(inspect.CustomType(own), value))

    try:
        return msgspec.convert(file.values, kind, dec_hook=convert_own)
    except msgspec.ValidationError as error:
        if error.__cause__ is None:
            message, path = _explained(str(error), inspect.type_info(kind), file.values)
        else:  # what `convert_own` says
            message, path = _located(str(error))
        raise file.error(message, path) from None


def unknown(name: str, known: Iterable[str]) -> str:
    """Say that a name is not known, and which may be meant."""
    known = tuple(known)
    near = difflib.get_close_matches(name[:100], known, 1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    return f"{shown(name)} is not known here; {hint}"


# Messages. msgspec's end with the place of the value: "Expected `int`, got `str` - at `$.engines[1].arena`".

_PLACE: Final = re.compile(r" - at `\$((?:\.\w+|\[\d+\])*)`\Z")
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
_UNKNOWN: Final = "Object contains unknown field"


def _located(message: str) -> tuple[str, KeyPath]:
    place = _PLACE.search(message)
    if place is None:
        return message, ()
    return message[: place.start()], tuple(step[1] or int(step[2]) for step in _STEP.finditer(place[1]))


def _explained(error: str, kind: inspect.Type, value: Any) -> tuple[str, KeyPath]:  # noqa: ANN401
    if error.startswith(_UNKNOWN):
        found = _unknown_key(kind, value)
        if found is not None:
            return found
    message, path = _located(error)
    for step in path:
        kind, value = _inner(kind, step), value[step]
    if missing := _MISSING.fullmatch(message):
        return f"it has no {missing[1]}, which must be given", path
    problem = _mismatch(kind, value)
    arrays = [each for each in _members(kind) if isinstance(each, inspect.VarTupleType)]
    if len(path) == 1 and any(isinstance(array.item_type, inspect.StructType) for array in arrays):
        problem += f"; write [[{path[0]}]] above each"
    return problem, path


def _unknown_key(kind: inspect.Type, value: object, path: KeyPath = ()) -> tuple[str, KeyPath] | None:
    """Find the first key that no class has; a key may have any characters, so not in msgspec's message."""
    inner: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict) and (known := _keys(kind)):
        for key in value:
            if key not in known:
                return unknown(key, known), (*path, key)
        inner = value.items()
    elif isinstance(value, list) and any(isinstance(each, inspect.VarTupleType) for each in _members(kind)):
        inner = enumerate(value)
    found = (_unknown_key(_inner(kind, step), each, (*path, step)) for step, each in inner)
    return next(filter(None, found), None)


def _inner(kind: inspect.Type, step: str | int) -> inspect.Type:
    """Return the type of a table's field, or of an array's elements."""
    for each in _members(kind):
        if isinstance(each, inspect.StructType) and isinstance(step, str):
            return next(field.type for field in each.fields if field.encode_name == step)
        if isinstance(each, inspect.VarTupleType) and isinstance(step, int):
            return each.item_type
    raise TypeError(f"no field {step!r} in {kind}")


def _members(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    """Return the types of a union but for None, or the one type."""
    if isinstance(kind, inspect.UnionType):
        return tuple(each for each in kind.types if not isinstance(each, inspect.NoneType))
    return (kind,)


def _keys(kind: inspect.Type) -> tuple[str, ...]:
    tables = [each for each in _members(kind) if isinstance(each, inspect.StructType)]
    return tuple(field.encode_name for table in tables for field in table.fields)


def _mismatch(kind: inspect.Type, value: object) -> str:
    choices = [choice for each in _members(kind) for choice in _choices(each)]
    if choices and isinstance(value, str):
        return unknown(value, choices)
    wanted = " or ".join(_wanted(each, value) for each in _members(kind))
    return f"must be {wanted}, not {shown(value)}"


def _choices(kind: inspect.Type) -> tuple[str, ...]:
    if isinstance(kind, inspect.LiteralType):
        return tuple(map(str, kind.values))
    if isinstance(kind, inspect.EnumType):
        return tuple(str(member.value) for member in kind.cls)
    return ()


def _wanted(kind: inspect.Type, value: object) -> str:
    """Describe what a type accepts, and of general bounds the one that the value passes."""
    match kind:
        case inspect.Metadata(_, {"description": str(description)}):
            return description
        case inspect.IntType():
            return f"a whole number{_range(kind, value)}"
        case inspect.FloatType():
            return f"a {'finite ' if isinstance(value, float) else ''}number{_range(kind, value)}"
        case inspect.StrType():
            return "a text in quotes"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType() | inspect.EnumType():
            return f"one of {', '.join(_choices(kind))}"
        case inspect.VarTupleType():
            count = "" if kind.max_length is None else f"{kind.min_length or 0} to {kind.max_length} "
            return f"an array of {count}{' or '.join(map(_plural, _members(kind.item_type)))}"
        case inspect.StructType():
            return f"a table with {', '.join(_keys(kind))}"
        case inspect.CustomType(cls):
            return "the path of a file" if cls is Path else "a size, such as 4096, 448K or 16M"
        case _:
            raise TypeError(f"settings have no {kind}")


def _range(kind: inspect.IntType | inspect.FloatType, value: object) -> str:
    if kind.gt is not None:
        return f" above {kind.gt:g}"
    if kind.ge is None or kind.le is None:
        return ""
    is_general = kind.ge == -_LARGEST
    if is_general and not (isinstance(value, int) and abs(value) > _LARGEST):
        return ""
    return f" from {kind.ge:.0f} to {kind.le:.0f}"


def _plural(kind: inspect.Type) -> str:
    return "tables" if isinstance(kind, inspect.StructType) else 'texts, such as ["red", "green"]'
