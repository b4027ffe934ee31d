"""Deadlock: reported the moment no core can ever run again, with who waits on what, and never otherwise."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.select import Case, select
from aisrv.xcore.traps import Deadlock
from tests.support.benches.simulation import Started, settle, simulated, sole_error


def _report(program: Callable[[], Awaitable[None]]) -> str:
    with pytest.raises(ExceptionGroup) as error:
        simulated(program)()
    return str(sole_error(error.value, Deadlock))


def test_two_cores_that_await_each_other() -> None:
    async def program() -> None:
        async with open_node() as node:
            a, b = node.channel(*node.tiles)
            node.tiles[1].start(b.inuint, name="sink")
            node.tiles[0].start(a.inct, name="source")

    assert _report(program) == (
        "no core can run again:\n"
        "  tile 0 core 0 (source): inct on chanend 0x80000002 "
        "(destination 0x80010002, 0 tokens buffered, fed by chanend 0x80010002 of tile 1 core 0 (sink))\n"
        "  tile 1 core 0 (sink): inuint on chanend 0x80010002 "
        "(destination 0x80000002, 0 tokens buffered, fed by chanend 0x80000002 of tile 0 core 0 (source))"
    )


def test_verbs_of_every_kind_are_named() -> None:
    async def program() -> None:
        async with open_node() as node:
            a, b = node.channel(*node.tiles)
            _, d = node.channel(*node.tiles)
            quiet = node.tiles[0].allocate_chanend(), node.tiles[0].allocate_chanend()
            lock = node.tiles[0].allocate_lock()
            trio.lowlevel.current_task().name = "the test"
            await lock.acquire()
            node.tiles[0].start(lock.acquire, name="locker")
            node.tiles[0].start(chan_out_word, a, 1, name="sender")
            node.tiles[0].start(lambda: select(*quiet), name="selector")
            node.tiles[1].start(d.outbytes, bytes(9), name="streamer")
            node.tiles[1].start(lambda: select(Case(b, lambda: False)), name="guarded")

    assert _report(program).splitlines()[1:] == [
        "  tile 0 core 0 (locker): lock_acquire on lock 0x80000005 (held by task the test)",
        (
            "  tile 0 core 1 (sender): chan_out_word on chanend 0x80000002 "
            "(destination 0x80010002, 0 tokens buffered, fed by chanend 0x80010002 of no known core)"
        ),
        (
            "  tile 0 core 2 (selector): select on chanend 0x80000202 or chanend 0x80000302 "
            "(chanend 0x80000202: no destination, 0 tokens buffered, fed by nothing; "
            "chanend 0x80000302: no destination, 0 tokens buffered, fed by nothing)"
        ),
        (
            "  tile 1 core 0 (streamer): outbytes on chanend 0x80010102 "
            "(9 tokens wait at chanend 0x80000102 of no known core)"
        ),
        "  tile 1 core 1 (guarded): select on no case whose guard holds",
    ]


def test_a_core_that_ends_leaves_the_others_in_deadlock() -> None:
    async def program() -> None:
        async with open_node() as node:
            node.tiles[0].start(node.tiles[0].allocate_chanend().inuint, name="orphan")
            node.tiles[0].start(trio.sleep, 1)

    assert _report(program) == (
        "no core can run again:\n"
        "  tile 0 core 0 (orphan): inuint on chanend 0x80000002 "
        "(no destination, 0 tokens buffered, fed by nothing)"
    )


def test_a_core_that_was_halted_leaves_the_others_in_deadlock() -> None:
    async def program() -> None:
        async with open_node(on_trap="halt") as node:
            a, b = node.channel(node.tiles[0], node.tiles[0])
            node.tiles[0].start(b.inuint, name="peer")
            node.tiles[1].start(node.tiles[1].allocate_chanend().outuint, 1, name="faulty")
            a.setd(b)

    assert _report(program) == (
        "no core can run again:\n"
        "  tile 0 core 0 (peer): inuint on chanend 0x80000102 "
        "(destination 0x80000002, 0 tokens buffered, fed by chanend 0x80000002 of no known core)\n"
        "  tile 1 core 0 (faulty): halted by LINK_ERROR (1): "
        "output on chanend 0x80010002, which has no destination"
    )


@simulated
async def test_a_deadlock_is_reported_at_once() -> None:
    with pytest.RaisesGroup(Deadlock, flatten_subgroups=True):
        async with open_node() as node:
            _, b = node.channel(*node.tiles)

            async def sink() -> None:
                await node.tiles[1].allocate_timer().wait_after(999)
                await chan_in_word(b)

            node.tiles[1].start(sink)
    assert node.clock.ticks() == 1000


@simulated
async def test_no_deadlock_while_the_block_of_the_node_runs() -> None:
    async with open_node() as node:
        a, b = node.channel(*node.tiles)
        node.tiles[1].start(b.inuint)
        await trio.sleep(100)
        await a.outuint(1)


@simulated
async def test_no_deadlock_while_an_outside_world_is_open() -> None:
    async with trio.open_nursery() as outside, open_node() as node:
        a, b = node.channel(*node.tiles)
        opened = trio.Event()

        async def host() -> None:
            with node.outside_world():
                opened.set()
                await trio.sleep(100)
                await a.outuint(1)

        outside.start_soon(host)
        await opened.wait()
        node.tiles[1].start(b.inuint)


def test_the_end_of_the_last_outside_world_is_when_a_deadlock_is_seen() -> None:
    at: list[float] = []

    async def program() -> None:
        async with trio.open_nursery() as outside, open_node() as node:
            opened = trio.Event()

            async def host(seconds: float) -> None:
                with node.outside_world():
                    opened.set()
                    await trio.sleep(seconds)
                at.append(trio.current_time())

            outside.start_soon(host, 1)
            outside.start_soon(host, 2)
            await opened.wait()
            node.tiles[1].start(node.tiles[1].allocate_chanend().inuint, name="sink")

    assert "(sink): inuint" in _report(program)
    assert at == [1, 2]


@simulated
async def test_cycle_is_found_though_a_select_has_an_end_that_nobody_sends_to() -> None:
    async with open_node() as node:
        a, b = node.channel(*node.tiles)
        unfed = node.tiles[0].allocate_chanend()
        node.tiles[0].start(select, a, unfed, name="left")
        node.tiles[1].start(b.inuint, name="right")
        await settle()
        deadlock = node.runtime.find_deadlock()
        assert deadlock is not None
        assert deadlock.path == "left -> right -> left"
        assert "chanend 0x80000102: no destination, 0 tokens buffered, fed by nothing" in str(deadlock)
        node.stop()


@simulated
async def test_end_that_nobody_sends_to_may_yet_be_anybodys() -> None:
    async with open_node() as node:
        unfed = [node.tiles[0].allocate_chanend() for _ in range(3)]
        node.tiles[0].start(unfed[0].inuint)
        node.tiles[0].start(select, *unfed[1:])
        await settle()
        assert node.runtime.find_deadlock() is None
        node.stop()


@simulated
async def test_no_deadlock_while_a_core_waits_for_a_timer() -> None:
    async with open_node() as node:
        a, b = node.channel(*node.tiles)

        async def late() -> None:
            await node.tiles[0].allocate_timer().wait_after(1_000_000)
            await a.outuint(1)

        node.tiles[0].start(late)
        node.tiles[1].start(b.inuint)


@simulated
async def test_no_deadlock_while_a_select_has_a_timer_running() -> None:
    async with open_node() as node:
        a, b = node.channel(*node.tiles)

        async def watchdog() -> None:
            unused = node.tiles[0].allocate_chanend()
            deadline = node.tiles[0].allocate_timer().after(1_000_000)
            assert await select(unused, deadline) is deadline
            await a.outuint(1)

        node.tiles[0].start(watchdog)
        node.tiles[1].start(b.inuint)


@simulated
async def test_no_deadlock_for_a_core_that_cancels_its_own_wait() -> None:
    async with open_node() as node:
        end = node.tiles[0].allocate_chanend()

        async def impatient() -> None:
            with trio.CancelScope() as scope:
                scope.cancel()
                await end.inuint()
            assert scope.cancelled_caught

        node.tiles[0].start(impatient)


def test_a_cancelled_verb_is_counted_out_of_the_parked() -> None:
    async def program() -> None:
        async with open_node() as node:
            a, b = node.channel(*node.tiles)

            async def sink(node: Node) -> None:
                async with trio.open_nursery() as tasks:
                    word = Started(tasks, b.inuint)
                    await settle()
                    await word.cancel()
                for end in (b, node.tiles[1].allocate_chanend()):
                    with trio.CancelScope() as scope:
                        scope.cancel()
                        await end.inuint()
                await b.inct()

            node.tiles[1].start(sink, node)
            node.tiles[0].start(a.inuint, name="other")

    waiting = [line.partition(" on ")[0].strip() for line in _report(program).splitlines()[1:]]
    assert waiting == ["tile 0 core 0 (other): inuint", "tile 1 core 0 (sink): inct"]


@simulated
async def test_a_node_can_report_where_its_cores_are_at_any_time() -> None:
    async with open_node() as node:
        a, b = node.channel(*node.tiles)
        node.tiles[1].start(b.inuint, name="sink")
        node.tiles[0].start(trio.sleep, 1, name="sleeper")
        await settle()
        assert node.runtime.report() == (
            "  tile 0 core 0 (sleeper): running\n  tile 1 core 0 (sink): inuint on chanend 0x80010002 "
            "(destination 0x80000002, 0 tokens buffered, fed by chanend 0x80000002 of no known core)"
        )
        await a.outuint(1)
