"""Protocol Buffers: what is written is what the encoding's page says, and is read again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.values.protobuf import (
    LARGEST_FIELD,
    LARGEST_VARINT,
    ProtobufError,
    data,
    fixed64,
    read_fields,
    read_varint,
    sint,
    tag,
    text,
    uint,
    unsigned_to_signed,
    varint,
)

numbers = st.integers(1, LARGEST_FIELD)
unsigned = st.integers(0, LARGEST_VARINT)
signed = st.integers(-(1 << 63), (1 << 63) - 1)


def test_the_examples_of_the_encoding_page() -> None:
    assert uint(1, 150).hex() == "089601"
    assert text(2, "testing").hex() == "120774657374696e67"
    assert data(3, uint(1, 150)).hex() == "1a03089601"
    assert sint(1, -2).hex() == "08feffffffffffffffff01"
    assert fixed64(1, 1).hex() == "090100000000000000"


@given(unsigned)
def test_a_varint_is_read_again(value: int) -> None:
    written = varint(value)
    assert read_varint(written, 0) == (value, len(written))
    assert len(written) == max(1, -(-value.bit_length() // 7))


@given(
    st.lists(
        st.tuples(
            numbers,
            st.one_of(
                st.tuples(st.just("uint"), unsigned),
                st.tuples(st.just("sint"), signed),
                st.tuples(st.just("fixed64"), unsigned),
                st.tuples(st.just("data"), st.binary(max_size=300)),
            ),
        )
    )
)
def test_fields_are_read_again_in_their_order(fields: list[tuple[int, tuple[str, Any]]]) -> None:
    writers: dict[str, Any] = {"uint": uint, "sint": sint, "fixed64": fixed64, "data": data}
    message = b"".join(writers[kind](number, value) for number, (kind, value) in fields)
    read = list(read_fields(message))
    assert [number for number, _ in read] == [number for number, _ in fields]
    for (_, found), (_, (kind, value)) in zip(read, fields, strict=True):
        assert (unsigned_to_signed(found) if kind == "sint" and isinstance(found, int) else found) == value


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_an_error(message: bytes) -> None:
    try:
        fields = list(read_fields(message))
    except ProtobufError:
        return
    assert all(1 <= number <= LARGEST_FIELD for number, _ in fields)


@given(st.binary(min_size=1, max_size=40), st.data())
def test_a_cut_field_is_an_error(value: bytes, draw: st.DataObject) -> None:
    message = data(1, value)
    cut = draw.draw(st.integers(1, len(message) - 1))
    with pytest.raises(ProtobufError):
        list(read_fields(message[:cut]))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("80" * 10 + "01", "a varint that does not end, or of more than 64 bits"),
        ("08" + "ff" * 9 + "02", "a varint that does not end, or of more than 64 bits"),
        ("0d0102", "field 1 has 4 bytes, 2 are there"),
        ("090102", "field 1 has 8 bytes, 2 are there"),
        ("0b", "wire type 3 of field 1 is not known"),
        ("0001", "field 0: numbers are 1 to 2"),
        ("8080808010" + "01", "field 536870912: numbers are 1 to 2"),
    ],
)
def test_what_is_wrong_is_said(message: str, reason: str) -> None:
    with pytest.raises(ProtobufError, match=reason):
        list(read_fields(bytes.fromhex(message)))


def test_fixed_32_bits_are_read() -> None:
    assert list(read_fields(bytes.fromhex("0d01020304"))) == [(1, 0x04030201)]


@pytest.mark.parametrize("value", [-1, LARGEST_VARINT + 1])
def test_what_does_not_fit_is_refused(value: int) -> None:
    for write in (varint, lambda v: fixed64(1, v)):
        with pytest.raises(ProtobufError, match="it is not 0 to"):
            write(value)


def test_numbers_of_fields_and_signed_values_are_bounded() -> None:
    for number in (0, LARGEST_FIELD + 1):
        with pytest.raises(ProtobufError, match="numbers are 1 to"):
            tag(number, 0)  # type: ignore[arg-type]
    with pytest.raises(ProtobufError, match="it is not -2"):
        sint(1, 1 << 63)


def test_half_a_surrogate_becomes_a_question_mark() -> None:
    assert text(1, "a\ud800") == data(1, b"a?")
