"""Random verbs: what one core does with an end, and what two do with a channel."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

Op = tuple[Any, ...]
"""A verb's name in `model_verbs.VERBS`, the number of its end or of the ends of a select, its arguments."""

SET: Final = 0x80
"""A command with this bit brings data; else it asks for as many bytes as its low five bits say."""
KEPT: Final = 21
"""Bytes that a server keeps of a SET."""


def answer_to(command: int, tensor: int, data: bytes = b"") -> tuple[int, bytes]:
    """What every server answers."""
    if command & SET:
        return (0x20 if (len(data) + tensor) % 3 == 0 else 0), b""
    if tensor % 5 == 4:
        return 0x10, b""
    return 0, bytes((tensor + 7 * i) & 0xFF for i in range(command & 0x1F))


GETS: Final = (0x08, 0x03, 0x1F, 0x0B)
SETS: Final = (0x88, 0x83, 0x8B)
SIZES: Final = (0, 1, 3, 4, 5, 8, 11, 20, 24, 31)


def word_of(dice: Random) -> int:
    """A word; 0 often, as it is a status."""
    return dice.choice((0, dice.getrandbits(32)))


def data_of(dice: Random) -> bytes:
    """Data of an array."""
    return dice.randbytes(dice.choice(SIZES))


def packet(dice: Random) -> bytes:
    """Data of a normal output."""
    return dice.randbytes(dice.choice((1, 4, 4, 7, 20)))


def _script(dice: Random) -> tuple[bytes | int, ...]:
    """What the master of a transaction outputs, and how many bytes it inputs."""
    sizes = (1, 4, 8, 13)
    return tuple(
        dice.choice((dice.randbytes(dice.choice(sizes)), dice.choice(sizes)))
        for _ in range(dice.randrange(5))
    )


def mirrored(script: Sequence[bytes | int]) -> tuple[bytes | int, ...]:
    """The other side's part of a transaction."""
    return tuple(len(part) if isinstance(part, bytes) else bytes(range(part)) for part in script)


IDS: Final = (
    (0, False),
    (0x12345678, False),
    (-1, False),
    (0x80000001, False),  # a timer's
    (0x80020002, False),  # another node's
    (0x80002002, False),  # beyond the ends of a tile
    (0x80001F02, True),
    (0x80011F02, True),
)
"""What else may be set as a destination, and whether it names an end, one that nobody has."""

Single = Callable[[Random, int, Sequence[int], int], Op]
"""Draws a verb on an end, with the ends of its core and the number of all ends."""

