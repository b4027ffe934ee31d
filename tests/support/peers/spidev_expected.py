"""What `spidev_program.py` must report whichever way its calls go, with the slave of `spi_echo.py`.

Errors are those of Linux's driver with a controller that can do mode 0 to 3, 8 bits, and no more.
"""

from binascii import crc32
from typing import Any

from tests.support.benches.spi_echo import echo
from tests.support.peers.spidev_program import SIZES, pattern

EBADF, ENOENT, EFAULT, EINVAL, ENOTTY, EMSGSIZE = 9, 2, 14, 22, 25, 90
BUFSIZ = 4096
REFUSED = ["OSError", EINVAL]
TOO_LONG = ["OverflowError", "Argument list size exceeds 4096 bytes."]
EMPTY = ["TypeError", "Empty argument list."]


def digest(data: bytes) -> list[int]:
    return [len(data), crc32(data)]


def echoed(size: int) -> bytes:
    """What comes for a pattern, in transactions of 4096 bytes at most."""
    data = bytes(pattern(size))
    return b"".join(echo(data[start : start + BUFSIZ]) for start in range(0, size, BUFSIZ))


def _of_size(size: int) -> dict[str, Any]:
    whole = digest(echoed(size)) if size else EMPTY
    at_once = whole if size <= BUFSIZ else TOO_LONG
    return {
        f"xfer {size}": at_once,
        f"xfer2 {size}": at_once,
        f"xfer3 {size}": whole,
        f"readbytes {size}": digest(echo(bytes(min(max(size, 1), BUFSIZ)))),  # the package's own bounds
        f"writebytes {size}": at_once if at_once in (EMPTY, TOO_LONG) else None,
        f"writebytes2 {size}": None if size else EMPTY,
        f"writebytes2 buffer {size}": None,
    }


OPENING = {
    "other device": ["FileNotFoundError", ENOENT],
    "not open": ["OSError", EBADF],
    "opened again": list(echo(bytes(4))),
}

OF_SIZES = {name: value for size in SIZES for name, value in _of_size(size).items()}

OF_SETTINGS: dict[str, Any] = {
    "at first": [0, 8, 50_000_000],
    **{
        f"{name} {state}": REFUSED if state == "on" else None
        for name in ("cshigh", "no_cs", "lsbfirst", "loop", "threewire")
        for state in ("on", "off")
    },
    "bits 7": ["TypeError", "invalid bits_per_word (8 to 32)"],
    "bits 8": None,
    "bits 9": REFUSED,
    "bits 16": REFUSED,
    "bits 32": REFUSED,
    "speed 0": REFUSED,
    "speed 1": None,
    "speed 1000000": None,
    "speed 400000000": None,
    "transfer of 16 bits": REFUSED,
    "transfer of 8 bits": digest(echo(b"\1\2")),
    "transfer with speed and delay": digest(echo(b"\1\2\3")),
    **{f"mode {mode}": None for mode in range(4)},
    **{f"transfer in mode {mode}": [0, 0, 0] for mode in (1, 2, 3)},
    "at second opening": [3, 8, 50_000_000],
    "transfer in mode 0": list(echo(b"\1\2\3")),
}

EXPECTED = {**OPENING, **OF_SIZES, **OF_SETTINGS}
