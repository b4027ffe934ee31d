"""Routes: what opens and closes them, who owns a destination, and when an end can be freed."""

import pytest

from aisrv.protocol.engine_channel import get_command
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_two_words, chan_out_word
from aisrv.xcore.select import Selection
from aisrv.xcore.tokens import Control
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.simulation import bench, drain, receive_singly, settle, simulated, tokens

END = Control.END
PAUSE = Control.PAUSE


@simulated
async def test_pause_is_not_delivered() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outuchar(5)
        await a.outct(PAUSE)
        assert await drain(b) == tokens(b"\x05")


@simulated
async def test_pause_needs_no_room() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outbytes(bytes(8))
        await a.outct(PAUSE)  # returns although the buffer is full
        assert await drain(b) == tokens(bytes(8))


@pytest.mark.parametrize("first", [b"\x09", 5])
@simulated
async def test_the_first_token_of_either_kind_opens_the_route(first: bytes | int) -> None:
    async with bench() as test:
        other = test.end(test.b)
        await (test.a.outct(first) if isinstance(first, int) else test.a.outbytes(first))
        waiting = test.start(other.outuint, 2)
        await settle()
        assert not waiting.done
        assert await drain(test.b) == tokens(first)


@pytest.mark.parametrize("closing", [END, PAUSE])
@simulated
async def test_end_and_pause_give_the_destination_to_the_next_source(closing: Control) -> None:
    async with bench() as test:
        other = test.end(test.b)
        await test.a.outuchar(1)
        waiting = test.start(other.outuchar, 2)
        await settle()
        assert not waiting.done
        await test.a.outct(closing)
        await settle()
        assert waiting.done
        assert await drain(test.b) == tokens(b"\x01", *([1] if closing == END else []), b"\x02")


@simulated
async def test_a_closed_route_is_opened_anew_by_the_next_token() -> None:
    async with bench() as test:
        await test.a.outct(END)
        await test.b.chkct(END)
        await test.a.outuchar(1)
        waiting = test.start(test.end(test.b).outuchar, 2)
        await settle()
        assert not waiting.done


@simulated
async def test_sources_get_the_destination_in_the_order_of_asking() -> None:
    async with bench() as test:
        await test.a.outuchar(0)
        for number in range(1, 7):
            test.start(_packet, test.end(test.b), bytes((number, number)))
            await settle()
        await test.a.outct(END)
        received = await receive_singly(test.b, 2 + 6 * 3)
        assert received == tokens(b"\0", 1, *(run for n in range(1, 7) for run in (bytes((n, n)), 1)))


async def _packet(source: ChanEnd, data: bytes) -> None:
    await source.outbytes(data)
    await source.outct(END)


@simulated
async def test_a_packet_is_not_mixed_with_another_even_where_the_sender_waits() -> None:
    async with bench() as test:
        first = test.start(test.a.outbytes, b"a" * 20)
        await settle()
        second = test.start(test.end(test.b).outbytes, b"b" * 4)
        assert await test.b.inbytes(20) == b"a" * 20
        await settle()
        assert first.done
        assert not second.done
        await test.a.outct(END)
        assert await receive_singly(test.b, 5) == tokens(1, b"b" * 4)


@simulated
async def test_the_route_stays_open_until_its_end_has_room() -> None:
    async with bench() as test:
        await test.a.outbytes(bytes(8))
        test.start(test.a.outct, END)
        await settle()
        other = test.start(test.end(test.b).outct, 5)
        await settle()
        assert await test.b.inuchar() == 0
        await settle()
        assert not other.done  # END has the eighth place
        assert await test.b.inuchar() == 0
        await settle()
        assert other.done
        assert await drain(test.b) == tokens(bytes(6), 1, 5)


@simulated
async def test_the_other_direction_has_a_route_of_its_own() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outuint(1)
        await b.outuint(2)
        assert [await a.inuint(), await b.inuint()] == [2, 1]


@simulated
async def test_setting_the_destination_is_refused_while_the_route_is_open() -> None:
    async with bench() as test:
        other = test.end()
        await test.a.outuchar(1)
        with pytest.raises(Trap) as trap:
            test.a.setd(other)
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert trap.value.reason == "setd on chanend 0x80000002 while its route is open"
        await test.a.outuchar(2)
        assert await test.b.inbytes(2) == b"\x01\x02"


