"""Buttons: levels, pulls and bounces."""

import pytest

from aisrv.addons.pins.peripherals.button import Button
from aisrv.xcore.ports.pin import HIGH, LOW
from tests.support.benches.pin_bench import pin_bench
from tests.support.benches.simulation import simulated


@pytest.mark.parametrize("active", [LOW, HIGH])
@simulated
async def test_a_button_pulls_its_pin_to_its_level_at_its_times(active: int) -> None:
    async with pin_bench() as bench:
        (pin,) = bench.pins("1A")
        pin.keep("test", 0)
        await bench.start(Button("b", pin, active=active, presses=(1e-6, 1e-3), hold=5e-6))
        assert pin.value() == 1 - active
        await bench.until(10**6)
        ticks = [100, 600, 100_000, 100_500]
        assert list(pin.changes(0)) == [(tick, active ^ at % 2) for at, tick in enumerate(ticks)]


@simulated
async def test_a_contact_bounces_at_both_edges() -> None:
    async with pin_bench() as bench:
        (pin,) = bench.pins("1A")
        pin.keep("test", 0)
        button = Button("b", pin, bounces=(10, 20))
        await bench.start(button)
        await bench.until(1000)
        button.press()
        await bench.until(2000)
        assert button.is_pressed
        button.release()
        await bench.until(3000)
        assert not button.is_pressed
        pressed = [(1000, 0), (1010, 1), (1030, 0)]
        assert list(pin.changes(0)) == [*pressed, (2000, 1), (2010, 0), (2030, 1)]
