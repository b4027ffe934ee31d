"""Packets: values of a fixed layout, whose fields are declared once.

    class UsbPacket(Packet, byte_order="<", error=DescriptorError): ...

    class SetupPacket(UsbPacket, name="a SETUP packet"):
        request_type: U8
        request: U8
        value: U16
        index: U16
        length: U16

Packets are frozen structs of msgspec; `replace`, from here, works on them. The annotations that are wire
types, such as `U16`, make the layout, in the order in which they stand; a class inherits none. A class
variable with a wire type is a constant: it is written with its value, and read bytes must have that value;
constants come before fields. One of type `Pad...` is padding: written as zeros, not looked at. A last field
of type `Rest` takes the bytes after the layout. Fields of any other type come last, have a default, and do
not cross the wire.

Byte order and exception are those of the base class of a layer. Other people's programs load this module
through `host_tools/standins/injection`: it suits Python 3.10, and does without msgspec.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from inspect import get_annotations
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, get_args, get_origin

if TYPE_CHECKING:
    from typing import Self, dataclass_transform

    from msgspec import Struct, StructMeta
    from msgspec.structs import replace as replace  # noqa: PLC0414 - so that others may import it
else:

    def dataclass_transform(**_options: object) -> Callable[[type], type]:
        """Do what the one of `typing` does at run time; Python 3.10 has none."""
        return lambda cls: cls

    try:
        from msgspec import Struct, StructMeta
        from msgspec.structs import replace
    except ImportError:  # there is none, or one before 0.20
        from dataclasses import dataclass, replace  # noqa: F401 - for others, as above

        Struct = object

        class StructMeta(type):
            """Makes a dataclass where msgspec makes a struct."""

            def __new__(
                cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: bool
            ) -> type:
                """`options` are those that `dataclass` has, too."""
                return dataclass(**options)(super().__new__(cls, name, bases, namespace))


Buffer = bytes | bytearray | memoryview


class Wire(NamedTuple):
    """Form of a field on the wire: its format as the `struct` module has it, and its meaning.

    `decode` makes the field's value of what `struct` reads, or raises ValueError; `encode` is its inverse.
    """

    format: str
    decode: Callable[[Any], Any] | None = None
    encode: Callable[[Any], Any] | None = None


_REST = Wire("0s")

U8 = Annotated[int, Wire("B")]
U16 = Annotated[int, Wire("H")]
U32 = Annotated[int, Wire("I")]
U64 = Annotated[int, Wire("Q")]
I8 = Annotated[int, Wire("b")]
I32 = Annotated[int, Wire("i")]
I64 = Annotated[int, Wire("q")]
Pointer = Annotated[int, Wire("P")]
"""An address, for packets in the machine's own layout (byte order "@")."""
Pad1 = Annotated[None, Wire("x")]
Pad3 = Annotated[None, Wire("3x")]
Pad4 = Annotated[None, Wire("4x")]
Pad8 = Annotated[None, Wire("8x")]
Pad12 = Annotated[None, Wire("12x")]
Pad16 = Annotated[None, Wire("16x")]
Pad20 = Annotated[None, Wire("20x")]
Pad24 = Annotated[None, Wire("24x")]
Pad40 = Annotated[None, Wire("40x")]
Rest = Annotated[bytes, _REST]

Codecs = tuple[tuple[int, Callable[[Any], Any]], ...]
"""Codecs of fields, each with the place of its field."""


def _wire_annotations(cls: type) -> Iterator[tuple[str, Wire, bool]]:
    """Yield the fields of a class that cross the wire, and whether they are constants."""
    for field, annotation in get_annotations(cls, eval_str=True).items():
        origin: Any = get_origin(annotation)
        is_constant = origin is ClassVar
        inner = get_args(annotation)[0] if is_constant else annotation
        for wire in getattr(inner, "__metadata__", ()):
            # By name: `typing` has one alias for equal ones, maybe that of another copy of this module.
            if type(wire).__name__ == Wire.__name__:
                yield field, wire, is_constant


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a getter of several attributes; `attrgetter` gives a single one without a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda packet: tuple(getattr(packet, name) for name in names)


def _indexed(codecs: Iterable[Any]) -> Codecs:
    """Return the codecs of the fields that have one, with the places of these fields."""
    return tuple((index, codec) for index, codec in enumerate(codecs) if codec)


class PacketType(StructMeta):
    """Metaclass of packets: adds to a struct the readers and writers of its layout."""

    def __new__(
        cls,
        class_name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        frozen: bool = True,
        kw_only: bool = False,
        **settings: object,
    ) -> Any:  # noqa: ANN401 - mypy sees the class statement alone
        """Create a class with `byte_order`, as in `struct`, `error`, and the `name` for messages."""
        namespace |= {f"_{setting}": value for setting, value in settings.items()}
        made: Any = super().__new__(cls, class_name, bases, namespace, frozen=frozen, kw_only=kw_only)
        if bases[0] is not Struct:
            made._compile(kw_only=kw_only)
        return made


