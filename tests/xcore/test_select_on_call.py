"""A select that answers calls of clients in their own tasks, while its core sleeps."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio

from aisrv.protocol.commands import Status
from aisrv.protocol.engine_channel import (
    answer_get,
    answer_set,
    begin_get,
    get_command,
    receive_command,
    receive_set,
    set_command,
)
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.listener import Call
from aisrv.xcore.runtime import MAX_VERBS_PER_TURN
from aisrv.xcore.select import Selection
from aisrv.xcore.tokens import Control
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.simulation import Bench, bench, settle, simulated

GET, SET = 0x08, 0x88
DATA = b"eleven byte"


@dataclass
class Server:
    """Answers GET with DATA and takes any SET: `at_once` where `may` says so, else in its own task."""

    end: ChanEnd
    may: Callable[[Call], bool] = lambda _: True
    at_once: list[Call] = field(default_factory=list)
    awake: list[tuple[int, int]] = field(default_factory=list)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    def on_call(self, call: Call) -> tuple[int, bytes] | None:
        if not self.may(call):
            return None
        self.at_once.append(call)
        return Status.OKAY, DATA if call.first == GET else b""

    async def run(self) -> None:
        with self.scope:
            await self.serve(Selection(self.end, on_call=self.on_call))

    async def serve(self, selection: Selection) -> None:
        while True:
            await selection.wait()
            request = await receive_command(self.end)
            self.awake.append(request)
            if request[0] == GET:
                await answer_get(self.end, DATA)
            else:
                await receive_set(self.end, 100)
                await answer_set(self.end, Status.OKAY)


@asynccontextmanager
async def served(may: Callable[[Call], bool] = lambda _: True) -> AsyncIterator[tuple[Bench, Server]]:
    async with bench() as test:
        server = Server(test.b, may)
        test.start(server.run)
        await settle()
        await get_command(test.a, GET, 0)  # which makes this task the user of the end
        await settle()
        server.at_once.clear()
        server.awake.clear()
        yield test, server


@simulated
async def test_a_call_is_answered_while_the_core_sleeps() -> None:
    async with served() as (test, server):
        assert await get_command(test.a, GET, 3) == (Status.OKAY, DATA)
        assert (server.at_once, server.awake) == ([Call(GET, 3, b"", 64 << 20)], [])


@simulated
async def test_a_set_brings_its_data() -> None:
    async with served() as (test, server):
        assert await set_command(test.a, SET, 1, b"data") == Status.OKAY
        assert (server.at_once, server.awake) == ([Call(SET, 1, b"data", 0)], [])


@simulated
async def test_the_first_piece_of_an_answer_is_all_of_it() -> None:
    async with served() as (test, server):
        assert await begin_get(test.a, GET, 0, 12) == (Status.OKAY, DATA, True)
        assert server.at_once == [Call(GET, 0, b"", 12)]


@simulated
async def test_others_run_after_many_calls_in_a_row() -> None:
    async with served() as (test, server):
        ran: list[int] = []

        async def other() -> None:
            ran.append(len(server.at_once) + len(server.awake))

        test.tasks.start_soon(other)
        for _ in range(2 * MAX_VERBS_PER_TURN):
            await get_command(test.a, GET)
        assert len(ran) == 1
        assert 1 <= ran[0] <= MAX_VERBS_PER_TURN


@simulated
async def test_a_call_that_is_declined_crosses_as_tokens() -> None:
    async with served(lambda _: False) as (test, server):
        assert await get_command(test.a, GET, 5) == (Status.OKAY, DATA)
        assert await set_command(test.a, SET, 6, b"data") == Status.OKAY
        assert (server.at_once, server.awake) == ([], [(GET, 5), (SET, 6)])


@simulated
async def test_a_core_that_is_awake_is_not_called() -> None:
    async with bench() as test:
        server = Server(test.b)
        test.start(get_command, test.a, GET, 7)
        await settle()
        test.start(server.run)  # finds the command there, and never waits for it
        await settle()
        assert (server.at_once, server.awake) == ([], [(GET, 7)])


@simulated
async def test_a_call_waits_while_a_third_end_has_a_route_open_to_the_core_s() -> None:
    async with served() as (test, server):
        server.scope.cancel()
        await settle()
        third = test.end(test.b)
        other = test.start(third.outuchar, 0x55)
        assert await test.b.inuchar() == 0x55
        await settle()
        assert other.done  # what it sent is taken, and its route stays open
        server.scope = trio.CancelScope()
        test.start(server.run)
        await settle()
        call = test.start(get_command, test.a, GET, 7)
        await settle()
        assert (call.done, server.at_once, server.awake) == (False, [], [])
        server.scope.cancel()
        await settle()
        await third.outct(Control.END)
        await test.b.chkct(Control.END)
        server.scope = trio.CancelScope()
        test.start(server.run)
        await settle()
        assert call.value() == (Status.OKAY, DATA)


@simulated
async def test_a_core_that_was_just_woken_is_not_called() -> None:
    """Its select has an event, which is dealt with first."""
    async with served() as (test, server):
        other = test.node.channel(test.node.tiles[0], test.node.tiles[1])
        selection = Selection(test.b, other.b, on_call=server.on_call)
        server.scope.cancel()
        await settle()
        woken = test.start(selection.wait)
        await settle()
        await other.a.outct(5)  # wakes it: the core runs on at the next turn
        with trio.move_on_after(1):
            await get_command(test.a, GET)
        assert (server.at_once, woken.value()) == ([], other.b)


@simulated
async def test_an_open_route_carries_the_tokens() -> None:
    async with served() as (test, server):
        test.b.setd(test.end())  # no longer the other side of `a`
        started = test.start(get_command, test.a, GET, 2)
        await settle()
        assert server.at_once == []
        assert not started.done


@pytest.mark.parametrize("use", [ChanEnd.inuint, lambda end: Selection(end).wait()])
@simulated
async def test_an_end_in_a_verb_or_select_traps_as_it_does_without(
    use: Callable[[ChanEnd], Awaitable[object]],
) -> None:
    async with served() as (test, server):
        test.start(use, test.a)
        await settle()
        with pytest.raises(Trap) as caught:
            await get_command(test.a, GET)
        assert (caught.value.kind, server.at_once) == (TrapKind.RESOURCE_DEP, [])


@simulated
async def test_a_core_of_another_tile_traps_as_it_does_without() -> None:
    async with served() as (test, server):
        traps: list[TrapKind] = []

        async def calls() -> None:
            try:
                await get_command(test.a, GET)
            except Trap as trap:
                traps.append(trap.kind)

        test.node.tiles[1].start(calls)
        await settle()
        assert (traps, server.at_once) == ([TrapKind.ILLEGAL_RESOURCE], [])


@simulated
async def test_a_freed_end_traps_as_it_does_without() -> None:
    async with served() as (test, _):
        test.a.free()
        with pytest.raises(Trap) as caught:
            await get_command(test.a, GET)
        assert caught.value.kind is TrapKind.ILLEGAL_RESOURCE


@simulated
async def test_both_ends_are_left_as_tokens_leave_them() -> None:
    seen = []
    for may in (True, False):
        async with served(lambda _, may=may: may) as (test, _):  # type: ignore[misc]
            await get_command(test.a, GET)
            await set_command(test.a, SET, 0, b"abc")
            await settle()
            seen.append((test.a.statistics(), test.b.statistics()))
    assert seen[0] == seen[1]


@simulated
async def test_a_call_whose_handler_fails_goes_to_the_core() -> None:
    def breaks(_: Call) -> bool:
        raise ZeroDivisionError

    async with served(breaks) as (test, server):
        assert await get_command(test.a, GET, 4) == (Status.OKAY, DATA)
        assert (server.at_once, server.awake) == ([], [(GET, 4)])


@simulated
async def test_an_error_of_handler_and_core_is_the_cores() -> None:
    class Breaks(Server):
        def on_call(self, call: Call) -> tuple[int, bytes] | None:
            raise ZeroDivisionError

        async def serve(self, selection: Selection) -> None:
            await selection.wait()
            self.on_call(Call(*await receive_command(self.end), b"", 0))

    async with bench() as test:
        core = test.start(Breaks(test.b).run)
        await settle()
        client = test.start(get_command, test.a, GET)
        await settle()
        assert not client.done
        with pytest.raises(ZeroDivisionError):
            core.value()


@simulated
async def test_a_caller_whose_time_is_up_gets_no_answer() -> None:
    async with served() as (test, server):
        with trio.move_on_after(0) as scope:
            await get_command(test.a, GET)
        assert (scope.cancelled_caught, server.at_once) == (True, [])


@simulated
async def test_a_cancelled_caller_gets_no_answer_and_leaves_the_ends_as_tokens_do() -> None:
    seen = []
    for may in (True, False):
        async with served(lambda _, may=may: may) as (test, server):  # type: ignore[misc]
            with trio.CancelScope() as scope:
                scope.cancel()
                await get_command(test.a, GET)
            assert (scope.cancelled_caught, server.at_once) == (True, [])
            await settle()
            seen.append((test.a.statistics(), test.b.statistics()))
    assert seen[0] == seen[1]


@simulated
async def test_another_client_is_served_next() -> None:
    """Each is ready with its next command at once; the order of two in one turn of the scheduler is open."""
    async with bench() as test:
        other = test.node.channel(test.node.tiles[0], test.node.tiles[1])
        served: list[int] = []

        def on_call(call: Call) -> tuple[int, bytes]:
            served.append(call.second)
            return Status.OKAY, b""

        async def client(c: ChanEnd, number: int) -> None:
            for _ in range(20):
                await get_command(c, GET, number)

        test.start(Selection(test.b, other.b, on_call=on_call).wait)
        await settle()
        for number, c in enumerate((test.a, other.a)):
            test.start(client, c, number)
        await settle()
        turns = [len(list(turn)) for _, turn in itertools.groupby(served)]
        assert (len(served), max(turns)) == (40, 2)


@simulated
async def test_a_client_that_waits_between_commands_is_answered_at_once() -> None:
    async with bench() as test:
        other = test.node.channel(test.node.tiles[0], test.node.tiles[1])
        server = Server(test.b)
        test.start(server.serve, Selection(test.b, other.b, on_call=server.on_call))
        await settle()
        for _ in range(4):
            await get_command(test.a, GET)
            await trio.sleep(1)
        assert (len(server.awake), len(server.at_once)) == (0, 4)


@simulated
async def test_a_select_without_a_handler_is_woken(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "aisrv.xcore")
    async with bench() as test:
        woken = test.start(Selection(test.b).wait)
        await settle()
        request = test.start(get_command, test.a, GET)
        await settle()
        assert woken.value() is test.b
        assert not request.done
    assert caplog.messages == []


@simulated
async def test_large_data_cross_as_tokens() -> None:
    async with served() as (test, server):
        assert await set_command(test.a, SET, 0, bytes((1 << 18) + 1)) == Status.OKAY
        assert (server.at_once, server.awake) == ([], [(SET, 0)])
        assert await set_command(test.a, SET, 0, bytes(1 << 18)) == Status.OKAY
        assert [len(call.array) for call in server.at_once] == [1 << 18]


@simulated
async def test_two_cores_that_call_each_other_go_on() -> None:
    """Each serves the other and calls it; a call that finds the other awake waits for it."""
    async with bench() as test:
        async with trio.open_nursery() as tasks:
            pair = test.node.channel(test.node.tiles[0], test.node.tiles[1])
            servers = Server(test.b), Server(pair.b)
            for server in servers:
                test.start(server.run)
            await settle()

            async def client(c: ChanEnd) -> None:
                for _ in range(50):
                    assert await get_command(c, GET) == (Status.OKAY, DATA)
                    await trio.sleep(0.1)

            tasks.start_soon(client, test.a)
            tasks.start_soon(client, pair.a)
        assert sum(len(each.at_once) + len(each.awake) for each in servers) == 100


@pytest.mark.parametrize(("before", "at_once"), [(MAX_VERBS_PER_TURN - 1, 1), (MAX_VERBS_PER_TURN, 0)])
def test_a_call_counts_as_a_verb(before: int, at_once: int) -> None:
    @simulated
    async def run() -> None:
        async with served() as (test, server):
            runtime = test.node.runtime
            runtime.verbs_at_once = before
            with trio.move_on_after(1):
                await get_command(test.a, GET)
            assert len(server.at_once) == at_once
            assert not at_once or runtime.verbs_at_once == MAX_VERBS_PER_TURN

    run()


@simulated
async def test_a_client_of_a_select_with_one_case_goes_on_without_a_pause() -> None:
    async with served() as (test, server):
        ran: list[str] = []

        async def other() -> None:
            ran.append("other")

        test.tasks.start_soon(other)
        for _ in range(3):
            await get_command(test.a, GET)
        assert (len(server.at_once), ran) == (3, [])


@simulated
async def test_the_next_call_lets_others_run_where_the_select_has_another_case() -> None:
    async with bench() as test:
        other = test.node.channel(test.node.tiles[0], test.node.tiles[1])
        server = Server(test.b)
        test.start(server.serve, Selection(test.b, other.b, on_call=server.on_call))
        await settle()
        ran: list[int] = []

        async def note() -> None:
            ran.append(len(server.at_once))

        test.tasks.start_soon(note)
        for _ in range(3):
            await get_command(test.a, GET)
        assert ran in ([1], [2])  # the order within a turn of the scheduler is open
