"""Changes of several pins: their order, spikes, what is laid down and withdrawn while somebody waits."""

from itertools import pairwise

import trio
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.pins.peripherals.wires import Change, Wires
from tests.support.benches.pin_bench import Line, drive_changes, pin_bench
from tests.support.benches.simulation import simulated


async def collected(wires: Wires, until: int) -> list[Change]:
    found = []
    while (change := await wires.change(until)) is not None:
        found.append(change)
    return found


@simulated
async def test_changes_come_in_the_order_of_ticks_and_then_of_pins() -> None:
    async with pin_bench() as bench:
        a, b = bench.pins("1A", "1B")
        with Wires(a, b) as wires:
            a.drive_run([1, 0, 1], 10, 10, Line())
            b.drive_run([1, 0], 15, 15, Line())
            assert await collected(wires, 100) == [(10, 0, 1), (15, 1, 1), (20, 0, 0), (30, 0, 1), (30, 1, 0)]
            assert bench.node.clock.ticks() == 100


@simulated
async def test_what_is_withdrawn_before_its_tick_is_no_change() -> None:
    async with pin_bench() as bench:
        (a,), line = bench.pins("1A"), Line()
        a.drive(0, line)
        a.drive(1, line, 1000)
        found: list[Change] = []

        async def collect() -> None:
            with Wires(a) as wires:
                found.extend(await collected(wires, 2000))

        bench.nursery.start_soon(collect)
        await bench.until(500)
        a.withdraw(line)
        a.drive(1, line, 700)
        await bench.until(2000)
        assert found == [(700, 0, 1)]


@simulated
async def test_a_level_that_is_taken_back_at_its_own_tick_is_told_twice() -> None:
    async with pin_bench() as bench:
        (a,), line = bench.pins("1A"), Line()
        with Wires(a) as wires:
            a.drive(1, line)
            first = await wires.change()
            a.drive(0, line)
            assert (first, await wires.change()) == ((0, 0, 1), (0, 0, 0))


@simulated
async def test_a_cancelled_wait_loses_nothing() -> None:
    async with pin_bench() as bench:
        (a,) = bench.pins("1A")
        with Wires(a) as wires:
            a.drive_run([1, 0, 1, 0], 100, 100, Line())
            for seconds in (0.5e-6, 2e-6):
                with trio.move_on_after(seconds):
                    await collected(wires, 10**6)
            assert await collected(wires, 1000) == [(300, 0, 1), (400, 0, 0)]


@simulated
async def test_the_past_is_kept_for_a_reader_that_is_late() -> None:
    async with pin_bench() as bench:
        (a,), line = bench.pins("1A"), Line()
        with Wires(a) as wires:
            for tick in range(1, 400):
                await bench.until(tick)
                a.drive(tick % 2, line)
            assert await collected(wires, 399) == [(tick, 0, tick % 2) for tick in range(1, 400)]


CHANGES = st.lists(st.integers(1, 12), max_size=30)


@given(gaps=st.tuples(CHANGES, CHANGES), spike=st.integers(0, 6))
def test_random_waves_are_told_as_a_filter_by_definition_has_them(
    gaps: tuple[list[int], list[int]], spike: int
) -> None:
    """A level is told where it lasts `spike` ticks; the one before goes on over what is shorter."""
    waves = []
    for lengths in gaps:
        tick, wave = 10, []
        for at, length in enumerate(lengths):
            wave.append((tick, (at + 1) % 2))
            tick += length
        waves.append(wave)

    expected, dropped = [], []
    for wire, wave in enumerate(waves):
        level = 0
        for (tick, to), (end, _) in pairwise([*wave, (10**6, 0)]):
            if to == level:
                continue
            if end - tick >= spike:
                expected.append((tick, wire, to))
                level = to
            else:
                dropped.append((tick, wire))

    @simulated
    async def run() -> None:
        spikes: list[tuple[int, int]] = []
        async with pin_bench() as bench:
            pins = bench.pins("1A", "1B")
            with Wires(*pins, spike=spike, on_spike=lambda tick, wire: spikes.append((tick, wire))) as wires:
                for pin, wave in zip(pins, waves, strict=True):
                    drive_changes(pin, wave, Line())
                assert await collected(wires, 1000) == sorted(expected)
                assert sorted(spikes) == sorted(dropped)

    run()
