"""Combinable tasks: several selects in one core."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.channel import chan_in_word, chan_out_word
from aisrv.xcore.combine import Combinable, combine
from aisrv.xcore.node import open_node
from aisrv.xcore.select import Case, SelectError
from aisrv.xcore.timer import Timer
from aisrv.xcore.traps import Deadlock
from tests.support.simulation import simulated


async def count(name: str, timer: Timer, period: int, times: int, said: list[tuple[str, int]]) -> Combinable:
    """Say something each period, so many times."""
    time = timer.now()
    for _ in range(times):
        time += period
        yield [timer.after(time)]
        said.append((name, timer.now()))


async def total(c: ChanEnd, sums: list[int], most: int = 1 << 30) -> Combinable:
    """Sum up words, until there are too many."""
    while True:
        sum_so_far = sums[-1] if sums else 0
        yield [Case(c, lambda: (sums[-1] if sums else 0) < most)]
        sums.append(sum_so_far + await chan_in_word(c))


@simulated
async def test_tasks_share_a_core_and_each_gets_its_events() -> None:
    said: list[tuple[str, int]] = []
    async with open_node() as node:
        tile = node.tiles[0]
        slow = count("slow", tile.allocate_timer(), 1000, 2, said)
        fast = count("fast", tile.allocate_timer(), 300, 3, said)
        tile.start(combine, slow, fast, name="counters")
        assert tile.cores_in_use == 1
    assert said == [("fast", 301), ("fast", 601), ("fast", 901), ("slow", 1001), ("slow", 2001)]


@simulated
async def test_a_task_with_guards_beside_one_that_ends() -> None:
    sums: list[int] = []
    said: list[tuple[str, int]] = []

    async def run() -> None:
        async with open_node() as node:
            a, b = node.channel(node.tiles[0], node.tiles[1])

            async def source() -> None:
                for word in (3, 4, 5):
                    await chan_out_word(a, word)

            node.tiles[0].start(source)
            once = count("once", node.tiles[1].allocate_timer(), 50, 1, said)
            node.tiles[1].start(combine, total(b, sums, most=7), once)

    with pytest.raises(BaseExceptionGroup) as group:
        await run()
    assert isinstance(group.value.exceptions[0], Deadlock)
    assert "select on no case whose guard holds" in str(group.value.exceptions[0])
    assert (sums, said) == ([3, 7], [("once", 51)])


@simulated
async def test_a_resource_in_two_tasks_is_refused() -> None:
    async with open_node() as node:
        a, _ = node.channel(node.tiles[0], node.tiles[1])
        with pytest.raises(SelectError, match="a resource may stand in one case of a select only"):
            await combine(total(a, []), total(a, []))


@simulated
async def test_a_task_that_yields_no_cases_is_refused() -> None:
    async def wrong(c: ChanEnd) -> AsyncGenerator[Any, Any]:
        yield c

    async with open_node() as node:
        a, _ = node.channel(node.tiles[0], node.tiles[1])
        with pytest.raises(SelectError, match=r"wrong yields <chanend .*, which is no sequence of cases"):
            await combine(wrong(a))


@simulated
async def test_an_error_of_one_closes_the_others() -> None:
    closed: list[str] = []

    async def careful(c: ChanEnd) -> Combinable:
        try:
            yield [c]
        finally:
            closed.append("careful")

    async def failing(timer: Timer) -> Combinable:
        yield [timer.after(timer.now())]
        raise ValueError("enough")

    async with open_node() as node:
        a, _ = node.channel(node.tiles[0], node.tiles[1])
        with pytest.raises(ValueError, match="enough"):
            await combine(careful(a), failing(node.tiles[0].allocate_timer()))
    assert closed == ["careful"]
