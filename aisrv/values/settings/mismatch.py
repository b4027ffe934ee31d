"""Messages for values that do not fit the tables of a file: the allowed ones, or the nearest key.

msgspec's messages end with the place of the value: "Expected `int`, got `str` - at `$.engines[1].arena`". It
is "[...]" in a table whose keys are the user's; the values there are texts.
"""

import difflib
import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import inspect

from aisrv.values.settings.errors import KeyPath
from aisrv.values.settings.toml_file import LARGEST_NUMBER, shown

_PLACE: Final = re.compile(r" - at `\$((?:\.\w+|\[\d+\])*)(?:\[\.\.\.\])?`\Z")
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
_UNKNOWN: Final = "Object contains unknown field"


def locate(message: str) -> tuple[str, KeyPath]:
    """Split msgspec's message into its text and the path of the key."""
    place = _PLACE.search(message)
    if place is None:
        return message, ()
    return message[: place.start()], tuple(step[1] or int(step[2]) for step in _STEP.finditer(place[1]))


def explain(error: str, table: type, value: Any) -> tuple[str, KeyPath]:  # noqa: ANN401 - whatever TOML has
    """Return the error of a table of values, and the path of the key; `error` is msgspec's message."""
    kind = inspect.type_info(table)
    if error.startswith(_UNKNOWN):
        found = _unknown_key(kind, value)
        if found is not None:
            return found
    message, path = locate(error)
    for step in path:
        kind, value = _inner(kind, step), value[step]
    if isinstance(value, dict) and any(isinstance(each, inspect.DictType) for each in _members(kind)):
        key = next(key for key, each in value.items() if not isinstance(each, str))
        kind, value, path = inspect.StrType(), value[key], (*path, key)
    if missing := _MISSING.fullmatch(message):
        return f"the key {missing[1]} is missing", path
    problem = _mismatch(kind, value)
    if len(path) == 1 and any(isinstance(array.item_type, inspect.StructType) for array in _arrays(kind)):
        problem += f"; write [[{path[0]}]] above each"
    return problem, path


def _unknown_key(kind: inspect.Type, value: object, path: KeyPath = ()) -> tuple[str, KeyPath] | None:
    """Find the first key that no class has; a key may have any characters, so not in msgspec's message."""
    inner: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict) and (known := _keys(kind)):
        for key in value:
            if key not in known:
                return _unknown(key, known), (*path, key)
        inner = value.items()
    elif isinstance(value, list) and (_arrays(kind) or isinstance(kind, inspect.TupleType)):
        inner = enumerate(value)
    found = (_unknown_key(_inner(kind, step), each, (*path, step)) for step, each in inner)
    return next(filter(None, found), None)


def _unknown(name: str, known: Iterable[str]) -> str:
    known = tuple(known)
    near = difflib.get_close_matches(name[:100], known, 1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    return f"{shown(name)} is not known here; {hint}"


def _inner(kind: inspect.Type, step: str | int) -> inspect.Type:
    """Return the type of a table's field, or of an array's elements."""
    for each in _bare_members(kind):
        if isinstance(each, inspect.StructType) and isinstance(step, str):
            return next(field.type for field in each.fields if field.encode_name == step)
        if isinstance(each, inspect.VarTupleType) and isinstance(step, int):
            return each.item_type
        if isinstance(each, inspect.TupleType) and isinstance(step, int):
            return each.item_types[step]
    raise TypeError(f"no field {step!r} in {kind}")


def _members(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    """Return the types of a union but for None, or the one type."""
    if isinstance(kind, inspect.UnionType):
        return tuple(each for each in kind.types if not isinstance(each, inspect.NoneType))
    return (kind,)


def _bare_members(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    return tuple(each.type if isinstance(each, inspect.Metadata) else each for each in _members(kind))


def _arrays(kind: inspect.Type) -> tuple[inspect.VarTupleType, ...]:
    return tuple(each for each in _bare_members(kind) if isinstance(each, inspect.VarTupleType))


def _keys(kind: inspect.Type) -> tuple[str, ...]:
    tables = [each for each in _bare_members(kind) if isinstance(each, inspect.StructType)]
    return tuple(field.encode_name for table in tables for field in table.fields)


def _mismatch(kind: inspect.Type, value: object) -> str:
    choices = [choice for each in _members(kind) for choice in _choices(each)]
    if choices and isinstance(value, str):
        return _unknown(value, choices)
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
        case inspect.DictType():
            return "a table of texts"
        case inspect.StructType():
            return f"a table with {', '.join(_keys(kind))}"
        case _:
            raise TypeError(f"settings have no {kind}")


def _range(kind: inspect.IntType | inspect.FloatType, value: object) -> str:
    if kind.gt is not None and kind.le is not None:
        return f" above {kind.gt:g}, at most {kind.le:.0f}"
    if kind.ge is None or kind.le is None:
        return ""
    is_general = kind.ge == -LARGEST_NUMBER
    if is_general and not (isinstance(value, int) and abs(value) > LARGEST_NUMBER):
        return ""
    return f" from {kind.ge:.0f} to {kind.le:.0f}"


def _plural(kind: inspect.Type) -> str:
    return "tables" if isinstance(kind, inspect.StructType) else "texts"
