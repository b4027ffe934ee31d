"""Format strings of values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.jacdac.wire.packing import Packing, PackingError, Value


@pytest.mark.parametrize(
    ("format_", "value", "data"),
    [
        ("u8", 255, "ff"),
        ("i8", -2, "fe"),
        ("u16", 0x1234, "3412"),
        ("i32", -1, "ffffffff"),
        ("u64", 1, "0100000000000000"),
        ("f32", 1.5, "0000c03f"),
        ("s", "né", "6ec3a9"),
        ("b", b"\1\2", "0102"),
        ("b[8]", bytes(8), "0000000000000000"),
        ("u16 u16", (1, 2), "01000200"),
        ("u8 s", (7, "ok"), "076f6b"),
        ("u8 z s", (7, "a", "b"), "0761" + "00" + "62"),
        ("r: u16", (1, 2), "01000200"),
        ("r: u16", (), ""),
        ("u16 r: b[2] u8", (1, ((b"ab", 3), (b"cd", 4))), "0100616203636404"),
    ],
)
def test_values_and_bytes(format_: str, value: Value, data: str) -> None:
    packing = Packing(format_)
    assert packing.pack(value).hex() == data
    assert packing.unpack(bytes.fromhex(data)) == value


@pytest.mark.parametrize(
    ("format_", "data"), [("u16", "01"), ("u16", "010203"), ("r: u16", "010203"), ("b[8]", "00"), ("", "00")]
)
def test_bytes_that_do_not_fit(format_: str, data: str) -> None:
    with pytest.raises(PackingError):
        Packing(format_).unpack(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("format_", "value"),
    [("u8", 256), ("u8", "1"), ("s", 1), ("b", "x"), ("b[8]", b"x"), ("u16 u16", 1), ("r: u8 u8", (1,))],
)
def test_values_that_do_not_fit(format_: str, value: Value) -> None:
    with pytest.raises(PackingError):
        Packing(format_).pack(value)


@pytest.mark.parametrize("format_", ["u7", "r:", "b[x]"])
def test_no_format(format_: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Packing(format_)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_an_error(data: bytes) -> None:
    for format_ in ("u8", "s", "z", "b", "r: u16", "u8 s", "u16 u16 u32 r: b[8] u32 u8 u8 u8 i8"):
        packing = Packing(format_)
        try:
            value = packing.unpack(data)
        except PackingError:
            continue
        if "s" not in format_ and "z" not in format_:
            assert packing.pack(value) == data
