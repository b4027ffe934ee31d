"""Options of custom operators: what the FlexBuffers library writes is read, and nothing else gets through."""

import struct
from contextlib import suppress

import pytest
from flatbuffers import flexbuffers
from hypothesis import given
from hypothesis import strategies as st

from aisrv.inference.flexbuffer import LARGEST, MAX_NAMES, FlexbufferError, OptionsMap

NAMES = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=9)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def load_options(address: int, sizes: list[int], kind: int = 0) -> bytes:
    return bytes(flexbuffers.Dumps({"a": address, "s": sizes, "t": kind}))


def typed(kind: str, *values: int) -> bytes:
    """A map with one vector that has one type for all its elements."""
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("s")
        if kind == "fixed":
            builder.FixedTypedVectorFromElements(list(values))
        else:
            builder.TypedVectorFromElements(list(values))
    return bytes(builder.Finish())


@pytest.mark.parametrize("address", [0, 127, 128, 30048, 2**31 - 1, 2**31, 2**40])
@pytest.mark.parametrize("sizes", [[], [1024], [10240, 256], [1, 2, 3, 4, 5, 6, 7, 8, 9, 2**33]])
def test_options_of_a_load(address: int, sizes: list[int]) -> None:
    options = OptionsMap(load_options(address, sizes, 2))
    assert options.integer(b"a") == address
    assert options.integers(b"s", 10) == tuple(sizes)
    assert options.integer(b"t") == 2
    assert b"a" in options
    assert b"addr" not in options


@given(values=st.dictionaries(NAMES, INTEGERS | st.lists(INTEGERS, max_size=6), min_size=1, max_size=8))
def test_whatever_the_library_writes_is_read(values: dict[str, int | list[int]]) -> None:
    options = OptionsMap(bytes(flexbuffers.Dumps(values)))
    for name, value in values.items():
        key = name.encode()
        found = list(options.integers(key, 6)) if isinstance(value, list) else options.integer(key)
        assert found == value


@pytest.mark.parametrize(
    ("kind", "values"),
    [("typed", (5, -6, 7, 300, 9)), ("fixed", (1, 2)), ("fixed", (1, 2, 3)), ("fixed", (-1, 2, 3, 70000))],
)
def test_vectors_of_one_type(kind: str, values: tuple[int, ...]) -> None:
    assert OptionsMap(typed(kind, *values)).integers(b"s", 5) == values


def test_numbers_that_are_stored_elsewhere() -> None:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("a")
        builder.IndirectInt(-70000)
        builder.Key("b")
        builder.IndirectUInt(70000)
    options = OptionsMap(bytes(builder.Finish()))
    assert (options.integer(b"a"), options.integer(b"b")) == (-70000, 70000)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": "text"}, "not an integer"),
        ({"a": 1.5}, "not an integer"),
        ({"a": [1]}, "not an integer"),
        ({"b": 1}, "there is no b'a'"),
        ([1, 2], "the root has type 10: not a map"),
        (7, "the root has type 1: not a map"),
    ],
)
def test_what_is_no_integer(value: object, reason: str) -> None:
    with pytest.raises(FlexbufferError, match=reason):
        OptionsMap(bytes(flexbuffers.Dumps(value))).integer(b"a")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"s": 1}, "not a list of integers"),
        ({"s": [1, "x"]}, "not an integer"),
        ({"s": list(range(11))}, "has 11 elements, at most 10 can be"),
    ],
)
def test_what_is_no_list_of_integers(value: object, reason: str) -> None:
    with pytest.raises(FlexbufferError, match=reason):
        OptionsMap(bytes(flexbuffers.Dumps(value))).integers(b"s", 10)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes: options have 3 to 65536"),
        (b"\x00\x01", "2 bytes"),
        (bytes(LARGEST + 1), "65537 bytes"),
        (b"\x00\x24\x03", "3 bytes wide"),
        (b"\x00\x24\x08", "lie outside"),
    ],
)
def test_bytes_that_are_no_flexbuffer(data: bytes, reason: str) -> None:
    with pytest.raises(FlexbufferError, match=reason):
        OptionsMap(data)


def test_names_are_counted_before_they_are_read() -> None:
    with pytest.raises(FlexbufferError, match=f"at most {MAX_NAMES}"):
        OptionsMap(bytes(flexbuffers.Dumps({f"n{number}": 1 for number in range(MAX_NAMES + 1)})))


def read_everything(data: bytes) -> None:
    options = OptionsMap(data)
    options.integer(b"a")
    options.integers(b"s", 10)


@given(data=st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(FlexbufferError):
        read_everything(data)


def test_every_byte_changed_is_read_or_refused() -> None:
    data = load_options(30048, [10240, 256])
    refused = 0
    for at in range(len(data)):
        for value in range(256):
            try:
                read_everything(data[:at] + struct.pack("B", value) + data[at + 1 :])
            except FlexbufferError:
                refused += 1
    assert 0 < refused < 256 * len(data)
