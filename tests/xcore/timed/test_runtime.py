"""Programs in device time: the answers that they have without it, and the same with a tracer."""

from collections.abc import Callable
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
import trio
import trio.testing

from aisrv.xcore.node import open_node
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.timed.classes import TIMED, timeline_of
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.amounts import amount
from tests.support.benches.simulation import EndTrace
from tests.support.oracles.substrate import substrate
from tests.support.oracles.substrate.programs import (
    Program,
    contended_program,
    matching_program,
    served_program,
)


def _run(program: Program, seed: int, classes: ResourceClasses, tracer: Tracer | None = None) -> Any:
    """How a program ended, and at which time; Trio chooses the same each time."""

    async def run() -> Any:
        outcome, report, _ = await substrate.freely(program, Random(seed), tracer=tracer, classes=classes)
        return outcome, report, trio.current_time()

    with patch("trio._core._run._r", Random(seed)):
        return trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.in_full
def test_verbs_that_match_have_the_same_outcome_with_and_without() -> None:
    for seed in range(amount(1_000, every_day=40)):
        program = matching_program(Random(seed))
        assert _run(program, seed, TIMED)[0] == _run(program, seed, PLAIN)[0], seed


@pytest.mark.in_full
@pytest.mark.parametrize("draw", [matching_program, contended_program, served_program])
def test_a_tracer_changes_neither_answers_nor_ticks(draw: Callable[[Random], Program]) -> None:
    for seed in range(amount(1_000, every_day=20)):
        program = draw(Random(seed))
        assert _run(program, seed, TIMED, EndTrace()) == _run(program, seed, TIMED), seed


def test_a_core_that_a_trap_halted_takes_its_slots_on() -> None:
    async def run() -> list[int]:
        running: list[int] = []
        async with open_node(classes=TIMED, on_trap="halt") as node:
            timeline = timeline_of(node.runtime)
            assert timeline is not None

            async def trap() -> None:
                raise Trap(TrapKind.ECALL, "of a test")

            async def end() -> None:
                pass

            for job in (trap, end, trap):
                node.tiles[1].start(job)
            running.append(timeline.running[1])
            await trio.sleep(1)
            running.append(timeline.running[1])
        return running

    assert trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0)) == [3, 2]


def test_a_node_stops_though_cores_have_turns_to_come() -> None:
    async def run() -> float:
        async with open_node(classes=TIMED) as node:
            a, b = node.channel(*node.tiles)

            async def output() -> None:
                while True:
                    await a.outwords(bytes(512))

            async def take() -> None:
                while True:
                    await b.inwords(128)

            node.tiles[0].start(output)
            node.tiles[1].start(take)
            await trio.sleep(1e-3)
            node.stop()
        return trio.current_time()

    ended = trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert 1e-3 <= ended < 1.02e-3  # who was woken has its turn, at most 1,000 ticks ahead
