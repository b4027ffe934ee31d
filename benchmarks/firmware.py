"""Words a second of tasks in C, beside the same tasks in Python, turn by turn."""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

import trio
from trio.testing import MockClock

from aisrv.addons.firmware.c_tile import CTile
from aisrv.addons.firmware.compiler import Program, Unit, build
from aisrv.addons.firmware.tile_process import TileProcess
from aisrv.addons.firmware.whole_program import on_one_processor
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.node import open_node
from benchmarks.rows import Row

ROUNDS = 5
WORDS = 4000
PAIRS = (1, 8)
SOURCE = """
#include <xcore/channel.h>
void ping(chanend_t c, unsigned n) { while (n--) { chanend_out_word(c, n); chanend_in_word(c); } }
void pong(chanend_t c, unsigned n) { while (n--) chanend_out_word(c, chanend_in_word(c)); }
void gives(chanend_t c, unsigned n) { while (n--) chan_out_word(c, n); }
void takes(chanend_t c, unsigned n) { while (n--) chan_in_word(c); }
void sends(chanend_t c, unsigned n) { while (n--) chanend_out_word(c, n); chanend_out_end_token(c); }
void drains(chanend_t c, unsigned n) { while (n--) chanend_in_word(c); chanend_check_end_token(c); }
"""
FUNCTIONS = ("ping", "pong", "gives", "takes", "sends", "drains")


async def ping(c: ChanEnd, count: int) -> None:
    for number in range(count):
        await c.outuint(number)
        await c.inuint()


async def pong(c: ChanEnd, count: int) -> None:
    for _ in range(count):
        await c.outuint(await c.inuint())


async def gives(c: ChanEnd, count: int) -> None:
    for number in range(count):
        await chan_out_word(c, number)


async def takes(c: ChanEnd, count: int) -> None:
    for _ in range(count):
        await chan_in_word(c)


async def sends(c: ChanEnd, count: int) -> None:
    for number in range(count):
        await c.outuint(number)
    await c.outct(1)


async def drains(c: ChanEnd, count: int) -> None:
    for _ in range(count):
        await c.inuint()
    await c.chkct(1)


KINDS = {"ping-pong": (ping, pong), "chan_out_word": (gives, takes), "stream": (sends, drains)}


def rate(program: Path, kind: str, pairs: int, first_in_c: bool, second_in_c: bool) -> float:
    """Words a second from tile 0 to tile 1, of all pairs."""
    functions = KINDS[kind]
    count = WORDS // pairs

    async def run() -> float:
        async with open_node() as node:
            tiles = {}
            for number, in_c in enumerate((first_in_c, second_in_c)):
                if in_c:
                    tiles[number] = CTile(node.tiles[number], TileProcess(program, number))
            begun = perf_counter()
            for pair in range(pairs):
                for number, end in enumerate(node.channel(*node.tiles)):
                    function = functions[number]
                    if number in tiles:
                        place = FUNCTIONS.index(function.__name__)
                        node.tiles[number].start(
                            tiles[number].run, pair, place, function.__name__, (end, count)
                        )
                    else:
                        node.tiles[number].start(function, end, count)
        took = perf_counter() - begun
        for tile in tiles.values():
            tile.process.close()
        return count * pairs / took

    return trio.run(run, clock=MockClock(autojump_threshold=0))


def medians(turns: Sequence[Callable[[], float]]) -> list[float]:
    found = [[turn() for turn in turns] for _ in range(ROUNDS)]
    return [statistics.median(values) for values in zip(*found, strict=True)]


def run() -> Iterator[Row]:
    """Measure everything, on one processor, as programs run; takes about a minute."""
    with tempfile.TemporaryDirectory() as folder, on_one_processor():
        source = Path(folder) / "words.c"
        source.write_text(SOURCE)
        program = build(Program((Unit((source,)),), FUNCTIONS))
        for pairs in PAIRS:
            for kind in KINDS:
                turn = partial(rate, program, kind, pairs)
                turns = [partial(turn, False, False), partial(turn, True, False), partial(turn, True, True)]
                python, mixed, both = medians(turns)
                name = f"{kind}, {pairs} pair{'s' * (pairs > 1)}"
                yield Row(f"{name}: Python to Python", python, "words/s")
                yield Row(f"{name}: C to Python, of that", mixed / python, "times")
                yield Row(f"{name}: C to C, of that", both / python, "times")
