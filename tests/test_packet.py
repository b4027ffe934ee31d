"""Packets: layouts from annotated fields. Expected bytes are written out by hand."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import MISSING, FrozenInstanceError, field, fields, replace
from enum import IntEnum
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.packet import I32, U8, U16, U32, Packet, Pad3, Pointer, Rest, Wire


class LayerError(ValueError):
    """The error of the layer under test."""


class Color(IntEnum):
    """An enum on the wire."""

    RED = 1
    BLUE = 2


class BigPacket(Packet, byte_order=">", error=LayerError):
    """Base of a layer."""


class Numbers(BigPacket, name="a list of numbers"):
    """Plain numbers, and what does not cross the wire."""

    first: U8
    second: U16
    third: I32 = -1
    note: str = "not on the wire"


class Framed(BigPacket, name="a frame"):
    """Constants, padding, a field that only keywords set, and the bytes that follow."""

    magic: ClassVar[Annotated[bytes, Wire("2s")]] = b"AI"
    version: U8 = field(default=7, kw_only=True)
    gap: ClassVar[Pad3]
    kind: ClassVar[U8] = Color.BLUE
    size: U16
    body: Rest = b""


class Painted(BigPacket, name="a painted thing"):
    """A field that is not the number that crosses."""

    color: Annotated[Color, Wire("B", Color)]
    name: Annotated[str, Wire("4s", lambda raw: raw.rstrip(b"\0").decode(), str.encode)] = ""


class Native(Packet, byte_order="@"):
    """As a C compiler lays it out."""

    kind: U8
    length: U32
    address: Pointer
    flag: U8


class One(BigPacket, name="one byte"):
    """One field, and a check of its own."""

    value: U8

    def __post_init__(self) -> None:
        if self.value == 13:
            raise ValueError("13 is not allowed")


def test_fields_cross_in_their_order() -> None:
    assert bytes(Numbers(1, 2, 3)) == bytes.fromhex("01 0002 00000003")
    assert Numbers.from_bytes(bytes.fromhex("ff fffe 80000000")) == Numbers(0xFF, 0xFFFE, -(1 << 31))
    assert Numbers.SIZE == 7


@pytest.mark.parametrize("size", [0, 1, 6, 8])
def test_wrong_size(size: int) -> None:
    with pytest.raises(LayerError, match=rf"^a list of numbers has 7 bytes, not {size}$"):
        Numbers.from_bytes(bytes(size))


@pytest.mark.parametrize("values", [(256, 0, 0), (-1, 0, 0), (0, 1 << 16, 0), (0, 0, 1 << 31)])
def test_number_that_does_not_fit(values: tuple[int, int, int]) -> None:
    with pytest.raises(LayerError, match=r"^Numbers\(.*\) does not fit the 7 bytes of a list of numbers: "):
        bytes(Numbers(*values))


def test_packet_within_a_buffer() -> None:
    data = memoryview(bytes.fromhex("eeee 01 0002 00000003 ee"))
    assert Numbers.unpack_from(data, 2) == Numbers(1, 2, 3)
    with pytest.raises(LayerError, match=r"^a list of numbers has 7 bytes, not 6$"):
        Numbers.unpack_from(data, 4)
    with pytest.raises(LayerError, match=r"has 7 bytes, not 0$"):
        Numbers.unpack_from(data, 11)


def test_constants_padding_and_rest() -> None:
    assert bytes(Framed(5, b"rest")) == b"AI\x07\0\0\0\x02\0\x05rest"
    assert Framed.from_bytes(b"AI\x09xyz\x02\0\x05") == Framed(5, version=9)
    assert Framed.from_bytes(b"AI\x07\0\0\0\x02\0\x05rest").body == b"rest"
    with pytest.raises(LayerError, match=r"^a frame has 9 bytes or more, not 8$"):
        Framed.from_bytes(bytes(8))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"IA\x07\0\0\0\x02\0\x05", r"expected a frame with magic b'AI', got magic b'IA'"),
        (b"AI\x07\0\0\0\x01\0\x05", r"expected a frame with kind BLUE (2), got kind 1"),
    ],
)
def test_wrong_constant(data: bytes, message: str) -> None:
    with pytest.raises(LayerError, match=f"^{re.escape(message)}$"):
        Framed.from_bytes(data)


def test_values_that_are_no_numbers() -> None:
    assert bytes(Painted(Color.RED, "ab")) == b"\x01ab\0\0"
    assert Painted.from_bytes(b"\x02abcd") == Painted(Color.BLUE, "abcd")
    with pytest.raises(LayerError, match=r"^a painted thing: 3 is not a valid Color$"):
        Painted.from_bytes(b"\x03abcd")


def test_check_of_the_packet_is_the_layers_error() -> None:
    assert One.from_bytes(b"\x0c") == One(12)
    assert bytes(One(12)) == b"\x0c"
    with pytest.raises(LayerError, match=r"^13 is not allowed$"):
        One.from_bytes(b"\x0d")


@pytest.mark.parametrize("names", [("kind",), ("length",), ("address",), ("flag",), ("kind", "flag")])
def test_struct_of_some_fields_keeps_their_places(names: tuple[str, ...]) -> None:
    values = {"kind": 1, "length": 2, "address": 3, "flag": 4}
    data = bytes(Native(1, 2, 3, 4))
    part = Native.struct_of(*names)
    assert (part.size, part.unpack(data)) == (Native.SIZE, tuple(values[name] for name in names))


def test_span_of_fields() -> None:
    assert Numbers.span_of("second", "third").pack(1, 2) == bytes.fromhex("0001 00000002")


def test_packets_are_values() -> None:
    value = Numbers(1, 2)
    assert {value: "a"}[Numbers(1, 2, -1)] == "a"
    with pytest.raises(FrozenInstanceError):
        value.first = 2  # type: ignore[misc]
    assert not hasattr(value, "__dict__")


def test_a_class_is_complete_at_its_first_use() -> None:
    class Late(BigPacket, name="a late one"):
        first: U8
        second: U16 = 7

    assert "__init__" not in vars(Late)
    assert [(each.name, each.default) for each in fields(Late)] == [("first", MISSING), ("second", 7)]
    assert "SIZE" not in vars(Late)
    assert Late.SIZE == 3
    assert replace(Late(1), first=2) == Late(2, 7)
    assert repr(Late(1)).endswith("Late(first=1, second=7)")
    match Late(1, 2):
        case Late(first, second):
            assert (first, second) == (1, 2)


def test_bytes_may_be_the_first_use() -> None:
    class Read(BigPacket, name="what is read first"):
        first: U8
        second: U16 = 7

    packet = Read.from_bytes(b"\1\0\2")
    assert packet == Read(1, 2)
    with pytest.raises(FrozenInstanceError):
        packet.first = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del packet.first
    assert not hasattr(packet, "__dict__")


def test_a_base_has_no_layout() -> None:
    with pytest.raises(AttributeError, match=r"^BigPacket has no fields, and so no SIZE$"):
        _ = BigPacket.SIZE


def test_threads_may_use_a_packet_for_the_first_time_at_once() -> None:
    at_once = threading.Barrier(8)

    def use(kind: Any) -> tuple[bytes, object, int]:
        at_once.wait()
        return bytes(kind(1, 2, 3)), kind.from_bytes(bytes(7)), hash(kind(1, 2, 3))

    with ThreadPoolExecutor(8) as threads:
        for _ in range(50):

            class Shared(BigPacket, name="shared"):
                first: U8
                second: U16
                third: I32 = -1

            results = list(threads.map(use, [Shared] * 8))
            assert (
                results == [(bytes.fromhex("01 0002 00000003"), Shared(0, 0, 0), hash(Shared(1, 2, 3)))] * 8
            )


@settings(derandomize=True, max_examples=100)
@given(st.integers(0, 255), st.integers(0, 0xFFFF), st.binary(max_size=9))
def test_round_trip(version: int, size: int, body: bytes) -> None:
    value = Framed(size, body, version=version)
    assert Framed.from_bytes(bytes(value)) == value
