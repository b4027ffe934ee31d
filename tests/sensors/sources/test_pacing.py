"""Frames at a rate of device time, on virtual time."""

from collections.abc import Awaitable, Callable
from fractions import Fraction
from random import Random
from typing import TypeVar

import pytest
import trio
import trio.testing

from aisrv.addons.predict.profile.end_to_end import inferred_frames
from aisrv.sensors.image.frame import Encoding, SourceError
from aisrv.sensors.sources.arrays import CallbackSource
from aisrv.sensors.sources.numbered import NumberedSource
from aisrv.sensors.sources.pacing import FrameClock, LatePolicy, PacedSource
from tests.support.amounts import amount

T = TypeVar("T")


class Numbers(NumberedSource):
    """Frames of one byte: their number."""

    def __init__(self, count: int | None = None) -> None:
        super().__init__("numbers", 1, 1, Encoding.SAMPLES, count)

    def _data(self, number: int) -> bytes:
        return bytes([number % 256])


async def take(source: PacedSource, count: int) -> list[tuple[int, int]]:
    """Frames with the times, in ticks of 10 ns, at which they came."""
    start = trio.current_time()
    taken = []
    for _ in range(count):
        frame = await source.frame()
        taken.append((round((trio.current_time() - start) * 1e8), frame.data[0]))
    return taken


def virtually(function: Callable[..., Awaitable[T]], *arguments: object) -> T:
    clock = trio.testing.MockClock(autojump_threshold=0)
    return trio.run(function, *arguments, clock=clock)


def test_frames_come_at_whole_ticks_without_drift() -> None:
    taken = virtually(take, PacedSource(Numbers(), 30), 10)
    # k * 10^8 / 30, rounded down
    assert [tick for tick, _ in taken] == [
        0, 3333333, 6666666, 10000000, 13333333, 16666666, 20000000, 23333333, 26666666, 30000000,
    ]  # fmt: skip
    assert [number for _, number in taken] == list(range(10))


@pytest.mark.parametrize(
    ("rate", "last"),
    [(Fraction(30000, 1001), 3333330000), (Fraction(1, 2), 200000000 * 999), (48000, 2081250)],
)
def test_thousandth_frame_has_its_exact_time(rate: Fraction, last: int) -> None:
    assert virtually(take, PacedSource(Numbers(), rate), 1000)[-1][0] == last


def test_first_frame_comes_at_once_whenever_it_is_asked_for() -> None:
    async def late_start() -> list[tuple[int, int]]:
        source = PacedSource(Numbers(), 10)
        await trio.sleep(0.123)
        return await take(source, 3)

    assert virtually(late_start) == [(0, 0), (10_000_000, 1), (20_000_000, 2)]


async def take_after(source: PacedSource, pauses: list[float]) -> list[tuple[int, int]]:
    """As `take`, with a pause before each frame."""
    start = trio.current_time()
    taken = []
    for pause in pauses:
        await trio.sleep(pause)
        frame = await source.frame()
        taken.append((round((trio.current_time() - start) * 1e8), frame.data[0]))
    return taken


def test_frames_whose_time_is_over_are_lost() -> None:
    # times at 0, 0.1, 0.2 and so on; the second request comes at 0.25
    taken = virtually(take_after, PacedSource(Numbers(), 10, LatePolicy.DROP), [0, 0.25, 0, 0.05])
    assert taken == [(0, 0), (30_000_000, 3), (40_000_000, 4), (50_000_000, 5)]


def test_frame_is_not_late_in_its_own_tick() -> None:
    taken = virtually(take_after, PacedSource(Numbers(), 10, LatePolicy.DROP), [0, 0.2, 0.10000001])
    assert taken == [(0, 0), (20_000_000, 2), (40_000_000, 4)]


def test_no_frame_is_lost_where_late_ones_are_kept() -> None:
    taken = virtually(take_after, PacedSource(Numbers(), 10, LatePolicy.KEEP), [0, 0.25, 0, 0])
    assert taken == [(0, 0), (25_000_000, 1), (25_000_000, 2), (30_000_000, 3)]


