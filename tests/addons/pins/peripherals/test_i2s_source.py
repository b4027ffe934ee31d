"""I2S: waves by hand from Philips' definition, sigrok, sources and sinks in every width, wrong slots."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.pins.peripherals.i2s_clock import I2sClock
from aisrv.addons.pins.peripherals.i2s_format import I2sPins
from aisrv.addons.pins.peripherals.i2s_sink import I2sSink
from aisrv.addons.pins.peripherals.i2s_source import I2sSource
from tests.support.benches.pin_bench import Line, PinBench, pin_bench, sigrok
from tests.support.benches.simulation import simulated


def three(bench: PinBench) -> I2sPins:
    return I2sPins(*bench.pins("1A", "1B", "1C"))


def clock_by_hand(pins: I2sPins, slots: int, slot: int, half: int = 10, start: int = 1000) -> list[int]:
    """Drive both clocks from a left slot on; return the ticks at which data are sampled."""
    line = Line("clock")
    pins.bclk.drive(1, line)
    pins.lrclk.drive(1, line)
    bits = slots * slot
    pins.bclk.drive_run([0, 1] * bits, start, half, line)
    pins.lrclk.drive_run([at % 2 for at in range(slots)], start, 2 * half * slot, line)
    return [start + (2 * at + 1) * half for at in range(bits)]


@simulated
async def test_the_first_bit_comes_a_period_after_the_word_clock() -> None:
    async with pin_bench() as bench:
        pins = three(bench)
        sampled = clock_by_hand(pins, 4, 8)
        await bench.start(I2sSource("mic", pins, [0x5A, -0x80, 0x01], width=8))
        pins.data.keep("test", 0)
        await bench.until(3000)
        bits = "".join(str(pins.data.value(tick)) for tick in sampled)
        # A period late: 0x5A left, 0x80 right, 0x01 left, silence; of the last slot 7 bits.
        assert bits == "00101101010000000000000010000000"


@pytest.mark.parametrize("width", [16, 24, 32])
@simulated
async def test_sigrok_reads_the_same_samples(width: int, tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    samples = [1, -2, 2 ** (width - 1) - 1, -(2 ** (width - 1)), 0x1234, -0x1234]
    async with pin_bench(path, bclk="1A", lrclk="1B", data="1C") as bench:
        pins = three(bench)
        await bench.start(
            I2sSource("mic", pins, samples, width=width),
            I2sClock("clock", pins.bclk, pins.lrclk, rate=48_000, slot=width),
        )
        await bench.until(40_000)
    lines = sigrok(path, "i2s:sck=bclk:ws=lrclk:sd=data", "i2s=left:right")
    seen = [int(line.partition(": ")[2], 16) for line in lines]
    expected = [sample % 2**width for sample in samples]
    at = seen.index(1)
    assert seen[at : at + len(expected)] == expected


@given(
    width=st.sampled_from([8, 16, 24, 32]),
    wider=st.integers(0, 16),
    rate=st.sampled_from([8_000, 44_100, 48_000, 192_000]),
    data=st.data(),
)
def test_a_sink_gets_every_sample_of_a_source(width: int, wider: int, rate: int, data: st.DataObject) -> None:
    limit = 2 ** (width - 1)
    samples = data.draw(st.lists(st.integers(-limit, limit - 1), min_size=1, max_size=9))

    @simulated
    async def run() -> None:
        async with pin_bench() as bench:
            pins = three(bench)
            source = I2sSource("mic", pins, samples, width=width)
            sink = I2sSink("speaker", pins, width=width)
            await bench.start(
                source, sink, I2sClock("clock", pins.bclk, pins.lrclk, rate=rate, slot=width + wider)
            )
            await bench.until(10**8 // rate * 7)
            assert (len(source.violations), len(sink.violations)) == (0, 0)
            assert len(sink.samples) >= 10
            at = next((at for at in range(len(sink.samples)) if sink.samples[at] != 0), 0)
            nonzero = next((at for at in range(len(samples)) if samples[at] != 0), 0)
            got = sink.samples[max(at - nonzero, 0) :]
            assert got[: len(samples)] == samples
            assert not any(got[len(samples) :])

    run()


@simulated
async def test_a_bit_clock_of_which_no_future_is_known_serves_as_well() -> None:
    async with pin_bench() as bench:
        pins, line = three(bench), Line("firmware")
        sink = I2sSink("speaker", pins, width=4)
        pins.lrclk.drive(1, line)
        await bench.start(I2sSource("mic", pins, [5, -3, 7, -8], width=4), sink)
        tick = 100
        for slot in range(6):
            for bit in range(5):
                await bench.until(tick)
                pins.bclk.drive(0, line)
                if bit == 0:
                    pins.lrclk.drive(slot % 2, line)
                await bench.until(tick + 10)
                pins.bclk.drive(1, line)
                tick += 20
        assert sink.samples == [5, -3, 7, -8]


@simulated
async def test_slots_that_are_too_short_are_named() -> None:
    async with pin_bench() as bench:
        pins = three(bench)
        clock_by_hand(pins, 6, 12)
        source, sink = I2sSource("mic", pins, [-1] * 6), I2sSink("speaker", pins)
        await bench.start(source, sink)
        await bench.until(5000)
        assert source.violations.rules == ["slot length"] * 5
        text = "a slot has 12 bits, a sample has 16 bits"
        assert {each.text for each in (*source.violations, *sink.violations)} == {text}


@simulated
async def test_slots_of_different_lengths_and_data_at_the_edge_are_named() -> None:
    async with pin_bench() as bench:
        pins, line = three(bench), Line("clock")
        sink = I2sSink("speaker", pins, width=4)
        pins.lrclk.drive(1, line)
        await bench.start(sink)
        pins.bclk.drive_run([0, 1] * 40, 100, 10, line)
        pins.lrclk.drive_at((100, 200, 300, 380, 480), (0, 1, 0, 1, 0), line)
        pins.data.drive(1, line, 150)
        await bench.until(2000)
        seen = [(each.tick, each.rule) for each in sink.violations]
        assert seen == [(150, "data setup"), (390, "slot length")]
