"""GPIO outputs of an engine: four LEDs driven from its first output tensor.

Source: "XCORE AI server: numbers and wire behavior", section Commands, GPIO.
"""

from collections.abc import Callable

from msgspec import Struct, field

from aisrv.protocol.commands import GPIO_COUNT, GpioMode

Levels = tuple[bool, ...]
Observer = Callable[[Levels], None]

LOWEST_THRESHOLD = -128


def _each_above(tensor: memoryview, thresholds: list[int]) -> Levels:
    return tuple(i < len(tensor) and tensor[i] > thresholds[i] for i in range(GPIO_COUNT))


def _largest_above(tensor: memoryview, thresholds: list[int]) -> Levels:
    if not len(tensor):
        return (False,) * GPIO_COUNT
    largest = max(range(len(tensor)), key=tensor.__getitem__)
    return tuple(i == largest and tensor[i] > thresholds[i] for i in range(GPIO_COUNT))


_RULES: dict[GpioMode, Callable[[memoryview, list[int]], Levels]] = {
    GpioMode.NONE: _each_above,
    GpioMode.MAX: _largest_above,
}


class Gpio(Struct):
    """The outputs with their settings. Read `levels`, or `observe` every change."""

    enabled: bool = False
    mode: GpioMode = GpioMode.NONE
    thresholds: list[int] = field(default_factory=lambda: [LOWEST_THRESHOLD] * GPIO_COUNT)
    levels: Levels = (False,) * GPIO_COUNT
    _observers: list[Observer] = field(default_factory=list)

    def observe(self, observer: Observer) -> None:
        """Call `observer` with the four levels whenever one of them has changed."""
        self._observers.append(observer)

    def update(self, tensor: memoryview) -> None:
        """Drive the outputs from an output tensor, taken as int8; does nothing while disabled."""
        if not self.enabled:
            return
        levels = _RULES[self.mode](tensor.cast("B").cast("b"), self.thresholds)
        if levels != self.levels:
            self.levels = levels
            for observer in self._observers:
                observer(levels)
