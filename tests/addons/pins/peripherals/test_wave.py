"""Waves of pins in tests."""

import pytest

from aisrv.addons.pins.peripherals.wave import assert_wave, keep_wave, wave_of
from tests.support.benches.pin_bench import Line, pin_bench
from tests.support.benches.simulation import simulated


@simulated
async def test_a_wave_is_asserted() -> None:
    async with pin_bench() as bench:
        (pin,), line = bench.pins("1A"), Line()
        keep_wave(pin)
        pin.drive(0, line)
        pin.drive_run([1, 0], 50, 30, line)
        pin.drive(1, Line("other"), 60)
        pin.release(line, 100)
        await bench.until(200)
        assert_wave(pin, "0 1@50 x@80 1@100")
        assert_wave(pin, "1 x@80 1@100", since=70)
        with pytest.raises(
            AssertionError, match=r"X0D00 has the wave\n  0 1@50 x@80 1@100\nand not\n  0 1@51"
        ):
            assert_wave(pin, "0 1@51")


@simulated
async def test_a_wave_ends_now_and_a_pin_that_nobody_drives_is_z() -> None:
    async with pin_bench() as bench:
        (pin,) = bench.pins("1A")
        keep_wave(pin)
        pin.drive(1, Line(), 10)
        assert wave_of(pin) == "z"
        await bench.until(10)
        assert_wave(pin, "z 1@10")


@pytest.mark.parametrize("wave", ["", "2", "0 1", "0 1@", "0  1@5", "0 1@-5", "0 1@5 "])
@simulated
async def test_a_text_that_is_no_wave_is_an_error_of_the_test(wave: str) -> None:
    async with pin_bench() as bench:
        with pytest.raises(ValueError, match="a wave is a level"):
            assert_wave(bench.pins("1A")[0], wave)
