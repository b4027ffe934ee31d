"""Hostile models through a device, by engine: how many are refused, fail, kill a worker, time out, or run.

    python -m benchmarks.hostile_models                      1,020 cases for each installed engine
    python -m benchmarks.hostile_models --cases 5000 --seed 1 tflm

A case that a device must not survive so (another status, another result than the interpreter's own, a device
that no longer works) is printed with its number and ends the run with exit code 1.
"""

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import trio

from aisrv import digits
from aisrv.device.device import open_device
from aisrv.inference.process.isolation import Limits
from benchmarks.rows import Row
from tests.support.benches.engines import INSTALLED, PACKAGES, isolated_as
from tests.support.benches.hostile_trial import (
    LIMITS,
    Outcome,
    check_alive,
    check_result,
    resident_bytes,
    try_model,
)
from tests.support.models.hostile_models import Case, case

CASES: Final = 1020
ALIVE_EVERY: Final = 50
MIB: Final = 1 << 20


@dataclass(slots=True)
class Tally:
    """The outcomes of an engine's cases."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    """Of killed workers and of those that took too long."""
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0
    """Seconds of the longest case."""
    growth: int = 0
    """Bytes by which this process grew from the first check of the device to the last."""


async def tally(
    kind: str,
    cases: int,
    seed: int,
    limits: Limits = LIMITS,
    make: Callable[[int, int], Case] = case,
    sound: bytes = digits.model_bytes(),
) -> Tally:
    """Run all cases on one device, and check now and then that it still classifies digits with `sound`."""
    found = Tally()
    async with open_device(runner=isolated_as(kind, limits)) as device:
        await check_alive(device, sound)
        before = resident_bytes()
        for number in range(cases):
            hostile = make(number, seed)
            start = time.perf_counter()
            try:
                verdict = await try_model(device, hostile)
                found.slowest = max(found.slowest, time.perf_counter() - start)
                if verdict.outcome is Outcome.RAN:
                    arena = device.engines[0].inference.arena_bytes
                    await check_result(verdict, hostile, isolated_as(kind), arena)
                if number % ALIVE_EVERY == 0:
                    await check_alive(device, sound)
            except AssertionError as fault:
                found.faults.append(_describe(hostile, str(fault)))
                continue
            found.outcomes[verdict.outcome] += 1
            if verdict.outcome in (Outcome.KILLED, Outcome.TIMED_OUT):
                found.reasons.append(_describe(hostile, verdict.reason))
        await check_alive(device, sound)
        found.growth = resident_bytes() - before
    return found


def _describe(hostile: Case, reason: str) -> str:
    return f"{hostile.number:5} {hostile.kind:<14} {' '.join(reason.split())[:120]}"


def _rows(kind: str, found: Tally) -> Iterator[Row]:
    for outcome in Outcome:
        yield Row(f"{kind}: {outcome.value}", found.outcomes[outcome], "cases")
    yield Row(f"{kind}: faults of the device", len(found.faults), "cases")
    yield Row(f"{kind}: slowest case", found.slowest, "s")
    yield Row(f"{kind}: growth of the device's process", found.growth / MIB, "MiB")
    # Children of all engines so far: the kernel keeps the largest.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield Row(f"{kind}: largest worker so far", peak, "MiB")


def run() -> Iterator[Row]:
    """Return the counts of each installed engine."""
    for kind in INSTALLED:
        yield from _rows(kind, trio.run(tally, kind, CASES, 0))


def main() -> None:
    """Print counts, and the cases that killed a worker or took too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "kinds", nargs="*", help=f"engines, by default {' '.join(INSTALLED)}", default=INSTALLED
    )
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    unknown = set(options.kinds) - set(PACKAGES)
    if unknown:
        parser.error(f"no engine {', '.join(sorted(unknown))}: there are {', '.join(PACKAGES)}")
    faults = 0
    for kind in options.kinds:
        found = trio.run(tally, kind, options.cases, options.seed)
        print(*found.reasons, sep="\n")
        for fault in found.faults:
            print(f"FAULT {fault}")
        for row in _rows(kind, found):
            print(f"{row.name:<45} {row.value:>10.2f} {row.unit}")
        faults += len(found.faults)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
