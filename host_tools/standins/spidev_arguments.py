"""Arguments of the `spidev` package, converted as its C code does, with the same errors.

Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

MAX_LIST: Final = 4096
"""Bytes that `xfer`, `xfer2`, `readbytes` and `writebytes` take."""

LONG_MAX: Final = 0x7FFFFFFFFFFFFFFF
_INT_MAX: Final = 0x7FFFFFFF


def c_int(value: Any) -> int:  # noqa: ANN401 - what a program passes
    """Return what Python's C interface makes of an argument that is an int."""
    number = index(value)
    if not -LONG_MAX - 1 <= number <= LONG_MAX:
        raise OverflowError("Python int too large to convert to C long")
    if number > _INT_MAX:
        raise OverflowError("signed integer is greater than maximum")
    if number < -_INT_MAX - 1:
        raise OverflowError("signed integer is less than minimum")
    return number


def bus_number(bus: int = -1, client: int = -1) -> int:
    """Return the arguments of the class; without a bus nothing is opened."""
    c_int(client)
    return c_int(bus)


def as_sequence(values: Iterable[Any]) -> list[Any] | tuple[Any, ...]:
    """Return a list or tuple as it is, anything else that can be iterated as a new list."""
    if isinstance(values, (list, tuple)):
        return values
    try:
        return list(values)
    except TypeError:
        raise TypeError("expected a sequence") from None


def bytes_of(values: bytes | list[Any] | tuple[Any, ...]) -> bytes:
    """Return the low byte of each integer."""
    if isinstance(values, bytes):
        return values
    if set(map(type, values)) == {int}:
        try:
            return bytes(values)
        except ValueError:  # not every one fits a byte
            pass
    low = bytearray()
    for value in values:
        if not isinstance(value, int):
            raise TypeError(f"Non-Int/Long value in arguments: {id(value) & 0xFFFFFFFF:x}.")
        low.append(value & 0xFF)
    return bytes(low)


def limited(values: Iterable[Any]) -> tuple[list[Any] | tuple[Any, ...], bytes]:
    """Return a sequence of 1 to MAX_LIST integers, and its bytes; the length counts in 16 bits."""
    sequence = as_sequence(values)
    size = len(sequence) & 0xFFFF
    if size == 0:
        raise TypeError("Empty argument list.")
    if size > MAX_LIST:
        raise OverflowError(f"Argument list size exceeds {MAX_LIST} bytes.")
    return sequence, bytes_of(sequence[:size])
