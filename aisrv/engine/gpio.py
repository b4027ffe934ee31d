"""GPIO outputs of an engine: four LEDs driven from its first output tensor.

Source: "XCORE AI server: numbers and wire behavior", section Commands, GPIO.
"""

from collections.abc import Callable, Generator
from typing import Final

from msgspec import Struct, field

from aisrv.protocol.commands import GPIO_COUNT, GpioMode

Levels = tuple[bool, ...]
Observer = Callable[[Levels], None]

LOWEST_THRESHOLD = -128

PIECE_BYTES: Final = 1 << 18
"""Bytes of a tensor that are looked at in one step."""

_ALL: Final = bytes(value & 0xFF for value in range(-128, 128))
"""Every int8, from the lowest."""

_Rule = Callable[[memoryview, list[int]], Generator[None, None, Levels]]


def _each_above(tensor: memoryview, thresholds: list[int]) -> Generator[None, None, Levels]:
    yield from ()
    return tuple(i < len(tensor) and tensor[i] > thresholds[i] for i in range(GPIO_COUNT))


def _largest_above(tensor: memoryview, thresholds: list[int]) -> Generator[None, None, Levels]:
    first = tensor[:GPIO_COUNT].tolist()
    if not first:
        return (False,) * GPIO_COUNT
    largest = max(first)
    no_larger = _ALL[: largest + 129]
    for at in range(GPIO_COUNT, len(tensor), PIECE_BYTES):
        if at > GPIO_COUNT:
            yield
        if tensor[at : at + PIECE_BYTES].tobytes().translate(None, no_larger):
            return (False,) * GPIO_COUNT
    place = first.index(largest)
    return tuple(i == place and largest > thresholds[i] for i in range(GPIO_COUNT))


_RULES: dict[GpioMode, _Rule] = {GpioMode.NONE: _each_above, GpioMode.MAX: _largest_above}


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

    def ignore(self, observer: Observer) -> None:
        """Call `observer` no more."""
        self._observers.remove(observer)

    def update(self, tensor: memoryview) -> None:
        """Drive the outputs from an output tensor, taken as int8; does nothing while disabled."""
        for _ in self.update_in_steps(tensor):
            pass

    def update_in_steps(self, tensor: memoryview) -> Generator[None, None, None]:
        """As `update`, in steps between which other tasks may run."""
        if not self.enabled:
            return
        levels = yield from _RULES[self.mode](tensor.cast("B").cast("b"), self.thresholds)
        if levels != self.levels:
            self.levels = levels
            for observer in self._observers:
                observer(levels)
