"""The programs of `ports` in device time: each operation takes a slot of its core; edges stay as they are."""

from dataclasses import replace
from random import Random

import trio

from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.node import open_node
from aisrv.xcore.ports.port import Port
from aisrv.xcore.tile import Tile
from aisrv.xcore.timed.classes import TIMED, timeline_of
from tests.support.oracles.substrate import port_substrate, ports
from tests.support.oracles.substrate.ports import END, Entry, Outcome, Program, Step

SLOT_CLOCKS = 5
"""Clocks of the core from one operation to the next where no more than five cores run."""
OF_TWO = frozenset(("out_part", "in_part", "mode"))
"""Operations that are two instructions, of which the model knows one tick."""


def any_program(random: Random) -> Program:
    """Draw a program."""
    program = ports.any_program(random)
    steps = [step for step in program.steps if step[1] not in OF_TWO]
    return replace(program, ahead=True, steps=steps)


async def run(program: Program) -> tuple[Program, Outcome]:
    """Run a program; return it with the ticks at which its operations began, and what came of it."""
    async with open_node(classes=TIMED) as node:
        tile = node.tiles[0]
        port = tile.port(program.port)
        log: list[Entry] = []
        begun: list[int] = []
        port_substrate.begin_stimuli(program, tile, port)
        await port_substrate.set_up(program, tile, port)
        tile.start(_core, program, tile, port, log, begun)
        await trio.sleep(END / TICKS_PER_SECOND)
        outcome = port_substrate.outcome_of(log, tile, port)
        node.stop()
    ended = [0, *(tick for tick, *_ in log)]
    steps: list[Step] = [
        (begin - end, name, argument)
        for begin, end, (_, name, argument) in zip(begun, ended, program.steps, strict=False)
    ]
    return replace(program, steps=steps), outcome


async def _core(program: Program, tile: Tile, port: Port, log: list[Entry], begun: list[int]) -> None:
    timeline = timeline_of(tile.runtime)
    assert timeline is not None
    timer = tile.allocate_timer()
    for wait, name, argument in program.steps:
        if wait:
            await timer.wait_after(timeline.tick_of(timeline.now()) + wait - 1)
        before = timeline.now()
        begun.append(timeline.tick_of(before + SLOT_CLOCKS))
        result = await port_substrate.perform(port, name, argument)
        after = timeline.now()
        if after == before:  # it was none of the port's
            begun[-1] = timeline.tick_of(before)
        log.append((timeline.tick_of(after), name, result))
