"""Random programs do on the substrate what a model of single tokens says, with a tracer and without."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from aisrv.xcore.trace import Tracer
from tests.support.amounts import in_ci, some
from tests.support.oracles.substrate import execution, substrate
from tests.support.oracles.substrate.execution import Outcome
from tests.support.oracles.substrate.programs import (
    Program,
    any_program,
    contended_program,
    matching_program,
    served_program,
    stream_program,
)

Draw = Callable[[Random], Program]
BLOCKS = some(range(20), every_day=1)
"""Of seeds."""


@pytest.mark.in_full
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(
    ("draw", "count"), [(any_program, in_ci(600, every_day=300)), (stream_program, in_ci(150, every_day=75))]
)
async def test_verbs_one_after_another(draw: Draw, count: int, block: int) -> None:
    """A turn begins or cancels one verb, and every other goes on as far as it can."""
    for seed in range(block * count, (block + 1) * count):
        program = draw(Random(seed))
        expected, is_vague = execution.lockstep(program)
        if not is_vague:
            tracer = None if seed % 4 else Tracer()
            assert await substrate.lockstep(program, tracer=tracer) == expected, (seed, program)


@pytest.mark.in_full
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("draw", [matching_program, contended_program, served_program])
async def test_cores_side_by_side(draw: Draw, block: int) -> None:
    """It ends in one of the ways in which it may, and a deadlock names the cores that wait."""
    at_once = 0
    for seed in range(block * 60, (block + 1) * 60):
        program = draw(Random(seed))
        if (expected := execution.outcomes(program)) is None:
            continue
        tracer = None if seed % 3 else Tracer()
        outcome, report, answered = await substrate.freely(program, Random(seed), tracer=tracer)
        at_once += answered
        assert _without_claims(outcome) in set(map(_without_claims, expected)), (seed, program)
        waiting = {f"c{core}" for core, status in enumerate(outcome.statuses) if status == "busy"}
        lines = [line for line in report.splitlines()[1:] if "halted by" not in line]
        assert {line.split("(")[1].split(")")[0] for line in lines} == waiting, (seed, report)
    assert (at_once > 0) == (draw is served_program)


def _without_claims(outcome: Outcome) -> Outcome:
    """A node that ends has given claims up."""
    return replace(outcome, ends=tuple((tokens, source, route) for tokens, source, _, route in outcome.ends))