def test_what_a_callback_shows_is_not_skipped() -> None:
    calls: list[float] = []

    def made() -> bytes:
        calls.append(trio.current_time())
        return bytes([len(calls)])

    source = PacedSource(CallbackSource(made, 1, 1, Encoding.SAMPLES), 10)
    assert virtually(take_after, source, [0, 0.25]) == [(0, 1), (30_000_000, 2)]


def test_idle_hours_are_skipped_at_once() -> None:
    taken = virtually(take_after, PacedSource(Numbers(), 1_000_000), [0, 36_000])
    assert taken[1] == (3_600_000_000_000, 36_000_000_000 % 256)


def test_cancelled_wait_loses_no_frame() -> None:
    async def cancelled() -> list[tuple[int, int]]:
        source = PacedSource(Numbers(), 10)
        start = trio.current_time()
        await source.frame()
        with trio.move_on_after(0.05):
            await source.frame()
        frame = await source.frame()
        return [(round((trio.current_time() - start) * 1e8), frame.data[0])]

    assert virtually(cancelled) == [(10_000_000, 1)]


def test_end_of_the_source_goes_through() -> None:
    with pytest.raises(SourceError, match="numbers ended after 2 frames"):
        virtually(take, PacedSource(Numbers(2), 10), 3)


def test_paced_source_has_the_format_of_its_own() -> None:
    source = PacedSource(Numbers(), 10)
    assert (source.width, source.height, source.encoding) == (1, 1, Encoding.SAMPLES)


@pytest.mark.parametrize("rate", [0, -1, 1_000_001])
def test_impossible_rates_are_refused(rate: int) -> None:
    with pytest.raises(SourceError, match=f"a rate of {rate} frames a second"):
        PacedSource(Numbers(), rate)


async def test_live_frames_come_no_earlier_than_their_time() -> None:
    taken = await take(PacedSource(Numbers(), 1000), 20)
    assert all(tick >= (number - taken[0][1]) * 100_000 - 1 for tick, number in taken)


# In device time.


class CountedClock(FrameClock):
    """A clock that somebody else moves."""

    def __init__(self) -> None:
        self.now = 0

    def ticks(self) -> int:
        return self.now

    async def wait_until(self, tick: int) -> None:
        self.now = max(self.now, tick)


class Skipped(Numbers):
    """Counts the frames that are skipped."""

    skipped = 0

    def skip(self, count: int) -> None:
        self.skipped += count
        super().skip(count)


async def inferred(source: PacedSource, clock: CountedClock, fetch: int, inference: int, count: int) -> None:
    """Take frames as an engine does: fetch the image, ask for the next, infer meanwhile."""
    await source.frame()
    for _ in range(count):
        clock.now += fetch
        asked = clock.now
        await source.frame()
        clock.now = max(asked + inference, clock.now)


@pytest.mark.in_full
def test_dropped_frames_equal_the_recurrence() -> None:
    random = Random(7)
    for _ in range(amount(200, every_day=20)):
        rate = Fraction(random.randint(1, 200_000), random.choice((1, 1000, 1001)))
        fetch, inference = random.randint(0, 100_000), random.randint(0, 10_000_000)
        clock, frames = CountedClock(), Skipped()
        source = PacedSource(frames, rate).by(lambda clock=clock: clock)  # type: ignore[misc]
        virtually(inferred, source, clock, fetch, inference, 1000)
        *_, last = inferred_frames(1000, Fraction(fetch + inference), Fraction(fetch), 10**8 / rate)
        assert frames.skipped == last - 1000, (rate, fetch, inference)


def test_frames_dropped_at_50_a_second() -> None:
    clock, frames = CountedClock(), Skipped()
    source = PacedSource(frames, 50).by(lambda: clock)
    virtually(inferred, source, clock, 0, 5_000_000, 100)
    assert frames.skipped == 148
