"""The UART transmitter: waves tick by tick, sigrok, and what is cancelled."""

from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.pins.peripherals.uart_format import Parity, UartFormat
from aisrv.addons.pins.peripherals.uart_receiver import UartReceiver
from aisrv.addons.pins.peripherals.uart_transmitter import UartTransmitter
from tests.support.benches.pin_bench import pin_bench, sigrok
from tests.support.benches.simulation import simulated


@simulated
async def test_the_waves_of_a_byte() -> None:
    async with pin_bench() as bench:
        (pin,) = bench.pins("1A")
        pin.keep("test", 0)
        transmitter = UartTransmitter("host", pin, UartFormat(1_000_000, 8, Parity.EVEN))
        await bench.start(transmitter)
        await bench.until(99)
        await transmitter.send(b"\x07")
        assert bench.node.clock.ticks() == 100 + 11 * 100
        # Start, three ones, five zeros, parity 1, stop.
        assert list(pin.changes(0)) == [(100, 0), (200, 1), (500, 0), (1000, 1)]


@pytest.mark.parametrize(("baud", "parity"), [(9600, "none"), (115_200, "odd"), (3_000_000, "even")])
@simulated
async def test_sigrok_reads_the_same_bytes(baud: int, parity: str, tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    async with pin_bench(path, tx="1A") as bench:
        (pin,) = bench.pins("1A")
        form = UartFormat(baud, 8, Parity(parity))
        transmitter = UartTransmitter("host", pin, form, b"pins\0\xff")
        await bench.start(transmitter)
        await bench.until(10**6)
    lines = sigrok(path, f"uart:rx=tx:baudrate={baud}:parity={parity}", "uart=rx-data:rx-warnings")
    assert lines == ["70", "69", "6E", "73", "00", "FF"]


@given(
    data=st.binary(max_size=100),
    baud=st.integers(1200, 12_500_000),
    parity=st.sampled_from(Parity),
    stop=st.integers(1, 2),
)
def test_a_receiver_of_the_same_format_gets_every_byte(
    data: bytes, baud: int, parity: Parity, stop: int
) -> None:
    form = UartFormat(baud, 8, parity, stop)

    @simulated
    async def run() -> None:
        async with pin_bench() as bench:
            (pin,) = bench.pins("1A")
            receiver = UartReceiver("device", pin, form)
            transmitter = UartTransmitter("host", pin, form)
            await bench.start(transmitter, receiver)
            await transmitter.send(data)
            assert (bytes(receiver.received), receiver.violations.rules) == (data, [])

    run()


@simulated
async def test_a_cancelled_send_ends_with_the_frame_that_is_on_the_line() -> None:
    async with pin_bench() as bench:
        (pin,) = bench.pins("1A")
        form = UartFormat(1_000_000)
        receiver = UartReceiver("device", pin, form)
        transmitter = UartTransmitter("host", pin, form)
        await bench.start(transmitter, receiver)
        with trio.move_on_after(25e-6):  # in the third frame of 10 us
            await transmitter.send(b"abcdef")
        await transmitter.send(b"xy")
        assert (bytes(receiver.received), receiver.violations.rules) == (b"abcxy", [])
