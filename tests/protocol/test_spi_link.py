"""The frames of the SPI link: layouts from docs/guides/programs.md, and what no frame may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.spi_link import (
    HEAD_SIZE,
    MAX_BODY,
    MAX_MESSAGE,
    MAX_TRANSFERS,
    Done,
    Hello,
    LinkMessage,
    LinkTransfer,
    Open,
    Opened,
    Slaves,
    SpiLinkError,
    frame,
    parse_head,
)

Frame = Hello | Slaves | Open | Opened | LinkMessage | Done

TWO_TRANSFERS = """
    05000000 00000034 0002
    00000002 000003e8 00000001 00000002 00000003 00 000000
    00000000 ffffffff ffffffff ffffffff ffffffff 01 000000
    0102
"""

LAYOUTS: list[tuple[Frame, str]] = [
    (Hello(), "01000000 0000000a 4149535256535049 0001"),
    (Slaves(("0.0", "1.12")), "02000000 0000000c 0001 02 03302e30 04312e3132"),
    (Slaves((), 7), "02000000 00000003 0007 00"),
    (Open("0.0"), "03000000 00000003 302e30"),
    (Opened(0, 50_000_000), "04000000 00000008 00000000 02faf080"),
    (Opened(2), "04000000 00000008 00000002 00000000"),
    (LinkMessage(()), "05000000 00000002 0000"),
    (
        LinkMessage((LinkTransfer(b"\x01\x02", False, 1000, 1, 2, 3), LinkTransfer(b""))),
        TWO_TRANSFERS,
    ),
    (Done(miso=b"\xaa\xbb"), "06000000 00000006 00000000 aabb"),
    (Done(error=90), "06000000 00000004 0000005a"),
]


@pytest.mark.parametrize(("value", "layout"), LAYOUTS, ids=[type(value).__name__ for value, _ in LAYOUTS])
def test_layout(value: Frame, layout: str) -> None:
    expected = bytes.fromhex(layout)
    assert frame(value) == expected
    assert parse_head(expected) == (expected[0], len(expected) - HEAD_SIZE)
    parsed = type(value).from_bytes(expected[HEAD_SIZE:])
    assert bytes(parsed) == expected[HEAD_SIZE:]


WORD = st.none() | st.integers(0, 0xFFFFFFFE)
TRANSFERS = st.builds(LinkTransfer, st.binary(max_size=600), st.booleans(), WORD, WORD, WORD, WORD)


@given(st.lists(TRANSFERS, max_size=5))
def test_message_comes_back(transfers: list[LinkTransfer]) -> None:
    assert LinkMessage.from_bytes(bytes(LinkMessage(transfers))).transfers == transfers


@given(st.lists(st.text(st.characters(max_codepoint=127), min_size=1, max_size=20), max_size=9))
def test_names_come_back(names: list[str]) -> None:
    assert Slaves.from_bytes(bytes(Slaves(tuple(names)))).names == tuple(names)


@pytest.mark.parametrize("kind", [Hello, Slaves, Open, Opened, LinkMessage, Done])
@given(body=st.binary(max_size=80))
def test_any_bytes_are_a_frame_or_an_error(kind: type, body: bytes) -> None:
    try:
        value = kind.from_bytes(body)  # type: ignore[attr-defined]
    except SpiLinkError:
        return
    if kind is not LinkMessage:  # where any byte but 0 means that chip select goes high
        assert bytes(value) == body


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Hello, b"AISRVSPI\0"),
        (Hello, b"AISRVSPJ\0\1"),
        (Hello, b"GET / HTTP"),
        (Slaves, b"\0\1"),
        (Slaves, b"\0\1\1"),
        (Slaves, b"\0\1\1\5abc"),
        (Slaves, b"\0\1\1\1ab"),
        (Slaves, b"\0\1\1\1\xff"),
        (Open, b""),
        (Open, bytes(256)),
        (Open, b"\xff"),
        (Opened, bytes(7)),
        (Opened, bytes(9)),
        (LinkMessage, b"\0"),
        (LinkMessage, b"\0\1" + bytes(23)),
        (LinkMessage, b"\0\0\0"),
        (LinkMessage, b"\0\1" + b"\0\0\0\2" + bytes(20) + b"x"),
        (LinkMessage, b"\0\1" + b"\xff\xff\xff\xff" + bytes(20)),
        (LinkMessage, b"\2\0" + bytes(24 * 512)),
        (Done, bytes(3)),
    ],
)
def test_bytes_that_are_no_frame(kind: type, body: bytes) -> None:
    with pytest.raises(SpiLinkError):
        kind.from_bytes(body)  # type: ignore[attr-defined]


def test_head_that_announces_too_much() -> None:
    assert parse_head(b"\5\0\0\0" + MAX_BODY.to_bytes(4, "big")) == (5, MAX_BODY)
    with pytest.raises(SpiLinkError, match="announces"):
        parse_head(b"\5\0\0\0" + (MAX_BODY + 1).to_bytes(4, "big"))
    with pytest.raises(SpiLinkError, match="8 bytes, not 7"):
        parse_head(bytes(7))


@pytest.mark.parametrize(
    "value",
    [
        LinkMessage([LinkTransfer(b"")] * (MAX_TRANSFERS + 1)),
        LinkMessage([LinkTransfer(bytes(MAX_MESSAGE)), LinkTransfer(b"1")]),
        Slaves(("x",) * 256),
        Slaves(("x" * 256,)),
        Open(""),
    ],
    ids=["transfers", "bytes", "slaves", "name", "no name"],
)
def test_value_that_fits_no_frame(value: bytes) -> None:
    with pytest.raises(SpiLinkError):
        bytes(value)


def test_largest_message_fits() -> None:
    message = LinkMessage([LinkTransfer(b"")] * (MAX_TRANSFERS - 1) + [LinkTransfer(bytes(MAX_MESSAGE))])
    assert parse_head(frame(message)) == (5, MAX_BODY)
