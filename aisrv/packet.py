"""Packets: values of a fixed layout, whose fields are declared once.

    class UsbPacket(Packet, byte_order="<", error=DescriptorError): ...

    class SetupPacket(UsbPacket, name="a SETUP packet"):
        request_type: U8
        request: U8
        value: U16
        index: U16
        length: U16

Packets are frozen dataclasses with slots; `fields` and `replace` of `dataclasses` work on them. To make a
dataclass takes longer than to load a module, and few programs use all packets: each is made at its first use.

The annotations that are wire types, such as `U16`, make the layout, in the order in which they stand. A class
variable with a wire type is a constant: it is written with its value, and read bytes must have that value.
One of type `Pad...` is padding: written as zeros, not looked at. A last field of type `Rest` takes the bytes
after the layout. Fields of any other type must come last, have a default, and do not cross the wire.

Byte order and exception are those of the base class of a layer. Other people's programs load this module
through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

import dataclasses
import struct
import threading
from enum import Enum
from inspect import get_annotations
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self, dataclass_transform

    Buffer = bytes | bytearray | memoryview
else:

    def dataclass_transform(**_options: object) -> Callable[[type], type]:
        """Do what the one of `typing` does at run time; Python 3.10 has none."""
        return lambda cls: cls


class Wire(NamedTuple):
    """How a field crosses the wire: its format as the `struct` module has it, and what it means.

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


_MAKING = threading.RLock()
"""Held while a class is completed: the threads of a host may use a packet for the first time at once."""

_TAKEN = (
    "__repr__",
    "__eq__",
    "__hash__",
    "__match_args__",
    "__replace__",
    "__dataclass_params__",
    "__dataclass_fields__",
    "__init__",
)
"""What a packet takes of the dataclass, where this Python makes it; with `__init__` the class is complete."""


class _MadeLater:
    """An attribute of a packet's class that a class method of this name makes when it is first asked for."""

    def __init__(self, make: str) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, packet: Packet | None, owner: type[Packet]) -> Any:  # noqa: ANN401 - of whatever type
        if not owner._slots:
            raise AttributeError(f"{owner.__name__} has no fields, and so no {self._name}")
        getattr(owner, self._make)()
        return getattr(owner, self._name)


