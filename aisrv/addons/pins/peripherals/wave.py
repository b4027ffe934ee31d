"""Waves of pins in tests: `assert_wave(pin, "0 1@50 0@80")`."""

import re
from typing import Final

from aisrv.xcore.ports.pin import HIGH, LOW, Pin, X, Z

_LEVELS: Final = {"0": LOW, "1": HIGH, "z": Z, "x": X}
_LETTERS: Final = {level: letter for letter, level in _LEVELS.items()}
_WAVE: Final = re.compile(r"[01zx]( [01zx]@\d{1,15})*")

_READER: Final = "assert_wave"


def keep_wave(pin: Pin) -> None:
    """Have a pin keep its changes from now on, for `assert_wave`; those of the past are kept for nobody."""
    pin.keep(_READER, pin.runtime.clock.ticks())


def wave_of(pin: Pin, since: int = 0) -> str:
    """Return the wave of a pin up to now: its level at tick `since`, and each change, as `1@50`."""
    changes = (f" {_LETTERS[level]}@{tick}" for tick, level in pin.changes(since))
    return _LETTERS[pin.level(since)] + "".join(changes)


def assert_wave(pin: Pin, wave: str, *, since: int = 0) -> None:
    """Assert that a pin had these levels up to now: 0, 1, z (nobody drives or pulls) or x (drivers disagree).

    A wave is the level at tick `since`, and level and tick of each change later than that, in ticks of 10 ns
    from the node's start: "0 1@50 0@80". Raises ValueError for a text that is none.
    """
    if not _WAVE.fullmatch(wave):
        raise ValueError(f'a wave is a level, and changes as level@tick, such as "0 1@50 0@80", not {wave!r}')
    seen = wave_of(pin, since)
    if seen != wave:
        raise AssertionError(f"pin {pin.name} has the wave\n  {seen}\nand not\n  {wave}")
