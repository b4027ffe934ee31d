"""Readers of files as values, and mutants of what they read."""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WORDS: Final = (0, 1, 4, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)
TEXTS: Final = (
    *(b"[", b"]", b"[[", b"]]", b"=", b'"', b"'''", b"{", b"}", b",", b".", b"\n", b"#", b"\0", b"\xff"),
    *(b"-1", b"0", b"1", b"99999999999999999999", b"1e400", b"nan", b"inf", b"true", b"2026-01-01", b"0x"),
    *(b'"64K"', b'"-1M"', b'""', b"a.b.c = 1", b"<", b"/>", b"&amp;", b"&x;", b"\xc3\xa9", b"\r", b"\x1b[2J"),
)


@dataclass(frozen=True)
class Reader:
    """Something that reads files: what it takes whole, and the error by which it refuses the rest."""

    originals: Sequence[bytes]
    read: Callable[[bytes, Path], object]
    error: type[Exception]
    is_text: bool = False


def mutant(original: bytes, chance: random.Random, *, is_text: bool) -> bytes:
    """Return a file with up to eight places changed, cut, doubled or moved."""
    data = bytearray(original)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = chance.randrange(len(data) + 1)
        change = chance.randrange(8)
        if change == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif change == 1 and is_text:
            data[at:at] = chance.choice(TEXTS)
        elif change == 1 and len(data) >= 4:
            # Headers come first in most files.
            place = chance.randrange(min(len(data), chance.choice((64, 1024, len(data)))) // 4 + 1) * 4
            if place + 4 <= len(data):
                struct.pack_into(
                    "<I", data, place, chance.choice((*WORDS, len(data), chance.getrandbits(32)))
                )
        elif change == 2:
            del data[at:]
        elif change == 3:
            del data[at : at + chance.choice((1, 2, 4, 16, 256))]
        elif change == 4:
            data[at:at] = data[at : at + chance.choice((1, 4, 16, 256))]
        elif change == 5:
            data[at:at] = chance.randbytes(chance.choice((1, 3, 4, 64)))
        elif change == 6:
            other = chance.randrange(len(data) + 1)
            length = chance.choice((1, 4, 16, 64))
            data[at : at + length] = data[other : other + length]
        else:
            data[at : at + chance.choice((1, 4, 16))] = bytes((chance.choice((0, 0xFF, 0x20, 0x7F)),)) * 4
    return bytes(data)
