"""Options of operators that load parameters: what the FlexBuffers library writes is read, nothing else is."""

import struct
from contextlib import suppress

import pytest
from flatbuffers import flexbuffers
from hypothesis import given
from hypothesis import strategies as st

from aisrv.inference.parameters import LoadKind, LoadOptions, read_options
from aisrv.model.custom_options import LARGEST_OPTIONS
from tests.support.amounts import in_ci

ADDRESSES = st.integers(-(2**63), 2**63 - 1)


def load_options(address: object, sizes: object, kind: object = 0) -> bytes:
    return bytes(flexbuffers.Dumps({"a": address, "s": sizes, "t": kind}))


def typed(kind: str, *values: int) -> bytes:
    """Options whose list of sizes has one type for all its elements."""
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("a")
        builder.IndirectUInt(70000)
        builder.Key("s")
        if kind == "fixed":
            builder.FixedTypedVectorFromElements(list(values))
        else:
            builder.TypedVectorFromElements(list(values))
        builder.Key("t")
        builder.IndirectInt(-70000)
    return bytes(builder.Finish())


@pytest.mark.parametrize("address", [0, 127, 128, 30048, 2**31 - 1, 2**31, 2**40])
@pytest.mark.parametrize("sizes", [[], [1024], [10240, 256], [1, 2, 3, 4, 5, 6, 7, 8, 9, 2**33]])
def test_options_of_a_load(address: int, sizes: list[int]) -> None:
    assert read_options(load_options(address, sizes, 2)) == LoadOptions(address, tuple(sizes), 2)


def test_names_of_older_converters() -> None:
    data = bytes(flexbuffers.Dumps({"addr": 5, "sizes": [1, 2]}))
    assert read_options(data) == LoadOptions(5, (1, 2), LoadKind.FLASH)


@given(address=ADDRESSES, sizes=st.lists(ADDRESSES, max_size=10), kind=ADDRESSES)
def test_whatever_the_library_writes_is_read(address: int, sizes: list[int], kind: int) -> None:
    assert read_options(load_options(address, sizes, kind)) == LoadOptions(address, tuple(sizes), kind)


@pytest.mark.parametrize(
    ("kind", "values"),
    [("typed", (5, -6, 7, 300, 9)), ("fixed", (1, 2)), ("fixed", (1, 2, 3)), ("fixed", (-1, 2, 3, 70000))],
)
def test_lists_of_one_type_and_numbers_that_are_stored_elsewhere(kind: str, values: tuple[int, ...]) -> None:
    assert read_options(typed(kind, *values)) == LoadOptions(70000, values, -70000)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": "text", "s": [1]}, "not an integer"),
        ({"a": 1.5, "s": [1]}, "not an integer"),
        ({"a": [1], "s": [1]}, "not an integer"),
        ({"b": 1}, "missing option: a or addr"),
        ({"a": 1, "b": 1}, "missing option: s or sizes"),
        ({"a": 1, "s": 1}, "not a list of integers"),
        ({"a": 1, "s": {"x": 1}}, "not a list of integers"),
        ({"a": 1, "s": [1, "x"]}, "not an integer"),
        ({"a": 1, "s": list(range(11))}, "has 11 elements, at most 10 can be"),
        ([1, 2], "the root is not a map"),
        (7, "the root is not a map"),
    ],
)
def test_what_are_no_options(value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_options(bytes(flexbuffers.Dumps(value)))


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x00\x01", bytes(LARGEST_OPTIONS + 1), b"\x00\x24\x03", b"\x00\x24\x08"]
)
def test_bytes_that_are_no_flexbuffer(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_options(data)


def test_a_list_that_says_to_be_enormous() -> None:
    data = bytearray(load_options(0, [2**40, 2**40]))  # a width of 8 bytes
    at = bytes(data).index(struct.pack("<Q", 2))
    struct.pack_into("<Q", data, at, 2**63)
    with pytest.raises(ValueError, match=r"."):
        read_options(bytes(data))


@given(data=st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ValueError):
        read_options(data)


def test_every_truncation_is_read_or_refused() -> None:
    data = load_options(30048, [10240, 256])
    for size in range(len(data)):
        with suppress(ValueError):
            read_options(data[:size])


def test_every_byte_changed_is_read_or_refused() -> None:
    data = load_options(30048, [10240, 256])
    refused = 0
    for at in range(len(data)):
        for value in range(0, 256, in_ci(1, every_day=5)):
            try:
                read_options(data[:at] + struct.pack("B", value) + data[at + 1 :])
            except ValueError:
                refused += 1
    assert 0 < refused < in_ci(256, every_day=52) * len(data)
