"""Packets: layouts from annotated fields. Expected bytes are written out by hand."""

import re
import subprocess
import sys
from enum import IntEnum
from typing import Annotated, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.values.packet import I32, U8, U16, U32, Packet, Pad3, Pointer, Rest, Wire, replace
from tests.support.amounts import in_ci
from tests.support.programs import run_python


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


class Framed(BigPacket, kw_only=True, name="a frame"):
    """Constants, padding, fields that only keywords set, and the bytes that follow."""

    magic: ClassVar[Annotated[bytes, Wire("2s")]] = b"AI"
    kind: ClassVar[U8] = Color.BLUE
    version: U8 = 7
    gap: ClassVar[Pad3]
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
    assert bytes(Framed(size=5, body=b"rest")) == b"AI\x02\x07\0\0\0\0\x05rest"
    assert Framed.from_bytes(b"AI\x02\x09xyz\0\x05") == Framed(size=5, version=9)
    assert Framed.from_bytes(b"AI\x02\x07\0\0\0\0\x05rest").body == b"rest"
    with pytest.raises(LayerError, match=r"^a frame has 9 bytes or more, not 8$"):
        Framed.from_bytes(bytes(8))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"IA\x02\x07\0\0\0\0\x05", r"expected a frame with magic b'AI', got magic b'IA'"),
        (b"AI\x01\x07\0\0\0\0\x05", r"expected a frame with kind BLUE (2), got kind 1"),
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
    assert replace(value, second=3) == Numbers(1, 3)
    assert repr(value) == "Numbers(first=1, second=2, third=-1, note='not on the wire')"
    with pytest.raises(AttributeError):
        value.first = 2  # type: ignore[misc]
    match value:
        case Numbers(first, second):
            assert (first, second) == (1, 2)


def test_layout_tells_where_fields_lie() -> None:
    assert Framed.layout() == [
        ("magic", 0, "2s"), ("kind", 2, "B"), ("version", 3, "B"), ("gap", 4, "3x"), ("size", 7, "H")
    ]  # fmt: skip
    assert [start for _, start, _ in Native.layout()] == [0, 4, 8, 16]


def test_a_constant_after_a_field_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^Late: the constant kind comes after a field$"):

        class Late(BigPacket):
            size: U8
            kind: ClassVar[U8] = 1


def test_a_base_has_no_layout() -> None:
    assert not hasattr(BigPacket, "SIZE")


@pytest.mark.plain_time("its interpreters have no devices")
def test_interpreters_without_msgspec_run_the_same_tests() -> None:
    """All tests of this module but this one, with an msgspec that cannot be imported."""
    script = "import sys, pytest; sys.modules['msgspec'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    chosen = ["-q", "-k", "not without_msgspec", __file__]
    done = subprocess.run([sys.executable, "-c", script, *chosen], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@settings(derandomize=True, max_examples=in_ci(100, every_day=20))
@given(st.integers(0, 255), st.integers(0, 0xFFFF), st.binary(max_size=9))
def test_round_trip(version: int, size: int, body: bytes) -> None:
    value = Framed(size=size, body=body, version=version)
    assert Framed.from_bytes(bytes(value)) == value


def test_two_copies_of_the_module_in_one_process_do_not_meet() -> None:
    """As where a program has this project, and `aisrv exec` puts its own copy beside it."""
    code = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
import aisrv.values.packet as first
spec = spec_from_file_location("second", first.__file__)
second = sys.modules["second"] = module_from_spec(spec)
spec.loader.exec_module(second)
for packet in first, second:
    class Framed(packet.Packet, byte_order=">", error=ValueError):
        mark: packet.ClassVar[packet.Annotated[bytes, packet.Wire("2s")]] = b"ok"
        gap: packet.ClassVar[packet.Pad3]
        size: packet.U8
    print(bytes(Framed(7)).hex())
"""
    assert run_python(code).split() == ["6f6b00000007"] * 2


def test_a_wire_type_of_another_copy_is_the_same_one() -> None:
    """Early Pythons 3.11 have one alias for equal types of two copies: that of whoever asked first."""
    code = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
import aisrv.values.packet as first
spec = spec_from_file_location("second", first.__file__)
second = sys.modules["second"] = module_from_spec(spec)
spec.loader.exec_module(second)
class Framed(second.Packet, byte_order=">", error=ValueError):
    size: first.U16
    gap: first.ClassVar[first.Pad1]
    body: first.Rest = b""
print(Framed.SIZE, bytes(Framed(7, b"all")).hex(), Framed.from_bytes(b"..-rest").body.decode())
"""
    assert run_python(code).split() == ["3", "000700616c6c", "rest"]