# Many a share stands for itself: most programs are to get somewhere.
SINGLES: Final[tuple[tuple[int, Single], ...]] = (
    (14, lambda dice, end, _mine, _count: ("outuint", end, word_of(dice))),
    (12, lambda dice, end, _mine, _count: ("outuchar", end, dice.getrandbits(8))),
    (20, lambda dice, end, _mine, _count: ("outct", end, dice.choice((1, 1, 1, 1, 2, 2, 3, 4, 0x20, 0)))),
    (4, lambda dice, end, _mine, _count: ("outbytes", end, dice.randbytes(dice.choice((0, 1, 4, 5, 9, 30))))),
    (2, lambda dice, end, _mine, _count: ("outwords", end, dice.randbytes(4 * dice.randrange(5)))),
    (10, lambda _dice, end, _mine, _count: ("inuint", end)),
    (8, lambda _dice, end, _mine, _count: ("inuchar", end)),
    (3, lambda dice, end, _mine, _count: ("inbytes", end, dice.choice((0, 1, 2, 3, 4, 5, 9, 12)))),
    (1, lambda dice, end, _mine, _count: ("inwords", end, dice.randrange(4))),
    (2, lambda _dice, end, _mine, _count: ("in_until_control", end, 1)),  # of more, runs decide
    (6, lambda _dice, end, _mine, _count: ("inct", end)),
    (10, lambda dice, end, _mine, _count: ("chkct", end, dice.choice((1, 1, 1, 3)))),
    (4, lambda _dice, end, _mine, _count: ("testct", end)),
    (3, lambda _dice, end, _mine, _count: ("testwct", end)),
    (3, lambda dice, end, _mine, count: ("setd", end, dice.randrange(count))),
    (1, lambda dice, end, _mine, _count: ("set_id", end, *dice.choice(IDS))),
    (2, lambda _dice, end, _mine, _count: ("free", end)),
    (2, lambda dice, end, _mine, count: ("allocate", end, dice.randrange(count))),
    (7, lambda dice, _end, mine, _count: ("select", some(dice, mine))),
    (3, lambda dice, _end, mine, _count: ("select_or_default", some(dice, mine))),
    (6, lambda dice, end, _mine, _count: ("chan_out", end, packet(dice))),
    (6, lambda dice, end, _mine, _count: ("chan_in", end, dice.choice((1, 4, 4, 7, 20)))),
    (2, lambda dice, end, _mine, _count: ("chan_out_two_words", end, word_of(dice), word_of(dice))),
    (2, lambda _dice, end, _mine, _count: ("chan_in_two_words", end)),
    (2, lambda dice, end, _mine, _count: ("send_array", end, data_of(dice))),
    (1, lambda _dice, end, _mine, _count: ("abandon_array", end)),
    (2, lambda dice, end, _mine, _count: ("receive_array", end, dice.choice((0, 4, 7, 12, 100)))),
    (2, lambda dice, end, _mine, _count: ("receive_array_piece", end, dice.choice((4, 8, 12)))),
    (2, lambda dice, end, _mine, _count: ("send_word_and_array", end, word_of(dice), data_of(dice))),
    (2, lambda dice, end, _mine, _count: ("receive_word_and_array", end, dice.choice((0, 4, 8, 100)), 100)),
    (1, lambda dice, end, _mine, _count: ("master", end, _script(dice))),
    (1, lambda dice, end, _mine, _count: ("slave", end, _script(dice))),
)
_WEIGHTS: Final = [weight for weight, _ in SINGLES]


def some(dice: Random, ends: Sequence[int]) -> tuple[int, ...]:
    """Some of them, in any order."""
    return tuple(dice.sample(ends, dice.randint(1, len(ends))))


def single(dice: Random, end: int, mine: Sequence[int], count: int) -> Op:
    """Draw one verb."""
    return dice.choices(SINGLES, _WEIGHTS)[0][1](dice, end, mine, count)


def request(dice: Random, end: int) -> Op:
    """Draw a client's command."""
    draw = dice.random()
    tensor = dice.randrange(10)
    if draw < 0.45:
        return ("get", end, dice.choice(GETS), tensor)
    if draw < 0.6:
        return ("begin_get", end, dice.choice(GETS), tensor, dice.choice((4, 8, 12, 32)))
    return ("set", end, dice.choice(SETS), tensor, data_of(dice))


def pair(dice: Random, end: int, other: int) -> tuple[list[Op], list[Op]]:
    """Draw what two ends do that match each other."""
    sends: list[Op]
    match dice.randrange(9):
        case 0:
            return [("chan_out_two_words", end, word_of(dice), word_of(dice))], [("chan_in_two_words", other)]
        case 1:
            return [("send_array", end, data_of(dice))], [("receive_array", other, dice.choice((4, 100)))]
        case 2:
            room = dice.choice((0, 8, 100))
            send = ("send_word_and_array", end, word_of(dice), data_of(dice))
            return [send], [("receive_word_and_array", other, room, 100)]
        case 3:
            script = _script(dice)
            return [("master", end, script)], [("slave", other, mirrored(script))]
        case 4:
            size = dice.choice((4, 16, 20))
            return [("send_array", end, dice.randbytes(16))], [("receive_array_piece", other, size)]
        case 5:
            data = dice.randbytes(dice.choice((1, 4, 9, 30)))
            sends = [("outbytes", end, data), ("outct", end, 1)]
            return sends, [("inbytes", other, len(data)), ("chkct", other, 1)]
        case 6:
            sends = [("outuint", end, 5), ("outct", end, 1)]
            return sends, [("testwct", other), ("inuint", other), ("inct", other)]
        case 7:
            return [("outuchar", end, 7), ("outct", end, 2)], [("inuchar", other)]
        case _:
            data = packet(dice)
            return [("chan_out", end, data)], [("chan_in", other, len(data))]
