"""Levels of the GPIO outputs by their rule: output tensor 0, four thresholds and a mode.

Source: "XCORE AI server: numbers and wire behavior", section Commands, GPIO.
`aisrv.engine.gpio` does the same in steps.
"""

from collections.abc import Sequence

from aisrv.protocol.commands import GPIO_COUNT, GpioMode


def gpio_levels(elements: Sequence[int], thresholds: Sequence[int], mode: GpioMode) -> tuple[bool, ...]:
    """Return the level of each output for the elements, as int8, of a whole tensor.

    In mode MAX only the first of the largest elements may raise its output.
    """
    above = [element > threshold for element, threshold in zip(elements, thresholds, strict=False)]
    if mode is GpioMode.MAX and elements:
        place = elements.index(max(elements))
        above = [level and number == place for number, level in enumerate(above)]
    return (*above, *(False,) * GPIO_COUNT)[:GPIO_COUNT]
