"""How fast ports are: bit times a second, and a port operation against a channel word.

`python -m benchmarks.ports` prints the table. Time is virtual: what is measured is this machine's work.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

import trio
import trio.testing

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.ports.clock_edges import ClockEdges
from aisrv.xcore.ports.port import Port
from aisrv.xcore.ports.wire import Wire
from benchmarks.rows import Row

REPEATS: Final = 5
"""Each figure is the best of so many, taken in turns: the machine's other work only ever slows one down."""
WORDS: Final = 3000

Program = Callable[[Node], Awaitable[None]]


def _seconds(program: Program) -> float:
    async def timed() -> float:
        begin = time.perf_counter()
        async with open_node() as node:
            await program(node)
        return time.perf_counter() - begin

    return trio.run(timed, clock=trio.testing.MockClock(autojump_threshold=0))


def _port(node: Node, name: str, width: int, divide: int) -> Port:
    tile = node.tiles[0]
    clock = tile.allocate_clock_block()
    clock.set_divide(divide)
    port = tile.port(name)
    if width:
        port.start_buffered(width)
    else:
        port.enable()
    port.set_clock(clock)
    clock.start()
    return port


async def _send(port: Port, step: int) -> None:
    for word in range(WORDS):
        await port.out(word * step)


async def _receive(port: Port) -> None:
    for _ in range(WORDS):
        await port.in_()


async def _output(node: Node) -> None:
    node.tiles[0].start(_send, _port(node, "1A", 32, 2), 0x9E3779B1)


async def _input(node: Node) -> None:
    port = _port(node, "1A", 32, 2)
    node.tiles[0].start(_receive, port)


async def _across(node: Node) -> None:
    source, target = _port(node, "1A", 32, 2), node.tiles[0].port("1B")
    target.start_buffered(32)
    target.set_clock(source.clock)
    Wire(source.pins[0], target.pins[0])
    node.tiles[0].start(_send, source, 0x9E3779B1)
    node.tiles[0].start(_receive, target)


class _Oscillator:
    name = "an oscillator"


async def _from_pin(node: Node) -> None:
    tile = node.tiles[0]
    source, port, block = tile.port("1B"), tile.port("1A"), tile.allocate_clock_block()
    source.enable()
    source.pins[0].drive_clock(ClockEdges(0, 4), _Oscillator())
    block.set_source_port(source)
    port.start_buffered(32)
    port.set_clock(block)
    block.start()
    tile.start(_receive, port)


async def _unbuffered(node: Node) -> None:
    node.tiles[0].start(_send, _port(node, "1A", 0, 2), 1)


async def _channel(node: Node) -> None:
    async def source(c: ChanEnd) -> None:
        for word in range(WORDS):
            await chan_out_word(c, word)

    async def sink(c: ChanEnd) -> None:
        for _ in range(WORDS):
            await chan_in_word(c)

    a, b = node.channel(*node.tiles)
    node.tiles[0].start(source, a)
    node.tiles[1].start(sink, b)


def run() -> list[Row]:
    """Run all of them, in turns."""
    programs: dict[str, Program] = {
        "output": _output,
        "input": _input,
        "across a wire": _across,
        "input, clocked by a pin": _from_pin,
        "unbuffered": _unbuffered,
        "channel": _channel,
    }
    best = dict.fromkeys(programs, float("inf"))
    for _ in range(REPEATS):
        for name, program in programs.items():
            best[name] = min(best[name], _seconds(program))
    rows = [
        Row(f"words of 32 bits, 25 MHz, {name}", WORDS * 32 / best[name], "bit times/s")
        for name in ("output", "input", "across a wire", "input, clocked by a pin")
    ]
    rows.append(Row("unbuffered outputs of 1 bit", WORDS / best["unbuffered"], "operations/s"))
    rows.append(
        Row("a buffered output against a normal channel word", best["output"] / best["channel"], "times")
    )
    return rows


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>12.2f} {row.unit}")
