"""The options of custom operators: a flexbuffer that maps names to integers and lists of them."""

import struct
from typing import Any, Final, Self

LARGEST_OPTIONS: Final = 1 << 16
"""Bytes of options that are read: those that hold only numbers have a few dozen."""
MAX_ELEMENTS: Final = 10
"""Elements of a list that is read: as many as XMOS's kernels fill tensors in one load."""

# The package follows every offset and takes every length for true: slices and conversions fail in many ways.
_UNREADABLE: Final = (struct.error, ArithmeticError, AssertionError, LookupError, TypeError, ValueError)


class CustomOptions:
    """Options by name. All that cannot be read raises ValueError with the reason."""

    def __init__(self, options: Any) -> None:  # noqa: ANN401 - the package has no types
        """Take a map of the package `flatbuffers`."""
        self._options = options

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a flexbuffer."""
        from flatbuffers import flexbuffers  # with numpy, which few models need

        if not 3 <= len(data) <= LARGEST_OPTIONS:
            raise ValueError(f"{len(data)} bytes: options have 3 to {LARGEST_OPTIONS}")
        try:
            root = flexbuffers.GetRoot(data)
            if not root.IsMap:
                raise ValueError("the root is not a map")
            return cls(root.AsMap)
        except _UNREADABLE as error:
            raise ValueError(str(error) or type(error).__name__) from error

    def integer(self, *names: str) -> int | None:
        """Return the integer that has one of these names, None where there is none."""
        try:
            value = self._find(names)
            return None if value is None else _integer(value)
        except _UNREADABLE as error:
            raise ValueError(str(error) or type(error).__name__) from error

    def integers(self, *names: str) -> tuple[int, ...] | None:
        """Return the list of integers that has one of these names, None where there is none."""
        try:
            value = self._find(names)
            return None if value is None else _integers(value)
        except _UNREADABLE as error:
            raise ValueError(str(error) or type(error).__name__) from error

    def _find(self, names: tuple[str, ...]) -> Any:  # noqa: ANN401
        for name in names:
            try:
                return self._options[name]
            except KeyError:
                continue
        return None


def _integer(value: Any) -> int:  # noqa: ANN401
    if not value.IsInt:
        raise ValueError(f"{value!r} is not an integer")
    return int(value.AsInt)


def _integers(value: Any) -> tuple[int, ...]:  # noqa: ANN401
    if value.IsFixedTypedVector:
        vector = value.AsFixedTypedVector
    elif value.IsTypedVector:
        vector = value.AsTypedVector
    elif value.IsVector and not value.IsMap:
        vector = value.AsVector
    else:
        raise ValueError(f"{value!r} is not a list of integers")
    count = len(vector)
    if count > MAX_ELEMENTS:
        raise ValueError(f"a list has {count} elements, at most {MAX_ELEMENTS} can be")
    return tuple(_integer(vector[index]) for index in range(count))
