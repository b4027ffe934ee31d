"""The kernel's seccomp filters as a small machine: what a program answers to a system call.

After the kernel's "Linux Socket Filtering" and "Seccomp BPF", as far as libseccomp makes use of them.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

ALLOW: Final = 0x7FFF0000
KILL_PROCESS: Final = 0x80000000
KILL_THREAD: Final = 0
ERRNO: Final = 0x00050000
X86_64: Final = 0xC000003E

_LOAD, _AND, _JUMP, _RETURN = 0x20, 0x54, 0x05, 0x06
_CONDITIONS: Final[Mapping[int, Callable[[int, int], bool]]] = {
    0x15: lambda value, constant: value == constant,
    0x25: lambda value, constant: value > constant,
    0x35: lambda value, constant: value >= constant,
    0x45: lambda value, constant: value & constant != 0,
}


@cache
def _decode(program: bytes) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack("<HBBI", program))


def verdict(program: bytes, number: int, *arguments: int, architecture: int = X86_64) -> int:
    """What the filter answers to a system call with arguments of 64 bits, the missing ones 0."""
    words = [*arguments, *(6 - len(arguments)) * [0]]
    data = struct.pack("<iIQ6Q", number, architecture, 0, *(word & (1 << 64) - 1 for word in words))
    instructions = _decode(program)
    at = value = 0
    while True:
        code, met, unmet, constant = instructions[at]
        at += 1
        if code == _LOAD:
            (value,) = struct.unpack_from("<I", data, constant)
        elif code == _AND:
            value &= constant
        elif code == _JUMP:
            at += constant
        elif code == _RETURN:
            return int(constant)
        else:
            at += met if _CONDITIONS[code](value, constant) else unmet
