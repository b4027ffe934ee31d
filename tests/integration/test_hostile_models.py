"""A device that is given hostile models: a small share of those in `benchmarks.hostile_models`."""

import resource

import pytest
from msgspec.structs import replace

from aisrv.device.device import open_device
from tests.support.amounts import some
from tests.support.benches.engines import PACKAGES, isolated_as, needs
from tests.support.benches.hostile_trial import (
    LIMITS,
    Outcome,
    check_alive,
    check_result,
    resident_bytes,
    try_model,
)
from tests.support.models.hostile_models import KINDS, case

ROUNDS = 2
HASTY = replace(LIMITS, invoke_seconds=0.5)
GROWTH = 64 << 20
"""Bytes that this process may grow by."""


def test_a_case_is_made_again_by_its_number() -> None:
    for number in range(len(KINDS)):
        assert case(number) == case(number)
    assert case(0) != case(0, seed=1)


def largest_process(who: int) -> int:
    """Most bytes in RAM of this process, or of the largest that it has reaped, other tests' included."""
    return resource.getrusage(who).ru_maxrss * 1024


TFLITE = pytest.mark.long("its process is that of the others; models with flipped bits are run every day")


@pytest.mark.in_full
@pytest.mark.parametrize("first", some(range(0, ROUNDS * len(KINDS), len(KINDS)), every_day=1))
@pytest.mark.parametrize(
    "kind", [needs(kind, marks=[TFLITE] if kind in ("tflite", "litert") else []) for kind in PACKAGES]
)
async def test_no_model_takes_the_device_down(kind: str, first: int) -> None:
    outcomes = []
    peak = largest_process(resource.RUSAGE_CHILDREN)
    async with open_device(runner=isolated_as(kind, HASTY)) as device:
        await check_alive(device)
        before = resident_bytes()
        for number in range(first, first + len(KINDS)):
            hostile = case(number)
            verdict = await try_model(device, hostile)
            outcomes.append(verdict.outcome)
            if verdict.outcome is Outcome.RAN:
                arena = device.engines[0].inference.arena_bytes
                await check_result(verdict, hostile, isolated_as(kind), arena)
        await check_alive(device)
        assert resident_bytes() - before < GROWTH
    shared = largest_process(resource.RUSAGE_SELF)  # counts for a child until it becomes another program
    assert largest_process(resource.RUSAGE_CHILDREN) <= max(peak, shared, LIMITS.memory_bytes)
    assert {Outcome.REFUSED, Outcome.RAN} <= set(outcomes)
