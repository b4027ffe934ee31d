"""LEDs: when they are lit."""

import logging

import pytest

from aisrv.addons.pins.peripherals.led import Led
from aisrv.xcore.ports.pin import HIGH, LOW
from tests.support.benches.pin_bench import Line, pin_bench
from tests.support.benches.simulation import simulated


@pytest.mark.parametrize("active", [LOW, HIGH])
@simulated
async def test_an_led_is_lit_at_its_level_and_dark_on_a_pin_that_nobody_drives(active: int) -> None:
    async with pin_bench() as bench:
        (pin,), line = bench.pins("1A"), Line()
        led = Led("red", pin, active=active)
        await bench.start(led)
        assert not led.is_lit
        pin.drive_run([active, 1 - active, active], 100, 50, line)
        pin.release(line, 900)
        await bench.until(1000)
        assert led.changes == [(100, True), (150, False), (200, True), (900, False)]


@simulated
async def test_the_log_says_when(caplog: pytest.LogCaptureFixture) -> None:
    async with pin_bench() as bench:
        (pin,) = bench.pins("1A")
        await bench.start(Led("red", pin))
        with caplog.at_level(logging.INFO):
            pin.drive_run([1, 0], 100, 50, Line())
            await bench.until(1000)
        assert [each.message for each in caplog.records] == [
            "red is on at 0.000001 s",
            "red is off at 0.000002 s",
        ]