class PacketType(type):
    """The type of the classes of packets: gives them slots for their fields."""

    _slots: tuple[str, ...]
    _defaults: dict[str, Any]

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **options: object
    ) -> PacketType:
        """Take the defaults out of the class: a slot and a default cannot have one name."""
        slots = [
            field
            for field, annotation in namespace.get("__annotations__", {}).items()
            if not str(annotation).removeprefix("typing.").startswith("ClassVar")
        ]
        defaults = {field: namespace.pop(field) for field in slots if field in namespace}
        own = {"__slots__": tuple(slots), "_slots": tuple(slots), "_defaults": defaults}
        return super().__new__(cls, name, bases, own | namespace, **options)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Packet(metaclass=PacketType):
    """Base of the frozen dataclasses that cross a wire; see above for how their fields are declared."""

    if not TYPE_CHECKING:

        def __init__(self, *values: object, **fields: object) -> None:
            """Make the class a dataclass, whose `__init__` takes the place of this one."""
            self.make_dataclass()
            self.__init__(*values, **fields)

        def __setattr__(self, name: str, value: object) -> None:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name: str) -> None:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

        SIZE = _MadeLater("compile_layout")
        _read_fields = _MadeLater("compile_layout")
        _wires = _MadeLater("compile_layout")
        _write = _MadeLater("compile_layout")
        __dataclass_fields__ = _MadeLater("make_dataclass")
        __match_args__ = _MadeLater("make_dataclass")

    SIZE: ClassVar[int]
    """Bytes of the layout, without those of a last field of type `Rest`."""

    _order: ClassVar[str] = "<"
    _error: ClassVar[type[Exception]] = ValueError
    _name: ClassVar[str] = "a packet"
    _wires: ClassVar[dict[str, Wire]]
    _rest: ClassVar[str | None]
    _constants: ClassVar[dict[str, Any]]
    _constant_values: ClassVar[tuple[Any, ...]]
    _read_constants: ClassVar[Callable[[Buffer, int], tuple[Any, ...]]]
    _read_fields: ClassVar[Callable[[Buffer, int], tuple[Any, ...]]]
    _leading_constants: ClassVar[bool]
    _decoders: ClassVar[tuple[tuple[int, Callable[[Any], Any]], ...]]
    _keywords: ClassVar[tuple[str, ...]]
    _setters: ClassVar[tuple[Callable[[Any, Any], None], ...] | None]
    _values: ClassVar[staticmethod[[Any], tuple[Any, ...]]]
    _encoders: ClassVar[tuple[tuple[int, Callable[[Any], Any]], ...]]
    _write: ClassVar[Callable[..., bytes]]

    def __init_subclass__(
        cls, *, byte_order: str | None = None, error: type[Exception] | None = None, name: str | None = None
    ) -> None:
        """`byte_order` is struct's, `name` what messages call the packet, article included."""
        super().__init_subclass__()
        cls._order = byte_order or cls._order
        cls._error = error or cls._error
        cls._name = name or cls._name

    @classmethod
    def make_dataclass(cls) -> None:
        """Complete the class with what `dataclass` makes of one with the same fields, which has no slots."""
        with _MAKING:
            if "__init__" in cls.__dict__:
                return
            hidden = {*cls._slots, "__slots__"}
            own = {name: value for name, value in cls.__dict__.items() if name not in hidden}
            made: type = dataclasses.dataclass(frozen=True)(type(cls.__name__, (), own | cls._defaults))
            for name in _TAKEN:
                if name in made.__dict__:
                    setattr(cls, name, made.__dict__[name])

    @classmethod
    def compile_layout(cls) -> None:
        """Make of the annotations what reads and writes packets; what others look for first comes last."""
        with _MAKING:
            if "_write" in cls.__dict__:
                return
            wires: dict[str, Wire] = {}
            constants: dict[str, Any] = {}
            fields: list[str] = []
            cls._rest = None
            for field, wire, is_constant in _wire_annotations(cls):
                if wire is _REST:
                    cls._rest = field
                    continue
                wires[field] = wire
                if wire.format.endswith("x"):
                    continue
                if is_constant:
                    constants[field] = getattr(cls, field)
                else:
                    fields.append(field)
            cls._wires, cls._constants = wires, constants
            cls._constant_values = tuple(constants.values())
            written = [field for field in wires if field in constants or field in fields]
            layout = struct.Struct(cls._order + "".join(wire.format for wire in wires.values()))
            cls._values = _getter(written)
            cls._encoders = _indexed([wires[field].encode for field in written])
            cls._decoders = _indexed([wires[field].decode for field in fields])
            names = [*fields, cls._rest] if cls._rest else fields
            cls._keywords, cls._setters = tuple(names), None
            # One read is enough where no constant lies between fields.
            cls._leading_constants = written == [*constants, *fields]
            if not cls._leading_constants:
                cls._read_constants = cls.struct_of(*constants).unpack_from
            cls._read_fields = (layout if cls._leading_constants else cls.struct_of(*fields)).unpack_from
            cls.SIZE = layout.size
            cls._write = layout.pack

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Read a packet that is all of `data`; the layer's error for another size or what makes no sense."""
        if len(data) != cls.SIZE and not (cls._rest and len(data) > cls.SIZE):
            more = " or more" if cls._rest else ""
            raise cls._error(f"{cls._name} has {cls.SIZE} bytes{more}, not {len(data)}")
        return cls._read(data, 0)

    @classmethod
    def unpack_from(cls, data: Buffer, offset: int = 0) -> Self:
        """Read the packet at `offset` of a larger buffer; the layer's error where it ends too early."""
        if len(data) - offset < cls.SIZE:
            raise cls._error(f"{cls._name} has {cls.SIZE} bytes, not {max(len(data) - offset, 0)}")
        return cls._read(data, offset)

    @classmethod
    def _read(cls, data: Buffer, offset: int) -> Self:
        values = cls._read_fields(data, offset)
        constants = cls._constant_values
        if constants:
            if cls._leading_constants:
                found, values = values[: len(constants)], values[len(constants) :]
            else:
                found = cls._read_constants(data, offset)
            if found != constants:
                raise cls._wrong_constant(found)
        if cls._decoders:
            try:
                values = _converted(cls._decoders, values)
            except ValueError as error:
                raise cls._error(f"{cls._name}: {error}") from None
        if cls._rest:
            values += (bytes(data[offset + cls.SIZE :]),)
        setters = cls._setters
        if setters is None:
            setters = cls._setters = _setters(cls, cls._keywords)
        if setters:
            packet = object.__new__(cls)
            for setter, value in zip(setters, values):  # noqa: B905 - as many, and this is a hot path
                setter(packet, value)
            return packet
        try:
            return cls(**dict(zip(cls._keywords, values, strict=True)))
        except ValueError as error:
            if type(error) is cls._error:
                raise
            raise cls._error(str(error)) from None

    def __bytes__(self) -> bytes:
        write = self._write  # first: it may have to be made
        try:
            values = self._values(self)
            if self._encoders:
                values = _converted(self._encoders, values)
            data = write(*values)
        except struct.error as error:
            raise self._error(f"{self} does not fit the {self.SIZE} bytes of {self._name}: {error}") from None
        return data + getattr(self, self._rest) if self._rest else data

    @classmethod
    def struct_of(cls, *fields: str) -> struct.Struct:
        """The layout with these fields alone, the others as padding.

        For code that handles so many packets that an object for each would take too long.
        """
        parts = [cls._order]
        for field, start, end in cls._places():
            parts.append(cls._wires[field].format if field in fields else f"{end - start}x")
        return struct.Struct("".join(parts))

    @classmethod
    def span_of(cls, first: str, last: str) -> struct.Struct:
        """The fields from `first` to `last` alone, without what lies before and after them."""
        names = list(cls._wires)
        span = names[names.index(first) : names.index(last) + 1]
        return struct.Struct(cls._order + "".join(cls._wires[field].format for field in span))

    @classmethod
    def layout(cls) -> list[tuple[str, int, str]]:
        """The fields in their order: name, offset in bytes, and format as the `struct` module has it."""
        return [(field, start, cls._wires[field].format) for field, start, _ in cls._places()]

    @classmethod
    def _places(cls) -> Iterator[tuple[str, int, int]]:
        """Each field with the end of the previous one and its own, in bytes; the gap is for alignment."""
        start, layout = 0, cls._order
        is_aligned = layout == "@"
        for field, wire in cls._wires.items():
            if is_aligned:
                layout += wire.format
                end = struct.calcsize(layout)
            else:
                end = start + struct.calcsize(layout + wire.format)
            yield field, start, end
            start = end

    @classmethod
    def _wrong_constant(cls, found: tuple[Any, ...]) -> Exception:
        for (field, wanted), got in zip(cls._constants.items(), found, strict=True):
            if got != wanted:
                what = field.replace("_", " ")
                return cls._error(f"expected {cls._name} with {what} {_shown(wanted)}, got {what} {got!r}")
        raise AssertionError("no constant is wrong")


