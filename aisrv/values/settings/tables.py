"""The tables of a TOML file as typed classes, declared with msgspec.

    class Engine(Table, frozen=True, rename={"arena_bytes": "arena"}):
        tile: Integer | None = None
        arena_bytes: Size | None = None

Keys that a class does not have are refused. Beside msgspec's own types, fields may be a `Size`, written as a
number or a text, a `Path`, which is relative to the file's directory, and a clock in `Hertz`, written in MHz.
What does not fit is reported with file, line and key, and says what is allowed or which key may be meant.
"""

from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec

from aisrv.values.settings.size import Size
from aisrv.values.settings.toml_file import LARGEST_NUMBER, TomlFile, shown

Integer = Annotated[int, msgspec.Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
"""A whole number of some size."""
Number = Annotated[float, msgspec.Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
"""A number of some size, whole or not; neither infinite nor NaN."""

T = TypeVar("T")


class Hertz(int):
    """A clock in Hz, which files have as a whole number of MHz."""

    __slots__ = ()


_OWN: Final = {
    Size: "a size, such as 4096, 448K or 16M",
    Path: "the path of a file",
    Hertz: "a whole number",
}
"""Types that msgspec leaves to `convert`."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all tables. TOML has no null, so None is the value of a key that is left out."""

    def given(self) -> dict[str, Any]:
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


def convert(file: TomlFile, kind: type[T]) -> T:
    """Convert a file's values to a class. Raises SettingsError."""

    def convert_own(own: type, value: object) -> Any:  # noqa: ANN401 - what msgspec wants
        if own is Size and type(value) is int and 0 <= value <= LARGEST_NUMBER:
            return Size(value)
        if own is Size and isinstance(value, str) and (size := Size.parse(value)) <= LARGEST_NUMBER:
            return size
        if own is Path and isinstance(value, str) and value and "\0" not in value:
            return file.directory / value
        if own is Hertz and type(value) is int:
            if abs(value) <= LARGEST_NUMBER:
                return Hertz(value * 1_000_000)
            raise ValueError(
                f"must be a whole number from {-LARGEST_NUMBER} to {LARGEST_NUMBER}, not {shown(value)}"
            )
        raise ValueError(f"must be {_OWN[own]}, not {shown(value)}")

    try:
        return msgspec.convert(file.values, kind, dec_hook=convert_own, str_keys=True)
    except msgspec.ValidationError as error:
        from aisrv.values.settings.mismatch import explain, locate

        # An error with a cause has the words of `convert_own`.
        message, path = locate(str(error)) if error.__cause__ else explain(str(error), kind, file.values)
        raise file.error(message, path) from None
