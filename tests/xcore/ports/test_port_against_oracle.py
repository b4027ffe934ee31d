"""Random programs of a port do on the substrate, to the tick, what a model that goes edge by edge says."""

from random import Random

import pytest
import trio.testing

from tests.support.amounts import in_ci, some
from tests.support.oracles.substrate import port_substrate, ports

BLOCKS = some(range(200), every_day=1)
"""Of 500 seeds; every day a part of one."""
EVERY_DAY = in_ci(60, every_day=30)


@pytest.mark.in_full
@pytest.mark.parametrize("block", BLOCKS)
def test_random_programs(block: int) -> None:
    seeds = range(block * 500, block * 500 + (500 if len(BLOCKS) > 1 else EVERY_DAY))
    for seed in seeds:
        program = ports.any_program(Random(seed))
        clock = trio.testing.MockClock(autojump_threshold=0)
        outcome = trio.run(port_substrate.run, program, clock=clock)
        assert outcome == ports.run(program), (seed, program)
