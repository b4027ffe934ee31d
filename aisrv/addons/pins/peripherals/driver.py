"""Drivers of pins."""

from msgspec import Struct


class PinDriver(Struct, frozen=True, eq=False):
    """A driver of pins, by the name that messages give it."""

    name: str
    open_drain: bool = False
    """Whether it drives 0 alone, and leaves 1 to a pull-up."""
    is_weak: bool = False
    """Whether any other driver wins, as against a resistor."""
