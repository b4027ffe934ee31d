"""The UART receiver: frames laid down by hand, bit by bit, and those that are wrong."""

import pytest

from aisrv.addons.pins.peripherals.uart_format import Parity, UartFormat
from aisrv.addons.pins.peripherals.uart_receiver import UartReceiver
from tests.support.benches.pin_bench import Line, PinBench, pin_bench
from tests.support.benches.simulation import simulated

BIT = 100
FORMAT = UartFormat(baud=1_000_000)


async def on(bench: PinBench, form: UartFormat = FORMAT) -> UartReceiver:
    (pin,) = bench.pins("1A")
    pin.drive(1, Line())
    receiver = UartReceiver("console", pin, form)
    await bench.start(receiver)
    return receiver


async def feed(bench: PinBench, levels: str, *, start: int = 1000, bit: float = BIT) -> None:
    """Drive levels, a character for each bit, then the idle level; wait until all has passed."""
    (pin,) = bench.pins("1A")
    ticks = [start + round(at * bit) for at in range(len(levels) + 1)]
    pin.drive_at(ticks, [int(level) for level in levels + "1"], pin.drivers[0])
    await bench.until(ticks[-1] + 20 * BIT)


@pytest.mark.parametrize(
    ("form", "levels", "byte"),
    [
        # 0x53 is 0b1010011: ones at bits 0, 1, 4 and 6; start, data from bit 0 on, parity, stop.
        (FORMAT, "0110010101", 0x53),
        (UartFormat(1_000_000, 7), "011001011", 0x53),
        (UartFormat(1_000_000, 5), "0110011", 0x13),
        (UartFormat(1_000_000, 8, Parity.EVEN), "01100101001", 0x53),
        (UartFormat(1_000_000, 8, Parity.ODD), "01100101011", 0x53),
        (UartFormat(1_000_000, 7, Parity.EVEN, 2), "01100100111", 0x13),
    ],
)
@simulated
async def test_a_frame_of_each_format(form: UartFormat, levels: str, byte: int) -> None:
    async with pin_bench() as bench:
        receiver = await on(bench, form)
        await feed(bench, levels * 2)
        assert (bytes(receiver.received), receiver.violations.rules) == (bytes((byte, byte)), [])


@pytest.mark.parametrize(
    ("form", "levels", "rule", "text"),
    [
        (FORMAT, "0110010100", "framing", "the stop bit is low"),
        (FORMAT, "0000000000000", "break", "the line was low for a whole frame"),
        (
            UartFormat(1_000_000, 8, Parity.EVEN),
            "01100101011",
            "parity",
            "0x53 has not even parity",
        ),
        (UartFormat(1_000_000, 8, Parity.NONE, 2), "01100101010", "framing", "the stop bit is low"),
    ],
)
@simulated
async def test_a_wrong_frame_is_named_and_the_next_byte_is_right(
    form: UartFormat, levels: str, rule: str, text: str
) -> None:
    async with pin_bench() as bench:
        receiver = await on(bench, form)
        await feed(bench, levels)
        assert [(each.tick, each.rule, each.text) for each in receiver.violations] == [(1000, rule, text)]
        assert not receiver.received
        await feed(bench, "".join(map(str, form.frame(0x53))), start=10_000)
        assert bytes(receiver.received) == b"\x53"


@simulated
async def test_a_glitch_is_no_start_bit() -> None:
    async with pin_bench() as bench:
        receiver = await on(bench)
        (pin,) = bench.pins("1A")
        pin.drive_run([0, 1], 500, 49, pin.drivers[0])
        await feed(bench, "0110010101")
        assert bytes(receiver.received) == b"\x53"
        assert receiver.violations.rules == ["start bit"]


@pytest.mark.parametrize(
    ("percent", "rules"), [(0, []), (2, []), (-2, []), (4, ["baud rate"]), (-4, ["baud rate"])]
)
@simulated
async def test_another_rate_is_named_before_bytes_are_wrong(percent: int, rules: list[str]) -> None:
    async with pin_bench() as bench:
        receiver = await on(bench)
        await feed(bench, "0010101011", bit=BIT * (100 + percent) / 100)
        assert bytes(receiver.received) == b"\xaa"
        assert receiver.violations.rules == rules


@simulated
async def test_a_sink_takes_the_bytes() -> None:
    async with pin_bench() as bench:
        (pin,) = bench.pins("1A")
        pin.drive(1, Line())
        taken: list[int] = []
        receiver = UartReceiver("console", pin, FORMAT, sink=taken.append)
        await bench.start(receiver)
        await feed(bench, "0110010101")
        assert (taken, bytes(receiver.received)) == ([0x53], b"")
