"""Statistics of nodes, channel ends and selects: what they count, before and after each event."""

import dataclasses

import pytest
import trio

from aisrv.xcore.channels.chanend import ChanEndStatistics
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.node import NodeStatistics, open_node
from aisrv.xcore.select import Case, Selection, SelectStatistics
from aisrv.xcore.tokens import Control
from aisrv.xcore.traps import ecall
from tests.support.benches.simulation import bench, settle, simulated

A, B = 0x80000002, 0x80010002
IDLE = ChanEndStatistics(
    tokens_queued=0,
    buffer_tokens=8,
    destination=B,
    route_open=False,
    source=None,
    claims=0,
    verb_in_progress=False,
    selected=False,
)


@simulated
async def test_an_end_at_rest() -> None:
    async with bench() as test:
        assert test.a.statistics() == IDLE
        assert test.b.statistics() == dataclasses.replace(IDLE, destination=A)
        assert test.end().statistics() == dataclasses.replace(IDLE, destination=None)


@simulated
async def test_both_ends_of_an_open_route() -> None:
    async with bench() as test:
        await test.a.outuint(1)
        assert test.a.statistics() == dataclasses.replace(IDLE, route_open=True)
        assert test.b.statistics() == dataclasses.replace(IDLE, destination=A, tokens_queued=4, source=A)
        await test.a.outct(Control.END)
        assert test.a.statistics() == IDLE
        assert test.b.statistics() == dataclasses.replace(IDLE, destination=A, tokens_queued=5)


@pytest.mark.parametrize("size", [1, 3, 4, 8, 9, 512])
@simulated
async def test_tokens_that_were_sent_count_whether_they_fit_or_not(size: int) -> None:
    async with bench() as test:
        test.start(test.a.outbytes, bytes(size))
        await settle()
        assert test.b.statistics().tokens_queued == size
        assert test.a.statistics().verb_in_progress == (size > 8)
        await test.b.inbytes(1)
        assert test.b.statistics().tokens_queued == size - 1


@simulated
async def test_ends_that_wait_for_their_route_are_claims() -> None:
    async with bench() as test:
        await test.a.outuint(1)
        for _ in range(2):
            test.start(test.end(test.b).outuint, 2)
        await settle()
        assert test.b.statistics().claims == 2


@simulated
async def test_an_end_is_selected_while_a_core_waits_for_it() -> None:
    async with bench() as test:
        selection = Selection(test.b)
        waiting = test.start(selection.wait)
        await settle()
        assert test.b.statistics().selected
        await waiting.cancel()
        assert not test.b.statistics().selected


@simulated
async def test_a_route_to_nobody_is_open_until_its_end() -> None:
    async with bench() as test:
        end = test.end()
        end.setd(0x80001F02)
        await end.outuint(1)
        assert end.statistics().route_open
        await end.outct(Control.END)
        assert not end.statistics().route_open


@simulated
async def test_a_select_counts_its_cases_their_guards_and_their_events() -> None:
    async with bench() as test:
        allowed = [False]
        other = test.end()
        selection = Selection(Case(test.b, lambda: allowed[0]), other)
        assert selection.statistics() == SelectStatistics(2, 1, 0, waiting=False)
        await test.a.outuint(1)
        assert selection.statistics() == SelectStatistics(2, 1, 0, waiting=False)
        waiting = test.start(selection.wait)
        await settle()
        assert selection.statistics() == SelectStatistics(2, 1, 0, waiting=True)
        allowed[0] = True
        assert selection.statistics() == SelectStatistics(2, 2, 1, waiting=True)
        await waiting.cancel()
        assert selection.statistics() == SelectStatistics(2, 2, 1, waiting=False)


@simulated
async def test_a_node_counts_cores_ends_and_tokens() -> None:
    async def faulty() -> None:
        ecall("gives up")

    async with open_node(on_trap="halt") as node:
        assert node.statistics() == NodeStatistics(0, 0, 0, 0, 0, 0)
        a, b = node.channel(*node.tiles)
        other = node.channel(*node.tiles)
        node.tiles[0].reserve_core("XUD")
        node.tiles[0].start(trio.sleep, 1)
        node.tiles[1].start(chan_in_word, b)
        node.tiles[1].start(faulty)
        await settle()
        await other.a.outbytes(b"abc")
        await trio.sleep(1e-6)
        assert node.statistics() == NodeStatistics(
            ticks=100, cores_in_use=4, cores_parked=1, cores_running=1, chanends_in_use=4, tokens_queued=3
        )
        await chan_out_word(a, 1)
        await trio.sleep(2)
        assert node.statistics() == NodeStatistics(
            ticks=200_000_100,
            cores_in_use=2,  # the reserved one and the one that a trap halted
            cores_parked=0,
            cores_running=0,
            chanends_in_use=4,
            tokens_queued=3,
        )
