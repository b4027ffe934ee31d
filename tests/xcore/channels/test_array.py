"""Arrays over a channel: exact tokens, limits, pieces, arrays given up and arrays that are none."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aisrv.xcore.channels.array import (
    LARGE_BYTES,
    Array,
    ArrayAbandoned,
    abandon_array,
    receive_array,
    receive_array_piece,
    receive_word,
    send_array,
    send_word_and_array,
)
from aisrv.xcore.tokens import PIECE_BYTES, Run
from aisrv.xcore.trace import TracedEnd, Tracer
from aisrv.xcore.traps import SizeError, Trap, TrapKind
from tests.support.benches.simulation import bench, settle, simulated
from tests.support.benches.wires import END, NACK, Wire, carry_out, send_tokens, wire

SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 511, 512, 513, 1024, 1025)


def numbered(size: int) -> bytes:
    return bytes((i + 1) & 0xFF for i in range(size))


def on_the_wire(data: bytes) -> list[bytes | int]:
    """An array in tokens: each whole word most significant byte first, END, the rest, END."""
    whole = len(data) // 4 * 4
    words = b"".join(data[i : i + 4][::-1] for i in range(0, whole, 4))
    return [words, END, data[whole:], END]


async def exchange(w: Wire, limit: int, *runs: bytes | int) -> Array:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_tokens, w.a, *runs)
        array = await receive_array(w.b, limit)
    return array  # noqa: RET504 - mypy takes any nursery for one that swallows exceptions


@pytest.mark.parametrize(
    ("data", "tokens"),
    [
        (b"", "END END"),
        (b"\x01", "END 01 END"),
        (b"\x01\x02\x03", "END 010203 END"),
        (b"\x01\x02\x03\x04", "04030201 END END"),
        (b"\x01\x02\x03\x04\x05", "04030201 END 05 END"),
        (b"\x01\x02\x03\x04\x05\x06\x07", "04030201 END 050607 END"),
        (b"\x01\x02\x03\x04\x05\x06\x07\x08", "0403020108070605 END END"),
    ],
)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_tokens_of_an_array(data: bytes, tokens: str, kind: type) -> None:
    async with wire() as w:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(carry_out, send_array, w.a, kind(data))
            array = await receive_array(w.b, 1024)
        assert w.tap.sent(w.a) == tokens
        assert w.tap.sent(w.b) == ""
        assert (array.data, array.length) == (data, len(data))


@simulated
async def test_an_array_after_a_word_that_refuses_crosses_as_tokens() -> None:
    """A client takes no data after a status other than OKAY, so none may be lost on the way to it."""
    async with bench() as test:
        receiver = test.start(receive_word, test.b, 100)
        await settle()
        test.start(send_word_and_array, test.a, 0x20, b"why not")
        await settle()
        assert receiver.value() == (0x20, None)
        assert (await receive_array(test.b, 100)).data == b"why not"


@pytest.mark.parametrize("size", SIZES)
async def test_array_sent_is_the_array_received(size: int) -> None:
    async with wire() as w, trio.open_nursery() as nursery:
        nursery.start_soon(carry_out, send_array, w.a, numbered(size))
        array = await receive_array(w.b, size)
        assert (array.data, array.length, array.overflowed) == (numbered(size), size, False)


@pytest.mark.parametrize(
    "size", [LARGE_BYTES - 4, LARGE_BYTES, LARGE_BYTES + 1, LARGE_BYTES + PIECE_BYTES + 3]
)
@pytest.mark.parametrize("room", [-LARGE_BYTES // 2, -4, -1, 0, 1])
async def test_large_arrays_are_kept_up_to_the_limit(size: int, room: int) -> None:
    data, limit = numbered(256) * (size // 256) + numbered(size % 256), size + room
    async with wire() as w, trio.open_nursery() as nursery:
        nursery.start_soon(carry_out, send_array, w.a, memoryview(data))
        array = await receive_array(w.b, limit)
        assert (bytes(array.data) == data[:limit], len(array.data)) == (True, min(size, limit))
        assert (array.length, array.overflowed) == (size, room < 0)
        if size <= LARGE_BYTES or limit > LARGE_BYTES:
            assert isinstance(array.data, memoryview) == (size & -4 > LARGE_BYTES)


async def test_words_sent_in_pieces_make_one_array() -> None:
    async with wire() as w:

        async def send() -> None:
            await w.a.outwords(numbered(8))
            await w.a.outwords(numbered(4))
            await send_array(w.a, b"xyz")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            array = await receive_array(w.b, 1024)
        assert array.data == numbered(8) + numbered(4) + b"xyz"
        assert w.tap.sent(w.a) == "040302010807060504030201 END 78797a END"


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 8, 9, 513])
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 512, 513])
async def test_limit_keeps_the_first_bytes_and_counts_all(size: int, limit: int) -> None:
    async with wire() as w:
        array = await exchange(w, limit, *on_the_wire(numbered(size)))
        assert (array.data, array.length) == (numbered(size)[:limit], size)
        assert array.overflowed is (size > limit)


async def test_array_past_the_limit_leaves_the_channel_in_step() -> None:
    async with wire() as w:
        assert (await exchange(w, 4, *on_the_wire(numbered(1025)))).overflowed
        assert (await exchange(w, 4, *on_the_wire(b"next"))).data == b"next"


@given(
    data=st.binary(max_size=40),
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    limit=st.integers(0, 44),
)
def test_pieces_on_the_wire_do_not_matter(data: bytes, cuts: list[int], limit: int) -> None:
    words, _, tail, _ = on_the_wire(data)
    assert isinstance(words, bytes)
    assert isinstance(tail, bytes)
    pieces: list[bytes | int] = []
    while words:
        cut = cuts[len(pieces) % len(cuts)]
        pieces.append(words[:cut])
        words = words[cut:]

    async def main() -> None:
        async with wire() as w:
            array = await exchange(w, limit, *pieces, END, *(bytes((byte,)) for byte in tail), END)
            assert (array.data, array.length) == (data[:limit], len(data))

    trio.run(main)


# Arrays given up.


@pytest.mark.parametrize("words", [0, 4, 512])
async def test_array_given_up(words: int) -> None:
    async with wire() as w:

        async def send() -> None:
            await w.a.outwords(numbered(words))
            await abandon_array(w.a)
            await send_array(w.a, b"after")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            with pytest.raises(ArrayAbandoned):
                await receive_array(w.b, 1024)
            assert (await receive_array(w.b, 1024)).data == b"after"


async def test_tokens_of_an_array_given_up() -> None:
    async with wire() as w:
        await w.a.outwords(numbered(4))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(carry_out, abandon_array, w.a)
            with pytest.raises(ArrayAbandoned):
                await receive_array(w.b, 1024)
        assert w.tap.sent(w.a) == "04030201 NACK END"


# Arrays that are none.


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ([b"\1", END], "control token 1 after 1 bytes"),
        ([b"\1\2\3", END], "control token 1 after 3 bytes"),
        ([b"\1\2\3\4\5", END], "control token 1 after 5 bytes"),
        ([3], "control token 3 after 0 bytes"),
        ([b"\1\2\3\4", 7], "control token 7 after 4 bytes"),
        ([END, b"\1\2\3\4"], "more than 3 bytes after its words"),
        ([b"\1\2\3\4", END, b"\1\2", b"\3\4"], "more than 3 bytes after its words"),
        ([END, NACK], "control token 4 in its tail"),
        ([END, b"\1", 9], "control token 9 in its tail"),
    ],
)
async def test_malformed_array_traps(runs: list[bytes | int], reason: str) -> None:
    async with wire() as w, trio.open_nursery() as nursery:
        nursery.start_soon(send_tokens, w.a, *runs)
        with pytest.raises(Trap) as trap:
            await receive_array(w.b, 1024)
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert trap.value.reason == f"array on {w.b.name}: {reason}"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("after", [b"\1", 4])
async def test_only_end_follows_the_nack_of_an_array_given_up(after: bytes | int) -> None:
    async with wire() as w, trio.open_nursery() as nursery:
        nursery.start_soon(send_tokens, w.a, NACK, after)
        with pytest.raises(Trap, match="expected control token 1"):
            await receive_array(w.b, 1024)
        nursery.cancel_scope.cancel()


@simulated
async def test_tail_that_comes_in_two_runs_traps_at_its_fourth_byte() -> None:
    async with bench() as test:
        receiving = test.start(receive_array, test.b, 8)
        await test.a.outct(END)
        await test.a.outuchar(1)
        await settle()
        await test.a.outbytes(b"\2\3\4\5\6")
        await settle()
        with pytest.raises(Trap, match="more than 3 bytes after its words"):
            receiving.value()
        assert test.b.statistics().tokens_queued == 2


@simulated
async def test_an_array_is_sent_in_pieces() -> None:
    async with bench() as test:
        runs = TokenRuns()
        with test.node.tracing(runs):
            received = test.start(receive_array, test.b, 3 * PIECE_BYTES)
            await send_array(test.a, bytes(2 * PIECE_BYTES + 5))
            await settle()
            assert received.value().length == 2 * PIECE_BYTES + 5
        assert runs.sizes == [PIECE_BYTES, PIECE_BYTES, 4, 1, 1, 1]


class TokenRuns(Tracer):
    """The sizes of runs that are output."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def output(self, end: TracedEnd, run: Run, tick: int) -> None:
        self.sizes.append(1 if isinstance(run, int) else len(run))


