"""Tokens and channel ends: what each verb sends, takes, awaits and refuses."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.select import select
from aisrv.xcore.tokens import Control, Run, words_to_wire
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.simulation import (
    bench,
    drain,
    receive_singly,
    send_singly,
    settle,
    simulated,
    tokens,
)

END = Control.END


# What crosses.


@simulated
async def test_a_word_crosses_most_significant_byte_first() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outuint(0x12345678)
        assert await b.inbytes(4) == b"\x12\x34\x56\x78"


@pytest.mark.parametrize("word", [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
@simulated
async def test_a_word_arrives_as_sent(word: int) -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outuint(word)
        assert await b.inuint() == word


@simulated
async def test_a_word_is_32_bits() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outuint(0x1_0000_0002)
        await a.outuint(-1)
        assert [await b.inuint(), await b.inuint()] == [2, 0xFFFFFFFF]


@simulated
async def test_four_bytes_arrive_as_a_word() -> None:
    async with bench() as (_, a, b, _tasks):
        for byte in (0xDE, 0xAD, 0xBE, 0xEF):
            await a.outuchar(byte)
        assert await b.inuint() == 0xDEADBEEF


@simulated
async def test_a_block_of_words_crosses_with_each_word_reversed() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outwords(b"\x01\x02\x03\x04\x05\x06\x07\x08")
        assert await b.inbytes(8) == b"\x04\x03\x02\x01\x08\x07\x06\x05"


@simulated
async def test_inwords_gives_memory_as_outwords_took_it() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outwords(memoryview(b"\x01\x02\x03\x04\x05\x06\x07\x08"))
        assert await b.inwords(2) == b"\x01\x02\x03\x04\x05\x06\x07\x08"


@pytest.mark.parametrize("size", [1, 3, 5, 511])
def test_a_block_that_is_not_whole_words_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="not a multiple"):
        words_to_wire(bytes(size))


@pytest.mark.parametrize("token", [0, 1, 3, 4, 5, 191])
@simulated
async def test_software_sends_control_tokens_0_to_191(token: int) -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outct(token)
        assert await b.inct() == token


@pytest.mark.parametrize("token", [-1, 192, 255])
@simulated
async def test_other_control_tokens_trap_and_send_nothing(token: int) -> None:
    async with bench() as (_, a, b, _tasks):
        with pytest.raises(Trap) as trap:
            await a.outct(token)
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert not b.ready
        a.free()  # no route was opened either


# The buffer of eight tokens.


@simulated
async def test_two_words_fit_and_the_third_waits_for_four_tokens_of_room() -> None:
    async with bench() as (_, a, b, tasks):
        await a.outuint(1)
        await a.outuint(2)
        third = _started(tasks, a.outuint, 3)
        for _ in range(4):
            await settle()
            assert not third.is_set()
            await b.inuchar()
        await settle()
        assert third.is_set()


@simulated
async def test_eight_tokens_fit_and_the_ninth_waits_for_one() -> None:
    async with bench() as (_, a, b, tasks):
        for byte in range(8):
            await a.outuchar(byte)
        ninth = _started(tasks, a.outuchar, 8)
        await settle()
        assert not ninth.is_set()
        await b.inuchar()
        await settle()
        assert ninth.is_set()


@simulated
async def test_control_tokens_take_room_too() -> None:
    async with bench() as (_, a, b, tasks):
        for _ in range(8):
            await a.outct(Control.ACK)
        ninth = _started(tasks, a.outct, END)
        await settle()
        assert not ninth.is_set()
        await b.chkct(Control.ACK)
        await settle()
        assert ninth.is_set()


@pytest.mark.parametrize("size", [9, 511, 512, 513, 1024, 65536])
@simulated
async def test_a_block_returns_once_eight_of_its_tokens_are_undelivered(size: int) -> None:
    async with bench() as (_, a, b, tasks):
        sent = _started(tasks, a.outbytes, bytes(size))
        await settle()
        if size > 9:
            await b.inbytes(size - 9)
        await settle()
        assert not sent.is_set()
        await b.inuchar()
        await settle()
        assert sent.is_set()
        assert await drain(b) == tokens(bytes(8))


@pytest.mark.parametrize("size", [0, 1, 8])
@simulated
async def test_a_block_of_up_to_eight_tokens_returns_at_once(size: int) -> None:
    async with bench() as (_, a, b, tasks):
        sent = _started(tasks, a.outbytes, bytes(size))
        await settle()
        assert sent.is_set()
        assert await b.inbytes(size) == bytes(size)


def _started(tasks: trio.Nursery, verb: Callable[..., Awaitable[None]], *args: Any) -> trio.Event:
    done = trio.Event()

    async def run() -> None:
        await verb(*args)
        done.set()

    tasks.start_soon(run)
    return done


@simulated
async def test_an_empty_block_sends_nothing_and_opens_no_route() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outbytes(b"")
        await a.outwords(b"")
        assert not b.ready
        b.free()
        a.free()


@pytest.mark.parametrize("waiting", [(), (b"\x07",), (5,)])
@simulated
async def test_an_empty_input_takes_nothing_whatever_waits(waiting: tuple[Run, ...]) -> None:
    async with bench() as (_, a, b, _tasks):
        await send_singly(a, tokens(*waiting))
        assert (await b.inbytes(0), await b.inwords(0)) == (b"", b"")
        assert await drain(b) == tokens(*waiting)


# Inputs, and the tokens they do not like.


@pytest.mark.parametrize("place", [1, 2, 3, 4])
@simulated
async def test_inuint_traps_on_a_control_token_and_consumes_nothing(place: int) -> None:
    async with bench() as (_, a, b, _tasks):
        stream = tokens(bytes(range(place - 1)), 5)
        await send_singly(a, stream)
        with pytest.raises(Trap) as trap:
            await b.inuint()
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert await drain(b) == stream


@pytest.mark.parametrize("place", [1, 2, 3, 4])
@simulated
async def test_inuint_traps_at_once_even_when_parked(place: int) -> None:
    async with bench() as test:
        word = test.start(test.b.inuint)
        await settle()
        await send_singly(test.a, tokens(bytes(place - 1)))
        await settle()
        assert not word.done
        await test.a.outct(END)
        await settle()
        with pytest.raises(Trap, match=r"ILLEGAL_RESOURCE \(4\): expected data on chanend 0x80010002"):
            word.value()


@simulated
async def test_a_control_token_after_the_word_does_not_matter() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outuint(9)
        await a.outct(END)
        assert await b.inuint() == 9
        await b.chkct(END)


@pytest.mark.parametrize("split", range(1, 8))
@simulated
async def test_words_are_read_across_runs(split: int) -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outbytes(bytes(range(1, split + 1)))
        await a.outbytes(bytes(range(split + 1, 9)))
        assert [await b.inuint(), await b.inuint()] == [0x01020304, 0x05060708]


@simulated
async def test_inuchar_traps_on_a_control_token() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outct(END)
        with pytest.raises(Trap) as trap:
            await b.inuchar()
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert await b.inct() == END


@pytest.mark.parametrize("verb", ["inct", "chkct"])
@simulated
async def test_control_inputs_trap_on_data_and_leave_it(verb: str) -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outuchar(1)  # as a number the same as END
        with pytest.raises(Trap) as trap:
            await (b.inct() if verb == "inct" else b.chkct(END))
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert await b.inuchar() == 1


@simulated
async def test_chkct_consumes_the_token_it_expects() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outct(7)
        await b.chkct(7)
        assert not b.ready


@simulated
@pytest.mark.parametrize("verb", ["inct", "chkct", "in_until_control"])
async def test_a_control_token_that_is_input_makes_room(verb: str) -> None:
    async with bench() as test:
        for _ in range(8):
            await test.a.outct(Control.ACK)
        waits = test.start(test.a.outct, Control.ACK)
        await settle()
        assert not waits.done
        await getattr(test.b, verb)(*() if verb == "inct" else (Control.ACK,))
        await settle()
        assert waits.done


@simulated
async def test_chkct_traps_on_another_token_and_leaves_it() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outct(Control.ACK)
        with pytest.raises(Trap) as trap:
            await b.chkct(END)
        assert str(trap.value) == (
            "ILLEGAL_RESOURCE (4): expected control token 1 on chanend 0x80010002, got control token 3"
        )
        assert await b.inct() == Control.ACK


@pytest.mark.parametrize(("token", "control"), [((7).to_bytes(1, "big"), False), (7, True)])
@simulated
async def test_testct_says_which_kind_and_consumes_nothing(token: Run, control: bool) -> None:
    async with bench() as (_, a, b, _tasks):
        await send_singly(a, tokens(token))
        assert [await b.testct(), await b.testct()] == [control, control]
        assert await drain(b) == tokens(token)


@simulated
async def test_testct_waits_for_a_token() -> None:
    async with bench() as test:
        control = test.start(test.b.testct)
        await settle()
        assert not control.done
        await test.a.outct(END)
        await settle()
        assert control.value() is True


@pytest.mark.parametrize(
    ("stream", "place"),
    [
        (tokens(5), 1),
        (tokens(b"a", 5), 2),
        (tokens(b"ab", 5), 3),
        (tokens(b"abc", 5), 4),
        (tokens(b"abcd"), 0),
        (tokens(b"abcd", 5), 0),
        (tokens(5, b"a", 6), 1),
        (tokens(b"a", 5, 6), 2),
    ],
)
@simulated
async def test_testwct_gives_the_place_of_the_first_control_token(stream: list[Any], place: int) -> None:
    async with bench() as (_, a, b, _tasks):
        await send_singly(a, stream)
        assert await b.testwct() == place
        assert await drain(b) == stream


@simulated
async def test_testwct_counts_from_what_is_left_of_a_run() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outbytes(b"abcde")
        await a.outct(5)
        assert await b.inbytes(3) == b"abc"
        assert await b.testwct() == 3


@simulated
async def test_testwct_waits_for_four_tokens_or_a_control_token() -> None:
    async with bench() as test:
        place = test.start(test.b.testwct)
        for byte in b"abc":
            await test.a.outuchar(byte)
            await settle()
            assert not place.done
        await test.a.outuchar(0x64)
        await settle()
        assert place.value() == 0


@simulated
async def test_a_long_input_traps_at_the_control_token_it_meets() -> None:
    async with bench() as (_, a, b, _tasks):
        await send_singly(a, tokens(b"abcde", END, b"f"))
        with pytest.raises(Trap) as trap:
            await b.inbytes(6)
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert await receive_singly(b, 2) == tokens(END, b"f")


# Ends in the wrong state.


@pytest.mark.parametrize("verb", ["outuint", "outuchar", "outct", "outbytes", "outwords"])
@simulated
async def test_an_output_with_no_destination_is_a_link_error(verb: str) -> None:
    async with bench() as test:
        lone = test.end()
        with pytest.raises(Trap) as trap:
            await getattr(lone, verb)(bytes(4) if verb in ("outbytes", "outwords") else 1)
        assert trap.value.kind is TrapKind.LINK_ERROR
        assert trap.value.reason == "output on chanend 0x80000102, which has no destination"


VERBS: dict[str, Callable[[ChanEnd], Awaitable[Any]]] = {
    "outuint": lambda c: c.outuint(1),
    "outuchar": lambda c: c.outuchar(1),
    "outct": lambda c: c.outct(END),
    "outbytes": lambda c: c.outbytes(b"abc"),
    "outwords": lambda c: c.outwords(b"abcd"),
    "inuint": lambda c: c.inuint(),
    "inuchar": lambda c: c.inuchar(),
    "inct": lambda c: c.inct(),
    "chkct": lambda c: c.chkct(END),
    "testct": lambda c: c.testct(),
    "testwct": lambda c: c.testwct(),
    "inbytes": lambda c: c.inbytes(3),
    "inwords": lambda c: c.inwords(1),
}


@pytest.mark.parametrize("verb", VERBS)
@simulated
async def test_every_verb_on_a_freed_end_traps(verb: str) -> None:
    async with bench() as (_, a, _b, _tasks):
        a.free()
        with pytest.raises(Trap) as trap:
            await VERBS[verb](a)
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert trap.value.reason == f"{verb} on chanend 0x80000002, which was freed"


@pytest.mark.parametrize("verb", VERBS)
@simulated
async def test_every_verb_traps_while_another_core_is_in_one(verb: str) -> None:
    async with bench() as test:
        first = test.start(test.a.inuint)
        await settle()
        with pytest.raises(Trap) as trap:
            await VERBS[verb](test.a)
        assert trap.value.kind is TrapKind.RESOURCE_DEP
        assert trap.value.reason == f"{verb} on chanend 0x80000002 while task inuint is in inuint on it"
        await test.b.outuint(5)  # the first core is not disturbed
        await settle()
        assert first.value() == 5


@pytest.mark.parametrize("verb", [verb for verb in VERBS if not verb.startswith("out")])
@simulated
async def test_every_input_traps_while_another_core_selects_on_the_end(verb: str) -> None:
    async with bench() as test:
        selection = test.start(select, test.a)
        await settle()
        with pytest.raises(Trap) as trap:
            await VERBS[verb](test.a)
        assert trap.value.kind is TrapKind.RESOURCE_DEP
        await test.b.outuint(5)
        await settle()
        assert selection.value() is test.a


@simulated
async def test_another_core_may_set_the_destination_and_output_while_one_selects() -> None:
    async with bench() as test:
        loop = test.end()
        selection = test.start(select, loop)
        await settle()
        loop.setd(loop)
        await loop.outuint(0x1E761921)
        await settle()
        assert selection.value() is loop
        assert await loop.inuint() == 0x1E761921


@simulated
async def test_a_task_outside_of_the_cores_may_use_what_a_core_has_used() -> None:
    async with bench() as test:
        test.node.tiles[0].start(test.a.outuint, 1)
        await settle()
        await test.a.outuint(2)
        assert (await test.b.inuint(), await test.b.inuint()) == (1, 2)


@simulated
async def test_an_end_may_send_to_itself() -> None:
    async with bench() as test:
        loop = test.end()
        loop.setd(loop)
        await loop.outuint(0x3A)
        await loop.outct(END)
        assert await loop.inuint() == 0x3A
        await loop.chkct(END)
        loop.free()


@simulated
async def test_the_destination_may_be_given_as_a_resource_id() -> None:
    async with bench() as test:
        source = test.end()
        source.setd(0x80010002)
        await source.outuint(77)
        assert await test.b.inuint() == 77
