"""Resistors on pins."""

from aisrv.addons.pins.peripherals.resistor import resistor
from aisrv.addons.pins.peripherals.wave import assert_wave, keep_wave
from aisrv.xcore.ports.pin import HIGH, Pull
from tests.support.benches.pin_bench import Line, pin_bench
from tests.support.benches.simulation import simulated


@simulated
async def test_a_resistor_holds_a_pin_that_nobody_drives_and_loses_against_who_does() -> None:
    async with pin_bench() as bench:
        (pin,), line, drain = bench.pins("1A"), Line(), Line("drain", open_drain=True)
        keep_wave(pin)
        await bench.until(10)
        with resistor("r", HIGH, pin):
            pin.pull = Pull.DOWN  # of a port's own
            pin.drive_run([0, 1, 0], 20, 10, line)
            pin.release(line, 50)
            pin.drive_run([0, 1], 60, 10, drain)
            await bench.until(80)
        pin.release(drain)
        assert_wave(pin, "0 1@10 0@20 1@30 0@40 1@50 0@60 1@70 0@80")


@simulated
async def test_a_port_that_is_set_to_drive_both_levels_leaves_a_resistor() -> None:
    async with pin_bench() as bench:
        (pin,) = bench.pins("1A")
        port = bench.node.tiles[0].port("1A")
        with resistor("r", HIGH, pin):
            port.enable()
            port.set_drive()
            await bench.until(10)
            assert await port.in_() == 1
