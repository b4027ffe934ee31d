"""Both sides of the channel to an engine: exact tokens of every form, pieces, what traps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.commands import Status
from aisrv.protocol.engine_channel import (
    MODEL_CHANGED,
    Watcher,
    abandon_set,
    answer_get,
    answer_set,
    begin_get,
    begin_set,
    end_set,
    get_command,
    receive_command,
    receive_piece,
    receive_set,
    refuse_get,
    set_command,
    take_notification,
)
from aisrv.xcore.channels.array import ArrayAbandoned, receive_array
from aisrv.xcore.channels.channel import chan_in_word
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.scripted_engine import Recorded, ScriptedEngine
from tests.support.benches.wires import END, NACK, Wire, carry_out, send_tokens, wire

DATA = b"\x01\x02\x03\x04\x05\x06"

# `c <: word` sends END, the word, END and awaits END twice; the other side answers END and END.
COMMAND = "END {:08x} END END {:08x} END"
ACKNOWLEDGED = "END END END END"


@asynccontextmanager
async def engine(script: ScriptedEngine | None = None) -> AsyncIterator[tuple[Wire, ScriptedEngine]]:
    script = script or ScriptedEngine()
    async with wire() as w, trio.open_nursery() as nursery:
        nursery.start_soon(script.run, w.b)
        yield w, script
        nursery.cancel_scope.cancel()


# Tokens.


async def test_tokens_of_a_set() -> None:
    async with engine() as (w, script):
        assert await set_command(w.a, 0x83, 2, DATA) is Status.OKAY
        assert w.tap.sent(w.a) == COMMAND.format(0x83, 2) + " 04030201 END 0506 END"
        assert w.tap.sent(w.b) == ACKNOWLEDGED + " 00000000 END"
        assert script.commands == [Recorded(0x83, 2, DATA)]


async def test_tokens_of_a_set_without_data() -> None:
    async with engine() as (w, script):
        assert await set_command(w.a, 0x84) is Status.OKAY
        assert w.tap.sent(w.a) == COMMAND.format(0x84, 0) + " END END"
        assert script.commands == [Recorded(0x84, 0, b"")]


async def test_tokens_of_a_set_that_fails() -> None:
    async with engine(ScriptedEngine(statuses={0x86: 0x08})) as (w, _):
        assert await set_command(w.a, 0x86, 0, b"bad!") is Status.ERROR_MODEL_ERR
        assert w.tap.sent(w.a) == COMMAND.format(0x86, 0) + " " + b"!dab".hex() + " END END"
        assert w.tap.sent(w.b) == ACKNOWLEDGED + " 00000008 END"


async def test_tokens_of_a_get() -> None:
    async with engine(ScriptedEngine(answers={0x05: DATA})) as (w, script):
        assert await get_command(w.a, 0x05, 1) == (Status.OKAY, DATA)
        assert w.tap.sent(w.a) == COMMAND.format(0x05, 1) + " END END"
        assert w.tap.sent(w.b) == ACKNOWLEDGED + " END 00000000 END 04030201 END 0506 END"
        assert script.commands == [Recorded(0x05, 1)]


async def test_get_that_fails_has_no_array() -> None:
    async with engine(ScriptedEngine(answers={0x05: DATA}, statuses={0x05: 0x24})) as (w, _):
        status = Status.ERROR_NO_MODEL | Status.ERROR_BAD_CMD
        assert await get_command(w.a, 0x05) == (status, b"")
        assert w.tap.sent(w.b) == ACKNOWLEDGED + " END 00000024 END"


async def test_codes_and_tensor_numbers_are_whole_words() -> None:
    async with engine() as (w, script):
        await set_command(w.a, 0xFEDCBA98, 0xFFFFFFFF)
        assert w.tap.sent(w.a) == COMMAND.format(0xFEDCBA98, 0xFFFFFFFF) + " END END"
        assert script.commands == [Recorded(0xFEDCBA98, 0xFFFFFFFF, b"")]


async def test_commands_follow_each_other_on_one_channel() -> None:
    async with engine(ScriptedEngine(answers={0x05: b"12345"}, statuses={0x86: 0x08, 0x0A: 0x04})) as (
        w,
        script,
    ):
        for _ in range(2):
            assert await set_command(w.a, 0x86, 0, DATA) == 0x08
            assert await get_command(w.a, 0x05) == (0, b"12345")
            assert await get_command(w.a, 0x0A) == (0x04, b"")
            assert await set_command(w.a, 0x84) == 0
        assert [each.command for each in script.commands] == [0x86, 0x05, 0x0A, 0x84] * 2


# The engine's side.


async def test_engine_receives_a_set_and_answers_a_bare_word() -> None:
    async with wire() as w, trio.open_nursery() as nursery:
        nursery.start_soon(carry_out, set_command, w.a, 0x83, 2, DATA)
        assert await receive_command(w.b) == (0x83, 2)
        array = await receive_set(w.b, 5)
        assert (array.data, array.length) == (DATA[:5], len(DATA))
        await answer_set(w.b, Status.ERROR_BAD_CMD)
        assert w.tap.sent(w.b) == ACKNOWLEDGED + f" {Status.ERROR_BAD_CMD:08x} END"


async def test_engine_is_told_that_a_set_is_given_up() -> None:
    async with wire() as w, trio.open_nursery() as nursery:

        async def client() -> None:
            await begin_set(w.a, 0x83, 0)
            await w.a.outwords(b"part")
            await abandon_set(w.a)

        nursery.start_soon(client)
        assert await receive_command(w.b) == (0x83, 0)
        with pytest.raises(ArrayAbandoned):
            await receive_set(w.b, 100)


async def test_engine_answers_a_get() -> None:
    async with wire() as w, trio.open_nursery() as nursery:
        nursery.start_soon(carry_out, get_command, w.a, 0x05, 1)
        assert await receive_command(w.b) == (0x05, 1)
        await answer_get(w.b, DATA)
        assert w.tap.sent(w.b) == ACKNOWLEDGED + " END 00000000 END 04030201 END 0506 END"


async def test_engine_refuses_a_get_without_an_array() -> None:
    async with wire() as w, trio.open_nursery() as nursery:
        nursery.start_soon(carry_out, get_command, w.a, 0x05)
        assert await receive_command(w.b) == (0x05, 0)
        await refuse_get(w.b, Status.ERROR_NO_MODEL)
        assert w.tap.sent(w.b) == ACKNOWLEDGED + f" END {Status.ERROR_NO_MODEL:08x} END"


async def test_a_notification_is_a_control_token_that_is_answered_with_ack() -> None:
    async with wire() as w:
        watcher = Watcher(w.b)
        await watcher.notify(MODEL_CHANGED)
        assert await take_notification(w.a) == MODEL_CHANGED
        assert (w.tap.sent(w.b), w.tap.sent(w.a)) == ("5", "ACK")


# Data in pieces.


@pytest.mark.parametrize("rest", [b"", b"x", b"xyz", b"wxyz", b"vwxyz"])
async def test_set_in_pieces_is_the_same_on_the_wire(rest: bytes) -> None:
    async with engine() as (whole, _):
        await set_command(whole.a, 0x83, 3, bytes(range(12)) + rest)
    async with engine() as (w, script):
        await begin_set(w.a, 0x83, 3)
        await w.a.outwords(bytes(range(8)))
        await w.a.outwords(bytes(range(8, 12)))
        assert await end_set(w.a, rest) is Status.OKAY
        assert w.tap.sent(w.a) == whole.tap.sent(whole.a)
        assert script.commands == [Recorded(0x83, 3, bytes(range(12)) + rest)]


async def test_tokens_of_a_set_given_up() -> None:
    async with engine() as (w, script):
        await begin_set(w.a, 0x83, 0)
        await w.a.outwords(b"part")
        await abandon_set(w.a)
        assert w.tap.sent(w.a) == COMMAND.format(0x83, 0) + " " + b"trap".hex() + " NACK END"
        assert await get_command(w.a, 0x10) == (0, b"")
        assert script.commands == [Recorded(0x83, 0, b"part", abandoned=True), Recorded(0x10, 0)]


@pytest.mark.parametrize(
    ("size", "pieces"),
    [
        (0, [(b"", True)]),
        (3, [(b"\0\1\2", True)]),
        (4, [(b"\0\1\2\3", True)]),
        (7, [(b"\0\1\2\3\4\5\6", True)]),
        (8, [(b"\0\1\2\3\4\5\6\7", False), (b"", True)]),
        (9, [(b"\0\1\2\3\4\5\6\7", False), (b"\x08", True)]),
        (17, [(bytes(range(8)), False), (bytes(range(8, 16)), False), (b"\x10", True)]),
    ],
)
async def test_answer_in_pieces(size: int, pieces: list[tuple[bytes, bool]]) -> None:
    async with engine(ScriptedEngine(answers={0x05: bytes(range(size))})) as (w, _):
        assert await begin_get(w.a, 0x05, 0, 8) == (Status.OKAY, *pieces[0])
        assert [await receive_piece(w.a, 8) for _ in pieces[1:]] == pieces[1:]
        assert await get_command(w.a, 0x10) == (0, b"")


@given(
    data=st.binary(max_size=60),
    sizes=st.lists(st.integers(1, 6).map(lambda words: words * 4), min_size=1, max_size=5),
)
def test_any_piece_sizes_give_the_same_answer(data: bytes, sizes: list[int]) -> None:
    async def main() -> None:
        async with engine(ScriptedEngine(answers={0x05: data})) as (w, _):
            _, piece, last = await begin_get(w.a, 0x05, 0, sizes[0])
            got = piece
            turn = 0
            while not last:
                assert len(piece) == sizes[turn % len(sizes)]
                turn += 1
                piece, last = await receive_piece(w.a, sizes[turn % len(sizes)])
                got += piece
            assert got == data

    trio.run(main)


# Engines that break the protocol.


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ([b"\1\2\3", END], "control token 1 after 3 bytes"),
        ([b"\1\2\3\4\5", END], "control token 1 after 5 bytes"),
        ([b"\1\2\3\4", NACK], "control token 4 after 4 bytes"),
        ([END, b"\1\2\3\4"], "more than 3 bytes after its words"),
        ([END, b"\1", 9], "control token 9 in its tail"),
    ],
)
async def test_malformed_answer_traps(runs: list[bytes | int], reason: str) -> None:
    async with wire() as w, trio.open_nursery() as nursery:
        nursery.start_soon(send_tokens, w.b, *runs)
        with pytest.raises(Trap) as trap:
            await receive_piece(w.a, 64)
        assert (trap.value.kind, trap.value.reason) == (
            TrapKind.ILLEGAL_RESOURCE,
            f"array on {w.a.name}: {reason}",
        )
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("runs", [[b"\0\0\0", END], [b"\0\0\0\0\0", END], [b"\0\0\0\0", NACK]])
async def test_malformed_status_of_a_set_traps(runs: list[bytes | int]) -> None:
    async with wire() as w, trio.open_nursery() as nursery:

        async def engine_that_breaks_off() -> None:
            await chan_in_word(w.b)
            await chan_in_word(w.b)
            await receive_array(w.b, 0)
            await send_tokens(w.b, *runs)

        nursery.start_soon(engine_that_breaks_off)
        with pytest.raises(Trap) as trap:
            await set_command(w.a, 0x84)
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        nursery.cancel_scope.cancel()
