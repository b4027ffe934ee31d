"""The options of custom operators: a flexbuffer that maps names to integers, bytes, and lists of them."""

from typing import Any, Final, Self

from aisrv.values.parser_errors import parser_errors

LARGEST_OPTIONS: Final = 1 << 16
"""Bytes of options that are read: those that hold only numbers have a few dozen."""
MAX_ELEMENTS: Final = 10
"""Elements of a list that is read: as many as XMOS's kernels fill tensors in one load."""

_MAX_PARTS: Final = 100
"""Elements of a list of bytes that is read: a convolution has some for each thread."""


class CustomOptions:
    """Options by name. Every method raises ValueError with the reason for what cannot be read."""

    def __init__(self, options: Any) -> None:  # noqa: ANN401 - the package has no types
        """Take a map of the package `flatbuffers`."""
        self._options = options

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        from flatbuffers import flexbuffers  # with numpy, which few models need

        if not 3 <= len(data) <= LARGEST_OPTIONS:
            raise ValueError(f"{len(data)} bytes: options have 3 to {LARGEST_OPTIONS}")
        with parser_errors("custom options", ValueError):
            root = flexbuffers.GetRoot(data)
            if not root.IsMap:
                raise ValueError("the root is not a map")
            return cls(root.AsMap)

    @property
    def names(self) -> frozenset[str]:
        with parser_errors("custom options", ValueError):
            return frozenset(_text(key) for key in self._options.Keys)

    def data(self, *names: str) -> bytes | None:
        """Return the string or blob with the first of these names that exists, or None."""
        with parser_errors("custom options", ValueError):
            value = self._find(names)
            return None if value is None else _bytes(value)

    def first_data(self, *names: str) -> tuple[bytes, ...]:
        """Return the strings and blobs of a list, or of the first list in it; nothing if there is none."""
        with parser_errors("custom options", ValueError):
            value = self._find(names)
            if value is None:
                return ()
            if not _is_list(value):
                raise ValueError(f"{value!r} is not a list")
            elements = _elements(value)
            if elements and _is_list(elements[0]):
                elements = _elements(elements[0])
            return tuple(_bytes(each) for each in elements if each.IsString or each.IsBlob)

    def integer(self, *names: str) -> int | None:
        """Return the integer with the first of these names that exists, or None."""
        with parser_errors("custom options", ValueError):
            value = self._find(names)
            return None if value is None else _integer(value)

    def integers(self, *names: str) -> tuple[int, ...] | None:
        """Return the list of integers with the first of these names that exists, or None."""
        with parser_errors("custom options", ValueError):
            value = self._find(names)
            return None if value is None else _integers(value)

    def _find(self, names: tuple[str, ...]) -> Any:  # noqa: ANN401
        for name in names:
            try:
                return self._options[name]
            except KeyError:
                continue
        return None


def _is_list(value: Any) -> bool:  # noqa: ANN401
    return (value.IsVector and not value.IsMap) or value.IsTypedVector or value.IsFixedTypedVector


def _elements(value: Any) -> list[Any]:  # noqa: ANN401
    vector = value.AsVector if value.IsVector else value.AsTypedVector
    count = len(vector)
    if count > _MAX_PARTS:
        raise ValueError(f"a list has {count} elements, at most {_MAX_PARTS} can be")
    return [vector[index] for index in range(count)]


def _text(key: Any) -> str:  # noqa: ANN401
    return str(key.AsKeyBytes, "utf-8", "replace")


def _bytes(value: Any) -> bytes:  # noqa: ANN401
    """Read a string or blob: XMOS's converter writes strings that are no text, which the package refuses."""
    if value.IsBlob:
        return bytes(value.AsBlob)
    if not value.IsString:
        raise ValueError(f"{value!r} has no bytes")
    from flatbuffers import flexbuffers

    return bytes(flexbuffers.String(value._Indirect(), value._byte_width).Bytes)


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