def _wire_annotations(cls: type) -> Iterator[tuple[str, Wire, bool]]:
    """The fields of a class that cross the wire, with whether they are constants."""
    for part in reversed(cls.__mro__):
        if part is Packet or not issubclass(part, Packet):
            continue
        for field, annotation in get_annotations(part, eval_str=True).items():
            origin: Any = get_origin(annotation)
            is_constant = origin is ClassVar
            inner = get_args(annotation)[0] if is_constant and get_args(annotation) else annotation
            for wire in getattr(inner, "__metadata__", ()):
                if isinstance(wire, Wire):
                    yield field, wire, is_constant


def _setters(cls: type[Packet], names: tuple[str, ...]) -> tuple[Any, ...]:
    """What sets the slots of the fields; none where `__init__` does more than that."""
    cls.make_dataclass()  # or what was read is not a value yet
    if hasattr(cls, "__post_init__") or set(cls._slots) != set(names):
        return ()
    return tuple(getattr(cls, name).__set__ for name in names)


def _getter(names: list[str]) -> staticmethod[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return staticmethod(attrgetter(*names))
    return staticmethod(lambda packet: tuple(getattr(packet, name) for name in names))


def _indexed(codecs: list[Any]) -> tuple[tuple[int, Any], ...]:
    """The codecs of the fields that have one, with the places of these fields."""
    return tuple((index, codec) for index, codec in enumerate(codecs) if codec)


def _converted(codecs: tuple[tuple[int, Any], ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    converted = list(values)
    for index, codec in codecs:
        converted[index] = codec(converted[index])
    return tuple(converted)


def _shown(value: object) -> str:
    return f"{value.name} ({value.value})" if isinstance(value, Enum) else repr(value)
