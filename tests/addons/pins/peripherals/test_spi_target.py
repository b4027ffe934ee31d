"""The SPI target in all modes: bytes and edges as the modes are defined, sigrok, wrong controllers."""

from pathlib import Path

import pytest

from aisrv.addons.pins.peripherals.spi_mode import MODES
from aisrv.addons.pins.peripherals.spi_target import SpiMemory, SpiPins, SpiTarget
from aisrv.xcore.ports.pin import Pin, Z
from tests.support.benches.pin_bench import Line, PinBench, pin_bench, sigrok
from tests.support.benches.simulation import simulated

SENT = bytes((0xA5, 0x3C, 0x01))
ANSWER = bytes((0x81, 0x7E, 0xF0))

# CPOL, CPHA and the level to which the clock goes at the edge that samples, by mode: SPI Block Guide, 4.3.
MODE_TABLE = {0: (0, 0, 1), 1: (0, 1, 0), 2: (1, 0, 0), 3: (1, 1, 1)}


async def on(bench: PinBench, mode: int = 0, answer: bytes = ANSWER) -> tuple[SpiTarget, SpiMemory, SpiPins]:
    pins = SpiPins(*bench.pins("1A", "1B", "1C", "1D"))
    memory = SpiMemory(answer)
    target = SpiTarget("flash", pins, memory, mode=MODES[mode])
    line = Line("controller")
    pins.cs.drive(1, line)
    pins.clk.drive(MODE_TABLE[mode][0], line)
    pins.mosi.drive(0, line)
    pins.miso.keep("test", 0)
    await bench.start(target)
    return target, memory, pins


def lay_down(
    pins: SpiPins, mode: int, data: bytes, *, start: int = 100, half: int = 5, lead: int = 20, tail: int = 20
) -> list[int]:
    """Drive a transaction by the table; return the ticks at which MISO is sampled."""
    polarity, phase, _ = MODE_TABLE[mode]
    line = pins.cs.drivers[0]
    first = start + lead
    bits = [byte >> at & 1 for byte in data for at in range(7, -1, -1)]
    sampled = []
    pins.cs.drive(0, line, start)
    for at, bit in enumerate(bits):
        leading, trailing = first + 2 * at * half, first + (2 * at + 1) * half
        sample = trailing if phase else leading
        pins.mosi.drive(bit, line, sample - half)
        pins.clk.drive(1 - polarity, line, leading)
        pins.clk.drive(polarity, line, trailing)
        sampled.append(sample)
    pins.cs.drive(1, line, first + (2 * len(bits) - 1) * half + tail)
    return sampled


def byte_levels(pin: Pin, ticks: list[int]) -> bytes:
    levels = "".join(str(pin.value(tick - 1)) for tick in ticks)
    return int(levels, 2).to_bytes(len(ticks) // 8, "big")


@pytest.mark.parametrize("mode", range(4))
@simulated
async def test_bytes_cross_in_each_mode(mode: int) -> None:
    async with pin_bench() as bench:
        target, memory, pins = await on(bench, mode)
        sampled = lay_down(pins, mode, SENT)
        await bench.until(2000)
        assert memory.received == [SENT]
        assert byte_levels(pins.miso, sampled) == ANSWER
        assert list(target.violations) == []
        assert pins.miso.level() == Z


@pytest.mark.parametrize("mode", range(4))
@simulated
async def test_sigrok_reads_the_same_bytes(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    async with pin_bench(path, cs="1A", clk="1B", mosi="1C", miso="1D") as bench:
        _, _, pins = await on(bench, mode)
        lay_down(pins, mode, SENT)
        await bench.until(2000)
    polarity, phase, _ = MODE_TABLE[mode]
    decoder = f"spi:clk=clk:mosi=mosi:miso=miso:cs=cs:cpol={polarity}:cpha={phase}"
    assert sigrok(path, decoder, "spi=mosi-transfer:miso-transfer") == ["81 7E F0", "A5 3C 01"]


@simulated
async def test_miso_changes_with_the_edge_that_shifts() -> None:
    async with pin_bench() as bench:
        _, _, pins = await on(bench, answer=b"\x55")
        lay_down(pins, 0, b"\0")
        await bench.until(2000)
        # Chip select at 100, edges from 120 on: falling ones at 125, 135, ...
        bits = [(100, 0), *((125 + 10 * at, 1 - at % 2) for at in range(7)), (195, 0), (215, Z)]
        assert list(pins.miso.changes(0)) == bits


@simulated
async def test_each_transaction_is_answered_from_its_beginning_at_50_mhz() -> None:
    async with pin_bench() as bench:
        target, memory, pins = await on(bench)
        first = lay_down(pins, 0, SENT, half=1)
        second = lay_down(pins, 0, SENT[:1], half=1, start=1000)
        await bench.until(2000)
        assert memory.received == [SENT, SENT[:1]]
        assert (byte_levels(pins.miso, first), byte_levels(pins.miso, second)) == (ANSWER, ANSWER[:1])
        assert target.violations.rules == []


@pytest.mark.parametrize(
    ("times", "rule"), [({"lead": 9}, "CS enable"), ({"tail": 9}, "CS disable")], ids=["lead", "tail"]
)
@simulated
async def test_times_of_chip_select_are_checked(times: dict[str, int], rule: str) -> None:
    async with pin_bench() as bench:
        target, memory, pins = await on(bench)
        lay_down(pins, 0, SENT, **times)
        await bench.until(2000)
        assert target.violations.rules == [rule]
        assert memory.received == [SENT]


@simulated
async def test_chip_select_that_is_high_for_too_short_a_time_is_named() -> None:
    async with pin_bench() as bench:
        target, _, pins = await on(bench)
        lay_down(pins, 0, b"\0", start=100)
        lay_down(pins, 0, b"\0", start=100 + 20 + 75 + 20 + 19)
        await bench.until(2000)
        assert [str(each) for each in target.violations] == [
            "tick 234: CS idle: it was 190 ns, 200 ns or more are required"
        ]


@simulated
async def test_chip_select_that_goes_high_within_a_byte_drops_it() -> None:
    async with pin_bench() as bench:
        target, memory, pins = await on(bench)
        lay_down(pins, 0, SENT)
        pins.cs.withdraw(pins.cs.drivers[0], 110)
        pins.cs.drive(1, pins.cs.drivers[0], 120 + 11 * 10 + 7)  # the eleventh rising edge is at 220
        await bench.until(2000)
        assert memory.received == [SENT[:1]]
        assert target.violations.rules == ["CS disable", "early end"]
        assert "after 4 bits of a byte" in str(list(target.violations)[1])


@simulated
async def test_a_clock_of_another_polarity_and_data_that_change_with_their_edge_are_named() -> None:
    async with pin_bench() as bench:
        target, _, pins = await on(bench)
        line = pins.cs.drivers[0]
        pins.clk.drive(1, line, 50)
        pins.cs.drive(0, line, 60)
        pins.clk.drive(0, line, 80)
        pins.mosi.drive(1, line, 90)
        pins.clk.drive(1, line, 90)
        await bench.until(2000)
        assert target.violations.rules == ["idle clock", "data setup"]


@simulated
async def test_edges_while_chip_select_is_high_are_not_the_target_s() -> None:
    async with pin_bench() as bench:
        target, memory, pins = await on(bench)
        pins.clk.drive_run([1, 0] * 8, 100, 5, pins.clk.drivers[0])
        await bench.until(2000)
        assert (memory.received, len(target.violations), pins.miso.level()) == ([], 0, Z)
