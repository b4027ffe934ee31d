"""Messages with programs, good and bad."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.firmware.records import (
    BUFFER_BYTES,
    POSTED,
    START,
    Place,
    RecordError,
    Request,
    Verb,
    header,
    read_requests,
    result,
    start,
    version_of,
)

WORDS = st.integers(0, 0xFFFFFFFF)
REQUESTS = st.builds(
    Request,
    core=st.integers(0, 15),
    verb=st.sampled_from(Verb),
    a=WORDS,
    b=WORDS,
    data=st.binary(max_size=40),
    room=st.integers(0, BUFFER_BYTES),
    is_posted=st.booleans(),
)


def wire(request: Request) -> bytes:
    """A request as the C runtime writes it: the struct of verbs.h, then the data, padded to words."""
    verb = request.verb | POSTED * request.is_posted
    head = struct.pack("<HHIIII", request.core, verb, request.a, request.b, len(request.data), request.room)
    return head + request.data.ljust((len(request.data) + 3) // 4 * 4, b"\0")


@given(st.lists(REQUESTS, max_size=4))
def test_requests_are_read_as_they_were_written(requests: list[Request]) -> None:
    assert list(read_requests(memoryview(b"".join(map(wire, requests))))) == requests


@given(REQUESTS, st.data())
def test_a_cut_message_is_refused(request: Request, data: st.DataObject) -> None:
    message = wire(request)
    cut = data.draw(st.integers(1, 20 + len(request.data) - 1))
    with pytest.raises(RecordError):
        list(read_requests(memoryview(message[:cut])))


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(message: bytes) -> None:
    try:
        for request in read_requests(memoryview(message)):
            assert isinstance(request.verb, Verb)
    except RecordError:
        pass


@pytest.mark.parametrize(
    ("verb", "size", "room", "reason"),
    [
        (0, 0, 0, "there is no verb 0"),
        (max(Verb) + 1, 0, 0, f"there is no verb {max(Verb) + 1}"),
        (Verb.TRAP, 4, 0, "a request of 4 bytes with room for 0; 0 bytes are left"),
        (Verb.TRAP, 0, BUFFER_BYTES + 1, "a request of 0 bytes with room for 1048577; 0 bytes are left"),
        (Verb.TRAP, 0xFFFFFFFF, 0, "a request of 4294967295 bytes with room for 0; 0 bytes are left"),
    ],
)
def test_what_no_program_asks_for(verb: int, size: int, room: int, reason: str) -> None:
    with pytest.raises(RecordError) as refused:
        list(read_requests(memoryview(struct.pack("<HHIIII", 0, verb, 0, 0, size, room))))
    assert str(refused.value) == reason


@pytest.mark.parametrize("size", [0, 1, 3, 4, 511, 512, 513, 1024])
def test_a_result_has_whole_words(size: int) -> None:
    record = result(3, -1, 1 << 40 | 5, b"x" * size)
    assert struct.unpack_from("<IIIII", record) == (3, 0xFFFFFFFF, 5, 0, size)
    assert record[20 : 20 + size] == b"x" * size
    assert len(record) == 20 + (size + 3) // 4 * 4


def test_a_start_has_eight_arguments_and_a_core() -> None:
    record = start(2, 1, 7, [(10, 20), (30, 0)], 6)
    assert struct.unpack("<5I17I", record) == (START | 2, 1, 7, 0, 68, 10, 20, 30, 0, *[0] * 12, 6)


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 7, struct.pack("<II", 1, 0), struct.pack("<II", 0xFFFFFFFF, 0)]
)
def test_what_is_no_place(data: bytes) -> None:
    with pytest.raises(RecordError):
        Place.from_bytes(data)


def test_a_place() -> None:
    assert Place.from_bytes(struct.pack("<IIQQ", 2, 0, 1 << 33, 2) + b"text\xff") == Place(
        (1 << 33, 2), "text�"
    )


@pytest.mark.parametrize("verbs", [[], ["RETURN"], ["TRAP", "RETURN"], ["RETURN", "TRAP", "WHERE"]])
def test_other_verbs_are_another_version(verbs: list[str]) -> None:
    assert version_of(verbs) != version_of(["RETURN", "TRAP"])


def test_the_header_has_every_verb() -> None:
    defined = dict(line.split()[1:3] for line in header().splitlines() if line.startswith("#define VERB_"))
    assert defined == {f"VERB_{verb.name}": str(verb.value) for verb in Verb}
