"""What messages and reports say of ends, routes, locks, timers and whoever uses them; none says None."""

from collections.abc import Callable

import pytest
import trio

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word
from aisrv.xcore.node import open_node
from aisrv.xcore.select import select
from aisrv.xcore.traps import Trap
from tests.support.benches.simulation import bench, settle, simulated


@simulated
async def test_rival_outside_of_any_core_is_named_by_its_task_with_its_verb() -> None:
    async with bench() as test:

        async def read() -> None:
            await chan_in_word(test.b)

        test.tasks.start_soon(read, name="host")
        await settle()
        with pytest.raises(Trap) as trap:
            await test.b.inuint()
        assert trap.value.reason == "inuint on chanend 0x80010002 while task host is in chan_in_word on it"


@simulated
async def test_rival_core_in_a_select_is_named() -> None:
    async with open_node() as node:
        _, b = node.channel(*node.tiles)
        node.tiles[1].start(lambda: select(b), name="selector")
        await settle()
        with pytest.raises(Trap) as trap:
            await b.inct()
        assert trap.value.reason == (
            "inct on chanend 0x80010002 while tile 1 core 0 (selector) is in a select on it"
        )
        node.stop()


@simulated
async def test_rival_that_waits_for_a_timer_is_named() -> None:
    async with open_node() as node:
        timer = node.tiles[0].allocate_timer()
        node.tiles[0].start(timer.wait_after, 1_000_000, name="sleeper")
        await settle()
        with pytest.raises(Trap, match=r"while tile 0 core 0 \(sleeper\) waits for it"):
            timer.now()
        node.stop()


@simulated
async def test_owner_of_a_lock_is_named_a_core_an_ended_core_or_a_task() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        held, left, taken = (tile.allocate_lock() for _ in range(3))
        done = trio.Event()

        async def hold() -> None:
            await held.acquire()
            await done.wait()

        tile.start(hold, name="owner")
        tile.start(left.acquire, name="gone")
        await settle()
        for lock in (held, left):
            tile.start(lock.acquire, name="waiter")
        trio.lowlevel.current_task().name = "host"
        await taken.acquire()
        tile.start(taken.acquire, name="waiter")
        await settle()
        waiters = [line for line in node.report().splitlines() if "waiter" in line]
        assert [line.partition("held by ")[2] for line in waiters] == [
            "tile 0 core 0 (owner))",
            "tile 0 core 1 (gone), which has ended)",
            "task host)",
        ]
        with pytest.raises(Trap, match="freer on lock 0x80000205, which task host holds"):
            taken.free()
        node.stop()


@simulated
async def test_next_owner_of_a_lock_is_named() -> None:
    async with bench() as test:
        lock = test.node.tiles[0].allocate_lock()
        await lock.acquire()
        test.tasks.start_soon(lock.acquire, name="next")
        await settle()
        lock.release()
        await settle()
        with pytest.raises(Trap, match="which task next holds"):
            lock.free()


@simulated
async def test_a_freed_timer_says_so_after_its_user_has_gone() -> None:
    async with bench() as test:
        timer = test.node.tiles[0].allocate_timer()
        await timer.wait_after(1)
        timer.free()
        with pytest.raises(Trap, match="in on timer 0x80000001, which was freed"):
            timer.now()


@simulated
async def test_members_at_a_synchronizer_are_named() -> None:
    async with open_node() as node:
        barrier = node.tiles[0].allocate_synchronizer(3)
        node.tiles[0].start(barrier.synchronize, name="first")
        await settle()
        assert "sync on synchronizer 0x80000003 (1 of 3 are here: tile 0 core 0 (first))" in node.report()
        node.stop()


@simulated
async def test_report_of_an_input_has_its_destination_its_tokens_and_the_open_route() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        a, b = node.channel(tile, tile)
        other = tile.allocate_chanend()
        other.setd(b)

        async def feed(c: ChanEnd) -> None:
            await c.outuchar(1)

        tile.start(feed, a, name="feeder")
        tile.start(b.inuint, name="sink")
        await settle()
        assert node.report().splitlines()[1] == (
            "  tile 0 core 1 (sink): inuint on chanend 0x80000102 (destination 0x80000002, 1 token buffered, "
            "fed by chanend 0x80000002 of tile 0 core 0 (feeder), which has ended, whose route is open, "
            "chanend 0x80000202 of no known core)"
        )
        node.stop()


@simulated
async def test_ends_show_their_destination() -> None:
    async with bench() as test:
        await test.a.outuchar(1)
        assert repr(test.b) == "<chanend 0x80010002, destination 0x80000002, 1 token queued>"
        assert repr(test.end()) == "<chanend 0x80000102, no destination, 0 tokens queued>"


@pytest.mark.parametrize(
    ("destination", "shown"),
    [(None, "nothing"), (0, "0x00000000"), (1.5, "1.5"), ("end", "'end'"), (-1, "-0000001")],
)
@simulated
async def test_what_can_be_no_destination_is_shown(destination: ChanEnd, shown: str) -> None:
    async with bench() as test:
        with pytest.raises(Trap) as trap:
            test.b.setd(destination)
        assert trap.value.reason == (
            f"setd on chanend 0x80010002 to {shown.replace('-', '0x-')}, "
            "which is not a channel end of this node"
        )


@pytest.mark.parametrize(
    "use",
    [
        lambda end, lock, timer: end.free(),
        lambda end, lock, timer: lock.free(),
        lambda end, lock, timer: lock.release(),
        lambda end, lock, timer: timer.now(),
        lambda end, lock, timer: end.setd(None),
    ],
)
@simulated
async def test_no_message_says_none(use: Callable[..., object]) -> None:
    """Whoever uses a resource is a task outside of any core, and nothing is known of anything."""
    async with bench() as test:
        tile = test.node.tiles[0]
        end, lock, timer = tile.allocate_chanend(), tile.allocate_lock(), tile.allocate_timer()
        test.start(end.inuint)
        if use.__code__.co_names != ("release",):
            test.start(lock.acquire)
        test.start(timer.wait_after, 1_000_000)
        await settle()
        with pytest.raises(Trap) as trap:
            use(end, lock, timer)
        assert "None" not in f"{trap.value} {trap.value.place or ''}{test.node.report()}"