@simulated
async def test_negative_sizes_are_refused() -> None:
    async with bench() as test:
        with pytest.raises(SizeError, match="limit of an array"):
            await receive_array(test.b, -1)
        with pytest.raises(SizeError, match="bytes of an array"):
            await receive_array_piece(test.b, -4)


@pytest.mark.parametrize(
    ("size", "room", "comes_along"),
    [
        (7, 8, True),
        (8, 8, False),
        (LARGE_BYTES, 2 * LARGE_BYTES, True),
        (LARGE_BYTES + 1, 2 * LARGE_BYTES, False),
    ],
)
def test_an_array_comes_along_that_is_not_large_and_shorter_than_the_room(
    size: int, room: int, comes_along: bool
) -> None:
    @simulated
    async def run() -> None:
        async with bench() as test:
            receiver = test.start(receive_word, test.b, room)
            await settle()
            test.start(send_word_and_array, test.a, 0, bytes(size))
            await settle()
            assert receiver.value() == (0, bytes(size) if comes_along else None)

    run()


@pytest.mark.parametrize(
    ("size", "piece", "expected"),
    [
        (8, 8, (b"abcdefgh", False)),
        (7, 8, (b"abcdefg", True)),
        (9, 8, (b"abcdefgh", False)),
        (0, 4, (b"", True)),
        (4, 0, (b"", False)),
    ],
)
def test_only_the_last_piece_is_shorter(size: int, piece: int, expected: tuple[bytes, bool]) -> None:
    @simulated
    async def run() -> None:
        async with bench() as test:
            test.start(send_array, test.a, b"abcdefghi"[:size])
            assert await receive_array_piece(test.b, piece) == expected

    run()
