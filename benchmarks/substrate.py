"""How fast tokens cross: words one by one and in runs, handshakes, and wake-ups of a select.

`python -m benchmarks.substrate` prints the table. Figures of one machine in one run are compared by ratio:
the last row sets single words against a Trio memory channel that passes one object per word.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.select import select
from aisrv.xcore.tokens import Control
from benchmarks.rows import Row

REPEATS: Final = 5
"""Each figure is the best of so many: the machine's other work only ever slows one down."""


Program = Callable[[Node], Awaitable[None]]


def _rate(program: Program, count: float) -> float:
    """Things per second of a program that starts cores which do `count` things."""

    async def timed() -> float:
        begin = time.perf_counter()
        async with open_node() as node:
            await program(node)
        return time.perf_counter() - begin

    return count / min(trio.run(timed) for _ in range(REPEATS))


def _single_words(count: int) -> float:
    async def source(c: ChanEnd) -> None:
        for word in range(count):
            await c.outuint(word)

    async def sink(c: ChanEnd) -> None:
        for _ in range(count):
            await c.inuint()

    async def program(node: Node) -> None:
        a, b = node.channel(*node.tiles)
        node.tiles[0].start(source, a)
        node.tiles[1].start(sink, b)

    return _rate(program, count)


def _runs(size: int, count: int) -> float:
    block = bytes(size)

    async def source(c: ChanEnd) -> None:
        for _ in range(count):
            await c.outwords(block)

    async def sink(c: ChanEnd) -> None:
        for _ in range(count):
            await c.inwords(size // 4)

    async def program(node: Node) -> None:
        a, b = node.channel(*node.tiles)
        node.tiles[0].start(source, a)
        node.tiles[1].start(sink, b)

    return _rate(program, count * size / 1e6)


def _normal_words(count: int) -> float:
    async def source(c: ChanEnd) -> None:
        for word in range(count):
            await chan_out_word(c, word)

    async def sink(c: ChanEnd) -> None:
        for _ in range(count):
            await chan_in_word(c)

    async def program(node: Node) -> None:
        a, b = node.channel(*node.tiles)
        node.tiles[0].start(source, a)
        node.tiles[1].start(sink, b)

    return _rate(program, count)


def _select_wakes(ends: int, count: int) -> float:
    """A server parks on all ends; a client asks on one after the other, so that each question wakes it."""

    async def client(channels: list[ChanEnd]) -> None:
        for number in range(count):
            c = channels[number % ends]
            await c.outct(Control.END)
            await c.chkct(Control.END)

    async def server(channels: list[ChanEnd]) -> None:
        for _ in range(count):
            c = await select(*channels)
            assert isinstance(c, ChanEnd)
            await c.chkct(Control.END)
            await c.outct(Control.END)

    async def program(node: Node) -> None:
        channels = [node.channel(*node.tiles) for _ in range(ends)]
        node.tiles[0].start(client, [channel.a for channel in channels])
        node.tiles[1].start(server, [channel.b for channel in channels])

    return _rate(program, count)


def _memory_channel(count: int) -> float:
    async def source(c: trio.MemorySendChannel[int]) -> None:
        for word in range(count):
            await c.send(word)

    async def sink(c: trio.MemoryReceiveChannel[int]) -> None:
        for _ in range(count):
            await c.receive()

    async def program(node: Node) -> None:
        out_end, in_end = trio.open_memory_channel[int](2)  # as many words as a channel end holds
        node.tiles[0].start(source, out_end)
        node.tiles[1].start(sink, in_end)

    return _rate(program, count)


def run() -> list[Row]:
    """Measure everything; takes about three seconds."""
    words = _single_words(40_000)
    objects = _memory_channel(10_000)
    return [
        Row("words one by one", words, "words/s"),
        Row("runs of 512 bytes", _runs(512, 8_000), "MB/s"),
        Row("runs of 64 KiB", _runs(65_536, 500), "MB/s"),
        Row("words on a normal channel", _normal_words(10_000), "words/s"),
        *(Row(f"select over {ends} ends", _select_wakes(ends, 8_000), "wake-ups/s") for ends in (1, 4, 16)),
        Row("words through a Trio memory channel", objects, "words/s"),
        Row("words one by one, against that", words / objects, "times"),
    ]


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<40}{row.value:>12,.{0 if row.value >= 1000 else 1}f} {row.unit}")
