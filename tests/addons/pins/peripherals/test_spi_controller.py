"""The SPI controller: its waves tick by tick, targets in all modes, and transfers that are cancelled."""

import pytest
import trio

from aisrv.addons.pins.peripherals.spi_controller import SpiController
from aisrv.addons.pins.peripherals.spi_mode import MODES
from aisrv.addons.pins.peripherals.spi_target import SpiMemory, SpiPins, SpiTarget
from tests.support.benches.pin_bench import PinBench, pin_bench
from tests.support.benches.simulation import simulated


def four(bench: PinBench) -> SpiPins:
    return SpiPins(*bench.pins("1A", "1B", "1C", "1D"))


@simulated
async def test_the_waves_of_a_byte_in_mode_0() -> None:
    async with pin_bench() as bench:
        pins = four(bench)
        controller = SpiController("host", pins, half_period=4)
        await bench.start(controller)
        for pin in pins:
            pin.keep("test", 0)
        await bench.until(99)
        assert await controller.transfer(b"\xa0") == b"\0"
        # 100 ns before the first edge and after the last one.
        assert list(pins.cs.changes(1)) == [(100, 0), (110 + 15 * 4 + 10, 1)]
        assert list(pins.clk.changes(1)) == [(110 + 4 * at, 1 - at % 2) for at in range(16)]
        assert list(pins.mosi.changes(1)) == [(106, 1), (114, 0), (122, 1), (130, 0)]


@pytest.mark.parametrize("half", [1, 2, 5, 50])
@pytest.mark.parametrize("mode", range(4))
@simulated
async def test_a_target_and_the_controller_agree(mode: int, half: int) -> None:
    async with pin_bench() as bench:
        pins = four(bench)
        memory = SpiMemory(bytes(range(100, 120)))
        controller = SpiController("host", pins, half_period=half, mode=MODES[mode])
        target = SpiTarget("chip", pins, memory, mode=MODES[mode])
        await bench.start(controller, target)
        for count in (1, 20, 3):
            assert await controller.transfer(bytes(range(count))) == bytes(range(100, 100 + count))
        assert memory.received == [bytes(range(count)) for count in (1, 20, 3)]
        assert list(target.violations) == []


@simulated
async def test_a_transfer_of_no_bytes_is_chip_select_alone() -> None:
    async with pin_bench() as bench:
        pins = four(bench)
        memory = SpiMemory()
        controller = SpiController("host", pins)
        await bench.start(controller, SpiTarget("chip", pins, memory))
        assert await controller.transfer(b"") == b""
        assert memory.received == [b""]


@simulated
async def test_a_cancelled_transfer_leaves_the_bus_idle() -> None:
    async with pin_bench() as bench:
        pins = four(bench)
        memory = SpiMemory(b"\x11")
        controller = SpiController("host", pins, half_period=50)
        await bench.start(controller, SpiTarget("chip", pins, memory))
        with trio.move_on_after(10e-6):
            await controller.transfer(bytes(100))
        assert (pins.cs.value(), pins.clk.value()) == (1, 0)
        assert await controller.transfer(b"\0") == b"\x11"
