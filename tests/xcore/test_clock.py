"""The reference clock far from Trio's zero, where floats tell ticks no more apart: by fractions."""

import math
from fractions import Fraction
from random import Random

import pytest
import trio
from trio.testing import MockClock

from aisrv.xcore.clock import TICKS_PER_SECOND, Clock

DAY = 86_400
AGES = {"start": 0, "97 days": 97 * DAY, "a year": 365 * DAY, "10 years": 3650 * DAY}
ORIGINS = [0.0, 0.1, 97 * DAY + 0.3, 3650 * DAY + 0.7]


def exactly(origin: float, tick: int | Fraction) -> Fraction:
    """Trio's time at which a tick begins."""
    return Fraction(origin) + Fraction(tick) / TICKS_PER_SECOND


def drawn_ticks(count: int) -> list[int]:
    random = Random(97)
    return [random.randrange(10 ** random.randrange(1, 18)) for _ in range(count)]


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_deadline_is_the_first_of_trio_s_times_that_is_not_early(origin: float) -> None:
    async def main() -> None:
        clock = Clock(origin)
        for tick in drawn_ticks(2000):
            deadline = clock.deadline(tick)
            assert Fraction(deadline) >= exactly(origin, tick)
            assert Fraction(math.nextafter(deadline, -math.inf)) < exactly(origin, tick)

    trio.run(main, clock=MockClock())


@pytest.mark.parametrize("age", AGES.values(), ids=AGES)
@pytest.mark.parametrize("begins_late", [False, True])
def test_a_tick_has_come_at_its_deadline_and_none_comes_early(age: int, begins_late: bool) -> None:
    async def main() -> None:
        virtual = trio.lowlevel.current_clock()
        assert isinstance(virtual, MockClock)
        clock = Clock()
        virtual.jump(age)
        if begins_late:
            clock = Clock()
        tick = clock.ticks()
        for step in (1, 1, 1, 2, 3, 5, 99, 1, 12_345, 1):
            tick += step
            virtual.jump(max(clock.deadline(tick) - trio.current_time(), 0))
            resolution = math.ulp(trio.current_time()) * TICKS_PER_SECOND
            assert 0 <= clock.ticks() - tick <= resolution
            slack = Fraction(1, 16) if age == 0 else 0  # of a tick: so much a sum of floats may be off
            assert exactly(clock.origin, clock.ticks() - slack) <= Fraction(trio.current_time())
            assert clock.first_tick_at(clock.deadline(tick)) - tick <= resolution

    trio.run(main, clock=MockClock())


def test_sums_of_floats_come_out_at_their_tick() -> None:
    async def main() -> None:
        clock = Clock()
        for sleep in range(1, 1000):
            await trio.sleep(0.0123)
            assert clock.ticks() == sleep * 1_230_000
            assert clock.first_tick_at(trio.current_time()) == sleep * 1_230_000

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("age", AGES.values(), ids=AGES)
def test_a_tick_can_be_left_at_any_age(age: int) -> None:
    async def main() -> None:
        virtual = trio.lowlevel.current_clock()
        assert isinstance(virtual, MockClock)
        clock = Clock()
        virtual.jump(age)
        for _ in range(100):
            before = clock.ticks()
            after = clock.leave_tick(before)
            assert after == clock.ticks() > before

    trio.run(main, clock=MockClock(autojump_threshold=0))
