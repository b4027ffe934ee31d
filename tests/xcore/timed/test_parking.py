"""Waits in device time that are cancelled: before they were woken, and after, when their turn is to come."""

import trio
import trio.testing

from aisrv.xcore.node import Node, open_node
from aisrv.xcore.select import select
from aisrv.xcore.timed.classes import TIMED


async def _send_at_clock_610(node: Node) -> None:
    """A core of the node's tile 0 outputs a word of 5 to the test, when 600 clocks ahead."""
    tile = node.tiles[0]
    idle = tile.allocate_chanend()
    idle.setd(0x80011F02)
    a, _ = node.channel(tile, tile)

    async def send() -> None:
        for _ in range(60):
            await idle.outuint(0)
        await a.outuint(5)

    tile.start(send)


def _taken(deadline_ticks: int, *, by_select: bool) -> tuple[int | None, int]:
    """What a task outside of any core has input until a deadline, and its tick then."""

    async def run() -> tuple[int | None, int]:
        taken = None
        async with open_node(classes=TIMED) as node:
            await _send_at_clock_610(node)
            b = next(end for end in node.runtime.switch if end.number == 2)
            with trio.move_on_after(deadline_ticks * 1e-8):
                if by_select:
                    await select(b)
                taken = await b.inuint()
            tick = node.clock.ticks()
            if taken is None:  # nothing is lost
                assert await b.inuint() == 5
        return taken, tick

    return trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_verb_ends_at_the_tick_of_its_run() -> None:
    assert _taken(1_000, by_select=False) == (5, 102)


def test_a_verb_that_is_done_is_not_cancelled_before_its_turn() -> None:
    assert _taken(50, by_select=False) == (5, 102)


def test_a_select_is_cancelled_before_its_event_and_takes_nothing() -> None:
    assert _taken(50, by_select=True) == (None, 50)


def test_a_select_ends_at_the_tick_of_its_event() -> None:
    assert _taken(1_000, by_select=True) == (5, 102)
