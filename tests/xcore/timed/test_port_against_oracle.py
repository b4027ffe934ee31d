"""Random programs of a port do in device time, to the tick, what a model says of operations then."""

from random import Random

import pytest
import trio
import trio.testing

from tests.support.amounts import some
from tests.support.oracles.substrate import port_timed, ports

BLOCKS = some(range(20), every_day=1)
"""Of 100 seeds; every day a part of one."""
EVERY_DAY = 25


@pytest.mark.in_full
@pytest.mark.parametrize("block", BLOCKS)
def test_random_programs(block: int) -> None:
    for seed in range(block * 100, block * 100 + (100 if len(BLOCKS) > 1 else EVERY_DAY)):
        program = port_timed.any_program(Random(seed))
        clock = trio.testing.MockClock(autojump_threshold=0)
        begun, outcome = trio.run(port_timed.run, program, clock=clock)
        assert outcome == ports.run(begun), (seed, begun)
