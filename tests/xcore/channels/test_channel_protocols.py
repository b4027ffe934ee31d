"""The three channel protocols: the tokens that cross, in order, and what blocks until when."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from aisrv.protocol.commands import Status
from aisrv.protocol.engine_channel import get_command, set_command
from aisrv.xcore.channels import channel
from aisrv.xcore.channels.array import receive_array, send_array
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import Transaction
from aisrv.xcore.tokens import Control, Run
from tests.support.benches.simulation import TokenTrace, bench, settle, simulated
from tests.support.benches.wires import carry_out

END = Control.END
Program = Callable[[ChanEnd], Awaitable[Any]]


async def _trace(a_side: Program, b_side: Program) -> tuple[list[tuple[str, Run]], Any, Any]:
    """Run both sides to their end; what crossed, and what each returned. Both ends are left closed."""
    async with bench() as test:
        with test.node.tracing(TokenTrace(a=test.a, b=test.b)) as trace:
            a, b = test.start(a_side, test.a), test.start(b_side, test.b)
            await settle()
        results = (a.value(), b.value())
        test.a.free()
        test.b.free()
        assert isinstance(trace, TokenTrace)
        return (trace.sent, *results)


# Normal: c <: x, c :> x.


@pytest.mark.parametrize(
    ("sender", "value", "wire", "receiver"),
    [
        (channel.chan_out_word, 0x12345678, b"\x12\x34\x56\x78", channel.chan_in_word),
        (channel.chan_out_byte, 0xA5, b"\xa5", channel.chan_in_byte),
        (channel.chan_out_buf_byte, b"abc", b"abc", lambda c: channel.chan_in_buf_byte(c, 3)),
        (channel.chan_out_buf_byte, bytes(90), bytes(90), lambda c: channel.chan_in_buf_byte(c, 90)),
        (channel.chan_out_buf_word, b"abcdefgh", b"dcbahgfe", lambda c: channel.chan_in_buf_word(c, 2)),
    ],
)  # fmt: skip
@simulated
async def test_a_normal_output_is_framed_by_a_handshake_before_and_after(
    sender: Any, value: Any, wire: bytes, receiver: Program
) -> None:
    sent, _, received = await _trace(lambda c: sender(c, value), receiver)
    assert sent == [("a", 1), ("b", 1), ("a", wire), ("a", 1), ("b", 1)]
    assert received == value


@simulated
async def test_an_empty_normal_output_is_the_two_handshakes() -> None:
    sent, _, received = await _trace(
        lambda c: channel.chan_out_buf_byte(c, b""), lambda c: channel.chan_in_buf_byte(c, 0)
    )
    assert sent == [("a", 1), ("b", 1), ("a", 1), ("b", 1)]
    assert received == b""


@simulated
async def test_a_normal_output_returns_only_when_the_receiver_has_taken_it() -> None:
    async with bench() as test:
        sender = test.start(channel.chan_out_word, test.a, 7)
        await test.b.chkct(END)
        await test.b.outct(END)
        assert await test.b.inuint() == 7
        await test.b.chkct(END)
        await settle()
        assert not sender.done
        await test.b.outct(END)
        await settle()
        assert sender.done


@simulated
async def test_the_event_of_a_normal_channel_is_the_opening_end() -> None:
    async with bench() as test:
        test.start(channel.chan_out_word, test.a, 7)
        await settle()
        assert test.b.ready
        assert await test.b.inct() == END
        await settle()
        assert not test.b.ready  # the word waits for our END


@simulated
async def test_normal_outputs_in_both_directions_take_turns() -> None:
    async def one(c: ChanEnd) -> int:
        await channel.chan_out_word(c, 1)
        return await channel.chan_in_word(c)

    async def other(c: ChanEnd) -> int:
        word = await channel.chan_in_word(c)
        await channel.chan_out_word(c, word + 1)
        return word

    sent, back, there = await _trace(one, other)
    assert (there, back) == (1, 2)
    assert sent == [
        *[("a", 1), ("b", 1), ("a", b"\0\0\0\x01"), ("a", 1), ("b", 1)],
        *[("b", 1), ("a", 1), ("b", b"\0\0\0\x02"), ("b", 1), ("a", 1)],
    ]


# Streaming.


@simulated
async def test_streaming_outputs_are_bare_and_the_route_stays_open_until_end() -> None:
    async def source(c: ChanEnd) -> None:
        await channel.s_chan_out_word(c, 0x01020304)
        await channel.s_chan_out_byte(c, 5)
        await channel.s_chan_out_ct_end(c)

    async def sink(c: ChanEnd) -> tuple[int, int]:
        received = (await channel.s_chan_in_word(c), await channel.s_chan_in_byte(c))
        await channel.s_chan_check_ct_end(c)
        return received

    sent, _, received = await _trace(source, sink)
    assert sent == [("a", b"\x01\x02\x03\x04\x05"), ("a", 1)]
    assert received == (0x01020304, 5)


@simulated
async def test_a_streaming_output_does_not_wait_for_the_receiver() -> None:
    async with bench() as test:
        for word in range(2):
            await channel.s_chan_out_word(test.a, word)
        third = test.start(channel.s_chan_out_word, test.a, 2)
        await settle()
        assert not third.done
        other = test.start(test.end(test.b).outuchar, 0)
        for word in range(3):
            assert await channel.s_chan_in_word(test.b) == word
        await settle()
        assert third.done
        assert not other.done  # the route is still open


# Transactions.


@simulated
async def test_a_transaction_whose_master_outputs_first() -> None:
    async def master(c: ChanEnd) -> None:
        tc = await channel.chan_init_transaction_master(c)
        await channel.t_chan_out_word(tc, 0x01020304)
        await channel.t_chan_out_byte(tc, 5)
        await channel.chan_complete_transaction(tc)

    async def slave(c: ChanEnd) -> tuple[int, int]:
        tc = await channel.chan_init_transaction_slave(c)
        received = (await channel.t_chan_in_word(tc), await channel.t_chan_in_byte(tc))
        await channel.chan_complete_transaction(tc)
        return received

    sent, _, received = await _trace(master, slave)
    assert sent == [("a", 1), ("b", 1), ("a", b"\x01\x02\x03\x04\x05"), ("a", 1), ("b", 1)]
    assert received == (0x01020304, 5)


@simulated
async def test_a_transaction_whose_master_inputs_first() -> None:
    async def master(c: ChanEnd) -> bytes:
        tc = await channel.chan_init_transaction_master(c)
        received = await channel.t_chan_in_buf_byte(tc, 3)
        await channel.chan_complete_transaction(tc)
        return received

    async def slave(c: ChanEnd) -> None:
        tc = await channel.chan_init_transaction_slave(c)
        await channel.t_chan_out_buf_byte(tc, b"abc")
        await channel.chan_complete_transaction(tc)

    sent, received, _ = await _trace(master, slave)
    assert sent == [("a", 1), ("b", b"abc"), ("b", 1), ("a", 1)]
    assert received == b"abc"


@simulated
async def test_an_empty_transaction() -> None:
    async def side(c: ChanEnd, init: Callable[[ChanEnd], Awaitable[Transaction]]) -> None:
        await channel.chan_complete_transaction(await init(c))

    sent, _, _ = await _trace(
        lambda c: side(c, channel.chan_init_transaction_master),
        lambda c: side(c, channel.chan_init_transaction_slave),
    )
    assert sent == [("a", 1), ("b", 1), ("a", 1)]  # opens; closes both ways


@simulated
async def test_each_change_of_direction_within_a_transaction_costs_one_end() -> None:
    async def master(c: ChanEnd) -> tuple[bytes, int]:
        tc = await channel.chan_init_transaction_master(c)
        await channel.t_chan_out_buf_word(tc, b"abcdefgh")
        words = await channel.t_chan_in_buf_word(tc, 1)
        await channel.t_chan_out_byte(tc, 7)
        byte = await channel.t_chan_in_byte(tc)
        await channel.chan_complete_transaction(tc)
        return words, byte

    async def slave(c: ChanEnd) -> tuple[bytes, int]:
        tc = await channel.chan_init_transaction_slave(c)
        words = await channel.t_chan_in_buf_word(tc, 2)
        await channel.t_chan_out_buf_word(tc, b"ijkl")
        byte = await channel.t_chan_in_byte(tc)
        await channel.t_chan_out_byte(tc, 8)
        await channel.chan_complete_transaction(tc)
        return words, byte

    sent, to_master, to_slave = await _trace(master, slave)
    assert sent == [
        ("a", 1),  # opens
        ("b", 1),  # the master is to output
        ("a", b"dcbahgfe"),
        ("a", 1),  # the slave is to output
        ("b", b"lkji"),
        ("b", 1),
        ("a", b"\x07"),
        ("a", 1),
        ("b", b"\x08"),
        ("b", 1),  # closes
        ("a", 1),
    ]
    assert (to_master, to_slave) == ((b"ijkl", 8), (b"abcdefgh", 7))


# Arrays, and what an engine answers.


@simulated
async def test_the_status_of_a_set_is_a_bare_word_then_end() -> None:
    async def engine(c: ChanEnd) -> tuple[int, int, bytes]:
        command, tensor = await channel.chan_in_word(c), await channel.chan_in_word(c)
        array = await receive_array(c, 100)
        await c.outuint(Status.ERROR_BAD_CMD)
        await c.outct(END)
        return command, tensor, bytes(array.data)

    sent, status, received = await _trace(lambda c: set_command(c, 0x83, 2, b"abcde"), engine)
    assert status is Status.ERROR_BAD_CMD
    assert received == (0x83, 2, b"abcde")
    assert sent == [
        *[("a", 1), ("b", 1), ("a", b"\0\0\0\x83"), ("a", 1), ("b", 1)],
        *[("a", 1), ("b", 1), ("a", b"\0\0\0\x02"), ("a", 1), ("b", 1)],
        *[("a", b"dcba"), ("a", 1), ("a", b"e"), ("a", 1)],
        *[("b", int(Status.ERROR_BAD_CMD).to_bytes(4, "big")), ("b", 1)],
    ]


@simulated
async def test_the_status_of_a_get_is_a_normal_output_and_its_data_an_array() -> None:
    async def engine(c: ChanEnd) -> None:
        await channel.chan_in_word(c)
        await channel.chan_in_word(c)
        await channel.chan_out_word(c, Status.OKAY)
        await send_array(c, b"abcde")

    sent, answer, _ = await _trace(lambda c: get_command(c, 3, 1), engine)
    assert answer == (Status.OKAY, b"abcde")
    assert sent[10:] == [
        *[("b", 1), ("a", 1), ("b", bytes(4)), ("b", 1), ("a", 1)],
        *[("b", b"dcba"), ("b", 1), ("b", b"e"), ("b", 1)],
    ]


@simulated
async def test_three_protocols_follow_one_another_on_one_channel() -> None:
    async def one(c: ChanEnd) -> None:
        await channel.chan_out_word(c, 1)
        await channel.s_chan_out_word(c, 2)
        await channel.s_chan_out_ct_end(c)
        tc = await channel.chan_init_transaction_master(c)
        await channel.t_chan_out_word(tc, 3)
        await channel.chan_complete_transaction(tc)
        await send_array(c, b"four")

    async def other(c: ChanEnd) -> list[Any]:
        received: list[Any] = [await channel.chan_in_word(c), await channel.s_chan_in_word(c)]
        await channel.s_chan_check_ct_end(c)
        tc = await channel.chan_init_transaction_slave(c)
        received.append(await channel.t_chan_in_word(tc))
        await channel.chan_complete_transaction(tc)
        received.append(bytes((await receive_array(c, 100)).data))
        return received

    _, _, received = await _trace(one, other)
    assert received == [1, 2, 3, b"four"]


@simulated
async def test_a_mismatched_protocol_traps_at_the_receiver() -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(Exception, match="expected control token 1 on chanend 0x80010002, got data"),
        flatten_subgroups=True,
    ):
        async with bench() as test, trio.open_nursery() as tasks:
            await test.a.outuint(1)
            tasks.start_soon(carry_out, channel.chan_in_word, test.b)
