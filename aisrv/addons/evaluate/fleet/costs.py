"""What a run on a cluster takes, computed from what one example, one task and one start take."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

SHARD_SECONDS: Final = 5.0
"""Work of a task: long beside the 2 ms of a scheduler, short beside a machine that is lost."""
LARGEST_SHARD: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Units:
    """What was measured, on one machine."""

    sample: int
    """Examples that were run, some of them more than once."""
    example_ms: float
    """CPU time of an example: reading, preparing, running, collecting."""
    run_ms: float
    """Time of the model's run alone, the median."""
    example_bytes: float
    """What is read of the store."""
    part_bytes: float
    """What an example takes in a part."""
    engine_start_ms: float
    """CPU time in which engine and reader start, which each task does."""
    tasks: int
    """Tasks that were submitted, with nothing to do."""
    task_ms: float
    """CPU time of scheduler and client for a task."""
    worker_start_s: float
    """Seconds in which a worker starts."""
    cpu: str
    """This machine's processor."""


@dataclass(frozen=True, slots=True)
class Machines:
    """The cluster that is asked about."""

    count: int
    cores: int
    """Of each, with as many workers."""
    gbit: float
    """Of each one's network."""
    store_gbit: float | None = None
    """What the store gives in all; None is as much as the machines can take."""

    @property
    def workers(self) -> int:
        """Workers of all machines."""
        return self.count * self.cores


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run takes, in seconds that pass."""

    examples: int
    shard: int
    """Examples of a task."""
    tasks: int
    task_s: float
    """Work of one task."""
    work_s: float
    scheduler_s: float
    network_s: float
    store_gbit: float
    """What the store must give for it."""
    read_bytes: float
    part_bytes: float
    start_s: float
    tail_s: float
    """The last task, while others have nothing to do."""
    total_s: float
    limit: str
    """What takes longest: work, scheduler, network or store."""


def cost_of(examples: int, units: Units, machines: Machines, shard: int | None = None) -> Cost:
    """Return what a run of so many examples takes, in shards of `shard` examples or as many as are good."""
    shard = shard or good_shard(examples, units, machines)
    tasks = -(-examples // shard)
    task_s = (min(shard, examples) * units.example_ms + units.engine_start_ms) / 1000
    work_s = (
        (examples * units.example_ms + tasks * units.engine_start_ms) / 1000 / min(machines.workers, tasks)
    )
    scheduler_s = tasks * units.task_ms / 1000
    wanted = machines.count * machines.gbit
    given = wanted if machines.store_gbit is None else min(machines.store_gbit, wanted)
    read_bytes = examples * units.example_bytes
    network_s = read_bytes * 8 / (given * 1e9)
    waits = {"work": work_s, "scheduler": scheduler_s, "store" if given < wanted else "network": network_s}
    limit = max(waits, key=lambda name: waits[name])
    return Cost(
        examples,
        shard,
        tasks,
        task_s,
        work_s,
        scheduler_s,
        network_s,
        given,
        read_bytes,
        examples * units.part_bytes,
        units.worker_start_s,
        task_s,
        units.worker_start_s + waits[limit] + task_s,
        limit,
    )


def good_shard(examples: int, units: Units, machines: Machines) -> int:
    """Return how many of the run's `examples` are SHARD_SECONDS of work, in two digits.

    There is work for every worker.
    """
    count = max(SHARD_SECONDS * 1000 / units.example_ms, 1)
    step = 10 ** max(math.floor(math.log10(count)) - 1, 0)
    rounded = round(count / step) * step
    return int(max(1, min(rounded, LARGEST_SHARD, math.ceil(examples / machines.workers))))


def as_json(units: Units, machines: Machines, cost: Cost) -> dict[str, Any]:
    """Return all that is known of a run, for JSON."""
    return {"measured": asdict(units), "machines": asdict(machines), "computed": asdict(cost)}


def describe(units: Units, machines: Machines, cost: Cost) -> str:
    """Return the same as text."""
    return "\n".join(_lines(units, machines, cost))


def _lines(units: Units, machines: Machines, cost: Cost) -> Iterator[str]:
    yield (
        f"{cost.examples:,} examples on {machines.count:,} machines of {machines.cores} cores "
        f"with {machines.gbit:g} Gbit/s each"
    )
    yield f"\nmeasured here{f', {units.cpu}' if units.cpu else ''}:"
    yield from _table(
        {
            "an example": f"{units.example_ms:.3g} ms of CPU time, the model's run {units.run_ms:.3g} "
            f"({units.sample:,} examples)",
            "to read": _bytes(units.example_bytes),
            "in a part": _bytes(units.part_bytes),
            "start of an engine": f"{units.engine_start_ms:.0f} ms of CPU time, for each task",
            "a task": f"{units.task_ms:.2g} ms of scheduler and client ({units.tasks:,} tasks)",
            "start of a worker": f"{units.worker_start_s:.1f} s",
        }
    )
    store = "which is all that the store gives" if cost.limit == "store" else "which the store must give"
    yield "\ncomputed:"
    yield from _table(
        {
            "tasks": f"{cost.tasks:,} of {cost.task_s:.1f} s, with --shard {cost.shard}",
            "work": f"{_seconds(cost.work_s)} on {machines.workers:,} cores",
            "scheduler": f"{_seconds(cost.scheduler_s)}, beside the work",
            "reading": f"{_seconds(cost.network_s)} for {_bytes(cost.read_bytes)} "
            f"at {cost.store_gbit:,.0f} Gbit/s, {store}",
            "parts": _bytes(cost.part_bytes),
            "start and tail": _seconds(cost.start_s + cost.tail_s),
            "in all": f"{_seconds(cost.total_s)}; the {cost.limit} is the limit",
            "a machine lost": f"{machines.cores} tasks are run again",
        }
    )
    yield (
        f"\nnot measured: the processors of those machines, and a scheduler with {machines.workers:,} "
        "workers; here it had 2"
    )


def _table(rows: dict[str, str]) -> Iterator[str]:
    width = max(map(len, rows))
    for name, text in rows.items():
        yield f"  {name:<{width}}  {text}"


def _seconds(value: float) -> str:
    if value < 100:
        return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 6000 else f"{value / 3600:.1f} h"


def _bytes(value: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} bytes"
