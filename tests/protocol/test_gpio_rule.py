"""The rule of the outputs, as the engine drives them."""

from hypothesis import given
from hypothesis import strategies as st

from aisrv.engine.gpio import Gpio
from aisrv.protocol.commands import GPIO_COUNT, GpioMode
from aisrv.protocol.gpio_rule import gpio_levels

INT8 = st.integers(-128, 127)


@given(
    st.lists(INT8 | st.integers(-1, 1), max_size=9),
    st.lists(INT8 | st.integers(-1, 1), min_size=GPIO_COUNT, max_size=GPIO_COUNT),
    st.sampled_from(GpioMode),
)
def test_levels_are_those_that_the_engine_drives(
    elements: list[int], thresholds: list[int], mode: GpioMode
) -> None:
    engine = Gpio(enabled=True, mode=mode, thresholds=thresholds)
    engine.update(memoryview(bytes(element & 0xFF for element in elements)))
    assert gpio_levels(elements, thresholds, mode) == engine.levels


def test_the_first_of_two_equal_elements_is_the_largest() -> None:
    assert gpio_levels([5, 5, 1], [0, 0, 0, 0], GpioMode.MAX) == (True, False, False, False)