@pytest.mark.parametrize("closing", [END, PAUSE])
@simulated
async def test_the_destination_may_be_set_once_the_route_is_closed(closing: Control) -> None:
    async with bench() as test:
        other = test.end()
        await test.a.outuchar(1)
        await test.a.outct(closing)
        test.a.setd(other)
        await test.a.outuchar(2)
        assert await drain(other) == tokens(b"\x02")


# Ends that nobody has allocated.


@simulated
async def test_tokens_to_an_unallocated_end_are_dropped_up_to_their_end() -> None:
    async with bench() as test:
        source = test.end()
        source.setd(source.resource_id + 0x100)
        await source.outuint(1)
        await source.outbytes(bytes(1000))  # nothing waits: there is no buffer to fill
        target = test.end()
        assert target.resource_id == source.resource_id + 0x100
        await source.outuint(2)
        assert not target.ready  # still of the packet that began before the end was there
        await source.outct(END)
        assert not target.ready
        await source.outuint(3)
        await source.outct(END)
        assert await target.inuint() == 3
        await target.chkct(END)
        source.free()
        target.free()


@simulated
@pytest.mark.parametrize("late", ["input", "select", "output"])
async def test_a_packet_to_nobody_stays_one_when_the_end_is_allocated(late: str) -> None:
    """Also where the other side waits for just the output whose first END ends that packet."""
    async with bench() as test:
        id_of_b = test.b.resource_id
        test.b.free()
        await test.a.outuint(1)
        b = test.node.tiles[1].allocate_chanend()
        assert b.resource_id == id_of_b
        b.setd(test.a)
        if late == "input":
            other = test.start(chan_in_word, b)
        elif late == "select":
            other = test.start(Selection(b, on_call=lambda _: (0, b"")).wait)
        else:
            other = test.start(chan_out_word, b, 6)
        await settle()
        if late == "output":
            assert test.a.statistics().tokens_queued == 1
            sender = test.start(chan_in_word, test.a)
        else:
            sender = test.start(chan_out_two_words if late == "input" else get_command, test.a, 5, 7)
        await settle()
        assert (sender.done, other.done) == (False, False)
        assert test.a.statistics().route_open is False


@simulated
async def test_pause_ends_a_dropped_packet_too() -> None:
    async with bench() as test:
        source = test.end()
        source.setd(source.resource_id + 0x100)
        await source.outuint(1)
        await source.outct(PAUSE)
        target = test.end()
        await source.outuint(3)
        assert await target.inuint() == 3


@simulated
async def test_a_lone_end_to_nobody_leaves_no_route() -> None:
    async with bench() as test:
        source = test.end()
        source.setd(0x80010F02)
        await source.outct(END)
        source.free()


@simulated
async def test_setting_the_destination_is_refused_while_a_packet_is_dropped() -> None:
    async with bench() as test:
        source = test.end()
        source.setd(0x80010F02)
        await source.outuchar(1)
        with pytest.raises(Trap) as trap:
            source.setd(test.b)
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE


@simulated
async def test_tokens_to_a_freed_end_are_dropped() -> None:
    async with bench() as (_, a, b, _tasks):
        b.free()
        await a.outbytes(bytes(100))  # nothing waits: there is no buffer to fill
        await a.outct(END)
        a.free()


# Freeing.


@simulated
async def test_an_end_with_tokens_buffered_cannot_be_freed() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outct(END)
        with pytest.raises(Trap) as trap:
            b.free()
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert trap.value.reason == "freer on chanend 0x80010002 with 1 token buffered"
        await b.chkct(END)
        b.free()


@simulated
async def test_neither_end_of_an_open_route_can_be_freed() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outuchar(1)
        await b.inuchar()
        for end in (a, b):
            with pytest.raises(Trap) as trap:
                end.free()
            assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        await a.outct(END)
        await b.chkct(END)
        a.free()
        b.free()


@simulated
async def test_an_end_whose_packet_is_being_dropped_cannot_be_freed() -> None:
    async with bench() as (_, a, b, _tasks):
        b.free()
        await a.outuchar(1)
        with pytest.raises(Trap) as trap:
            a.free()
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE


@simulated
async def test_an_end_in_use_cannot_be_freed() -> None:
    async with bench() as test:
        test.start(test.a.inuint)
        await settle()
        with pytest.raises(Trap) as trap:
            test.a.free()
        assert trap.value.kind is TrapKind.RESOURCE_DEP
