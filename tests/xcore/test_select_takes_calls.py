"""A select whose core takes the whole of a call that it has to carry out itself: no tokens cross."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio

from aisrv.protocol.commands import Status
from aisrv.protocol.engine_channel import AT_ONCE, answer_set, receive_command, receive_set, set_command
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.listener import Call
from aisrv.xcore.select import Selection
from aisrv.xcore.trace import Tracer
from tests.support.benches.simulation import Bench, bench, settle, simulated

SET = 0x88
DATA = b"eleven byte"

pytestmark = pytest.mark.plain_time("all tokens cross in device time")


@dataclass
class Server:
    """Carries SETs out in its own core: notes how each came, and answers it when `goes_on` is set."""

    end: ChanEnd
    whole: list[Call] = field(default_factory=list)
    as_tokens: list[tuple[int, int]] = field(default_factory=list)
    goes_on: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        selection = Selection(self.end, takes_calls=True)
        while True:
            await selection.wait()
            await self.serve()

    async def serve(self) -> None:
        if (handed := self.end.take_call()) is not None:
            self.whole.append(handed.call)
            await self.goes_on.wait()
            handed.give((Status(handed.call.second), b""))
            return
        request = await receive_command(self.end)
        self.as_tokens.append(request)
        await receive_set(self.end, 1 << 20)
        await self.goes_on.wait()
        await answer_set(self.end, Status(request[1]))


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Bench, Server]]:
    async with bench() as test:
        server = Server(test.b)
        test.start(server.run)
        await settle()
        yield test, server


@simulated
async def test_a_set_comes_whole() -> None:
    async with served() as (test, server):
        server.goes_on.set()
        assert await set_command(test.a, SET, Status.ERROR_INFER_ERR, DATA) is Status.ERROR_INFER_ERR
        assert server.whole == [Call(SET, Status.ERROR_INFER_ERR, DATA, 0)]
        assert server.as_tokens == []


@simulated
async def test_the_client_waits_until_the_call_is_answered() -> None:
    async with served() as (test, server):
        asked = test.start(set_command, test.a, SET, 0, DATA)
        await settle()
        assert not asked.done
        assert test.a.statistics().verb_in_progress
        server.goes_on.set()
        await settle()
        assert asked.value() is Status.OKAY


@simulated
async def test_a_core_that_is_awake_gets_tokens() -> None:
    async with bench() as test:
        server = Server(test.b)
        server.goes_on.set()
        test.start(set_command, test.a, SET, 0, DATA)
        await settle()
        test.start(server.run)  # finds the command there, and never waits for it
        await settle()
        assert (server.whole, server.as_tokens) == ([], [(SET, 0)])


@simulated
async def test_a_select_that_takes_no_calls_gets_tokens() -> None:
    async with bench() as test:
        server = Server(test.b)
        server.goes_on.set()
        selection = Selection(test.b)
        test.start(selection.wait)
        await settle()
        test.start(set_command, test.a, SET, 0, DATA)
        await settle()
        test.start(server.serve)
        await settle()
        assert (server.whole, server.as_tokens) == ([], [(SET, 0)])


@simulated
async def test_a_tracer_has_tokens_cross() -> None:
    async with served() as (test, server):
        server.goes_on.set()
        with test.node.runtime.tracing(Tracer()):
            assert await set_command(test.a, SET, 0, DATA) is Status.OKAY
        assert (server.whole, server.as_tokens) == ([], [(SET, 0)])


@simulated
async def test_a_whole_call_counts_once() -> None:
    async with served() as (test, server):
        server.goes_on.set()
        assert await set_command(test.a, SET, 0, DATA) is Status.OKAY
        assert (server.whole != [], test.a.crossed) == (True, 1)


@simulated
async def test_large_data_cross_as_tokens() -> None:
    async with served() as (test, server):
        server.goes_on.set()
        assert await set_command(test.a, SET, 0, bytes(AT_ONCE)) is Status.OKAY
        assert await set_command(test.a, SET, 0, bytes(AT_ONCE + 4)) is Status.OKAY
        assert len(server.whole) == len(server.as_tokens) == 1


@simulated
async def test_a_call_whose_client_gave_up_ends_before_the_next_one() -> None:
    async with served() as (test, server):
        with trio.CancelScope() as scope:
            test.tasks.start_soon(settle)
            scope.cancel()
            await set_command(test.a, SET, 0, b"first")
        assert scope.cancelled_caught
        asked = test.start(set_command, test.a, SET, 0, b"second")
        await settle()
        assert [call.array for call in server.whole] == [b"first"]
        assert not asked.done
        server.goes_on.set()
        await settle()
        assert asked.value() is Status.OKAY
        assert len(server.whole) + len(server.as_tokens) == 2


@simulated
async def test_a_call_stays_for_a_core_that_was_woken_and_has_not_taken_it() -> None:
    async with bench() as test:
        server = Server(test.b)
        server.goes_on.set()
        woken = test.start(Selection(test.b, takes_calls=True).wait)
        await settle()
        asked = test.start(set_command, test.a, SET, 0, DATA)
        await settle()
        assert woken.value() is test.b
        assert not asked.done
        assert test.b.ready
        test.start(server.run)
        await settle()
        assert asked.value() is Status.OKAY
        assert server.whole == [Call(SET, 0, DATA, 0)]
