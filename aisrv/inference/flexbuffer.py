"""The flexbuffer in which a custom operator keeps its options: a map of names to integers, or lists of them.

Only what such options hold is read, and every offset is checked. Source: the "FlexBuffers" binary format,
https://flatbuffers.dev/internals: a value lies before whatever refers to it, offsets count backwards, and the
last two bytes are the type and the width of the root.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

LARGEST: Final = 1 << 16
"""Bytes of options that are read: those that hold only numbers have a few dozen."""
MAX_NAMES: Final = 32

_INT: Final = 1
_UINT: Final = 2
_INDIRECT_INT: Final = 6
_INDIRECT_UINT: Final = 7
_MAP: Final = 9
_VECTOR: Final = 10
_STORED: Final = 0
_VECTORS: Final = {
    11: (_INT, _STORED),
    12: (_UINT, _STORED),
    16: (_INT, 2),
    17: (_UINT, 2),
    19: (_INT, 3),
    20: (_UINT, 3),
    22: (_INT, 4),
    23: (_UINT, 4),
}
"""Vectors with one type for all elements: that type, and their length."""


class FlexbufferError(ValueError):
    """Bytes that are no such flexbuffer, or a value of another kind than was asked for."""


class _Value(NamedTuple):
    """A value: where it, or the offset to it, is stored, in how many bytes, and its type."""

    position: int
    width: int
    packed_type: int

    @property
    def type(self) -> int:
        return self.packed_type >> 2

    @property
    def own_width(self) -> int:
        """Width of what it refers to."""
        return 1 << (self.packed_type & 3)


class OptionsMap:
    """The map at the root of a flexbuffer; names are looked up as bytes."""

    def __init__(self, data: bytes) -> None:
        """Find the map; FlexbufferError where there is none."""
        if not 3 <= len(data) <= LARGEST:
            raise FlexbufferError(f"{len(data)} bytes: options have 3 to {LARGEST}")
        self._data = data
        width = data[-1]
        if width not in (1, 2, 4, 8):
            raise FlexbufferError(f"the root is {width} bytes wide: it can be 1, 2, 4 or 8")
        root = _Value(len(data) - 2 - width, width, data[-2])
        if root.type != _MAP:
            raise FlexbufferError(f"the root has type {root.type}: not a map")
        self._start = self._follow(root)
        self._width = root.own_width
        self._names = list(self._read_names())

    def integer(self, name: bytes) -> int:
        """Return an integer; FlexbufferError where there is none of that name."""
        return self._integer(self._find(name), name)

    def integers(self, name: bytes, limit: int) -> tuple[int, ...]:
        """Return a list of at most `limit` integers."""
        vector = self._find(name)
        start = self._follow(vector)
        width = vector.own_width
        if vector.type == _VECTOR:
            count = self._count(start, width, limit, name)
            types = [self._number(start + count * width + index, 1) for index in range(count)]
        elif vector.type in _VECTORS:
            element, count = _VECTORS[vector.type]
            count = count or self._count(start, width, limit, name)
            types = [element << 2] * count
        else:
            raise FlexbufferError(f"{name!r} has type {vector.type}: not a list of integers")
        values = (
            _Value(start + index * width, width, packed_type) for index, packed_type in enumerate(types)
        )
        return tuple(self._integer(value, name) for value in values)

    def __contains__(self, name: bytes) -> bool:
        return name in self._names

    def _find(self, name: bytes) -> _Value:
        if name not in self._names:
            raise FlexbufferError(f"there is no {name!r}")
        index = self._names.index(name)
        packed_type = self._number(self._start + len(self._names) * self._width + index, 1)
        return _Value(self._start + index * self._width, self._width, packed_type)

    def _read_names(self) -> Iterator[bytes]:
        start, width = self._start, self._width
        keys_at = start - 3 * width
        keys = keys_at - self._number(keys_at, width)
        key_width = self._number(start - 2 * width, width)
        if key_width not in (1, 2, 4, 8):
            raise FlexbufferError(f"the names are {key_width} bytes wide: they can be 1, 2, 4 or 8")
        for index in range(self._count(start, width, MAX_NAMES, b"the map")):
            at = keys + index * key_width
            name = at - self._number(at, key_width)
            end = self._data.find(b"\0", max(name, 0))
            if name < 0 or end < 0:
                raise FlexbufferError(f"name {index} lies outside the {len(self._data)} bytes")
            yield self._data[name:end]

    def _count(self, start: int, width: int, limit: int, name: bytes) -> int:
        count = self._number(start - width, width)
        if count > limit:
            raise FlexbufferError(f"{name!r} has {count} elements, at most {limit} can be")
        return count

    def _integer(self, value: _Value, name: bytes) -> int:
        if value.type in (_INT, _UINT):
            return self._number(value.position, value.width, signed=value.type == _INT)
        if value.type in (_INDIRECT_INT, _INDIRECT_UINT):
            signed = value.type == _INDIRECT_INT
            return self._number(self._follow(value), value.own_width, signed=signed)
        raise FlexbufferError(f"{name!r} has type {value.type}: not an integer")

    def _follow(self, value: _Value) -> int:
        return value.position - self._number(value.position, value.width)

    def _number(self, position: int, width: int, *, signed: bool = False) -> int:
        if position < 0 or position + width > len(self._data):
            raise FlexbufferError(f"{width} bytes at {position} lie outside the {len(self._data)}")
        return int.from_bytes(self._data[position : position + width], "little", signed=signed)