@dataclass_transform(frozen_default=True)
class Packet(Struct, metaclass=PacketType, frozen=True):
    """Base of the values that cross a wire; see above for how their fields are declared."""

    SIZE: ClassVar[int]
    """Bytes of the layout, without those of a last field of type `Rest`."""

    _byte_order: ClassVar[str] = "<"
    _error: ClassVar[type[Exception]] = ValueError
    _name: ClassVar[str] = "a packet"
    _wires: ClassVar[dict[str, Wire]]
    _rest: ClassVar[str | None]
    _constants: ClassVar[dict[str, Any]]
    _expected: ClassVar[tuple[Any, ...]]
    _decoders: ClassVar[Codecs]
    _encoders: ClassVar[Codecs]
    _values: ClassVar[staticmethod[[Any], tuple[Any, ...]]]
    _unpack_from: ClassVar[Callable[[Buffer, int], tuple[Any, ...]]]
    _pack: ClassVar[Callable[..., bytes]]
    _make: ClassVar[Callable[..., Any]]

    @classmethod
    def _compile(cls, *, kw_only: bool) -> None:
        """Compile the annotations to readers and writers."""
        cls._wires, cls._constants, cls._rest = {}, {}, None
        fields = []
        for field, wire, is_constant in _wire_annotations(cls):
            if wire == _REST:  # equal, not the same: it may be that of another copy of this module
                cls._rest = field
                continue
            cls._wires[field] = wire
            if wire.format.endswith("x"):
                continue
            if not is_constant:
                fields.append(field)
            elif fields:
                raise TypeError(f"{cls.__name__}: the constant {field} comes after a field")
            else:
                cls._constants[field] = getattr(cls, field)
        if not cls._wires:  # the base of a layer
            return
        written = [*cls._constants, *fields]
        layout = cls.struct_of(*written)
        cls.SIZE, cls._unpack_from, cls._pack = layout.size, layout.unpack_from, layout.pack
        cls._expected = tuple(cls._constants.values())
        cls._values = staticmethod(_getter(written))
        cls._encoders = _indexed(cls._wires[field].encode for field in written)
        cls._decoders = _indexed(cls._wires[field].decode for field in fields)
        names = [*fields, cls._rest] if cls._rest else fields
        cls._make = (
            staticmethod(lambda *values: cls(**dict(zip(names, values, strict=True)))) if kw_only else cls
        )

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Read a packet that is all of `data`. Raises the layer's error for bad sizes or values."""
        if len(data) != cls.SIZE and not (cls._rest and len(data) > cls.SIZE):
            more = " or more" if cls._rest else ""
            raise cls._error(f"{cls._name} has {cls.SIZE} bytes{more}, not {len(data)}")
        return cls._read(data, 0)

    @classmethod
    def unpack_from(cls, data: Buffer, offset: int = 0) -> Self:
        """Read the packet at `offset` of a larger buffer. Raises the layer's error if it ends too early."""
        if len(data) - offset < cls.SIZE:
            raise cls._error(f"{cls._name} has {cls.SIZE} bytes, not {max(len(data) - offset, 0)}")
        return cls._read(data, offset)

    @classmethod
    def _read(cls, data: Buffer, offset: int) -> Self:
        values = cls._unpack_from(data, offset)
        if cls._expected:
            found, values = values[: len(cls._expected)], values[len(cls._expected) :]
            if found != cls._expected:
                raise cls._wrong_constant(found)
        if cls._decoders:
            try:
                values = _converted(cls._decoders, values)
            except ValueError as error:
                raise cls._error(f"{cls._name}: {error}") from None
        if cls._rest:
            values += (bytes(data[offset + cls.SIZE :]),)
        try:
            packet: Self = cls._make(*values)
        except ValueError as error:  # of a `__post_init__`
            if type(error) is cls._error:
                raise
            raise cls._error(str(error)) from None
        return packet

    def __bytes__(self) -> bytes:
        try:
            values = self._values(self)
            data = self._pack(*(_converted(self._encoders, values) if self._encoders else values))
        except struct.error as error:
            raise self._error(f"{self} does not fit the {self.SIZE} bytes of {self._name}: {error}") from None
        return data + getattr(self, self._rest) if self._rest else data

    @classmethod
    def layout(cls) -> list[tuple[str, int, str]]:
        """The fields in their order: name, offset in bytes, and format as the `struct` module has it."""
        formats, places = cls._byte_order, []
        for field, wire in cls._wires.items():
            formats += wire.format
            start = struct.calcsize(formats) - struct.calcsize(cls._byte_order + wire.format)
            places.append((field, start, wire.format))
        return places

    @classmethod
    def struct_of(cls, *fields: str) -> struct.Struct:
        """Return the layout with these fields alone, the others as padding.

        For code that handles so many packets that an object for each would take too long.
        """
        order = cls._byte_order
        formats = (
            wire.format
            if field in fields
            else f"0{wire.format[-1]}{struct.calcsize(order + wire.format)}x"  # aligned as it was
            for field, wire in cls._wires.items()
        )
        return struct.Struct(order + "".join(formats))

    @classmethod
    def span_of(cls, first: str, last: str) -> struct.Struct:
        """Return the fields from `first` to `last` alone, without the bytes before and after them."""
        names = list(cls._wires)
        span = names[names.index(first) : names.index(last) + 1]
        return struct.Struct(cls._byte_order + "".join(cls._wires[field].format for field in span))

    @classmethod
    def _wrong_constant(cls, found: tuple[Any, ...]) -> Exception:
        field, wanted, got = next(
            (field, wanted, got)
            for (field, wanted), got in zip(cls._constants.items(), found, strict=True)
            if got != wanted
        )
        what = field.replace("_", " ")
        return cls._error(f"expected {cls._name} with {what} {_shown(wanted)}, got {what} {got!r}")


def _converted(codecs: Codecs, values: tuple[Any, ...]) -> tuple[Any, ...]:
    converted = list(values)
    for index, codec in codecs:
        converted[index] = codec(converted[index])
    return tuple(converted)


def _shown(value: object) -> str:
    return f"{value.name} ({value.value})" if isinstance(value, Enum) else repr(value)
