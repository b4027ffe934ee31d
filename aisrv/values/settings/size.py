"""Sizes in bytes, as options and files of settings write them: 4096, 0x1000, 4K, 4M, 512 KiB."""

import re
from typing import Final, Self

KIB: Final = 1024
LONGEST_TEXT: Final = 20
"""Characters of a size."""

_SIZE: Final = re.compile(r"(?:0x([0-9a-f]+)|([0-9]+)) ?([KMG]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
_UNITS: Final = {"": 1, "K": KIB, "M": KIB**2, "G": KIB**3}


class Size(int):
    """A number of bytes."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a number with an optional unit; all units are binary, so that KB is KiB. Raises ValueError."""
        match = _SIZE.fullmatch(text) if len(text) <= LONGEST_TEXT else None
        if match is None:
            shown = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."
            raise ValueError(f"{shown!r} is not a size; write bytes as 4096 or 0x1000, or 4K, 4M or 512 KiB")
        number = int(match[1], 16) if match[1] else int(match[2])
        return cls(number * _UNITS[match[3].upper()])

    def short(self) -> str:
        """Write the number as `parse` reads it, with the largest unit of K and M that divides it: 448K."""
        for unit in ("M", "K"):
            if self and self % _UNITS[unit] == 0:
                return f"{self // _UNITS[unit]}{unit}"
        return str(int(self))
