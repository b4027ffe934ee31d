"""Measurements of what one example, one task and one start take on this machine, for `aisrv fleet plan`."""

import asyncio
import logging
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import trio
from distributed import Client, LocalCluster, Security

from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.fleet.costs import Units
from aisrv.addons.evaluate.folder.part_format import PartFormat, PartRows
from aisrv.addons.evaluate.request import Loaded, Request
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.evaluate.running.local_run import LocalRun, LocalSettings

SAMPLE: Final = 200
"""Examples that are run first."""
LONG_ENOUGH: Final = 1.0
"""Seconds of CPU time from which a measurement counts."""
LARGEST_SAMPLE: Final = 200_000
TASKS: Final = 300
WORKERS: Final = 2


def measure(request: Request, loaded: Loaded, cpu: str) -> Units:
    """Measure all units, which takes some ten seconds; EvaluateError, OSError.

    `loaded` are the request's model and data, `cpu` is the name of this machine's processor.
    """
    start, _ = _run(request, loaded, min(2, len(loaded.data)))
    count = min(SAMPLE, len(loaded.data))
    while True:
        seconds, answers = _run(request, loaded, count)
        if seconds - start >= LONG_ENOUGH or count >= LARGEST_SAMPLE:
            break
        more = LONG_ENOUGH / max(seconds - start, LONG_ENOUGH / 100)
        count = min(math.ceil(1.2 * more * count), LARGEST_SAMPLE)
    task_ms, worker_start = asyncio.run(_task())
    return Units(
        count,
        max(seconds - start, 1e-6) * 1000 / count,
        answers.host_times().percentile_ms(50) or 0.0,
        _example_bytes(loaded),
        _part_bytes(request, loaded, answers),
        start * 1000,
        TASKS,
        task_ms,
        worker_start,
        cpu,
    )


def _run(request: Request, loaded: Loaded, count: int) -> tuple[float, Answers]:
    """Run so many examples in one engine process; return the CPU time of all processes in seconds."""
    data = _repeated(loaded.data, count)
    answers = Answers(count, loaded.output_bytes, request.shard, files=bool(data.files))
    settings = LocalSettings(request.kind, loaded.file.data, 1, request.seconds)
    before = _cpu_seconds()
    trio.run(LocalRun(settings, data, loaded.preparation, answers, lambda _first, _end: None).run)
    return _cpu_seconds() - before, answers


def _repeated(data: DataSet, count: int) -> DataSet:
    """Return examples from all over a data set, as often as it takes to have so many."""
    order = np.linspace(0, len(data), min(count, len(data)), endpoint=False).astype(np.intp)
    order = np.resize(order, count)
    return replace(
        data,
        labels=np.zeros(count, np.int32),
        arrays=tuple(array[order] for array in data.arrays),
        files=[data.files[index] for index in order] if data.files else (),
        names=(),
        mapped=None,
    )


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it has started and that have ended."""
    import resource  # where the machine has it

    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _example_bytes(loaded: Loaded) -> float:
    """Return what is read of an example on average, of as many as are looked at."""
    data = loaded.data
    if not data.files:
        return float(sum(array[0].nbytes for array in data.arrays))
    sizes = [
        each.stat().st_size if isinstance(each, Path) else len(each)
        for each in _repeated(data, min(len(data), 10 * SAMPLE)).files
    ]
    return float(np.mean(sizes))


def _part_bytes(request: Request, loaded: Loaded, answers: Answers) -> float:
    count = min(len(loaded.data), len(answers), request.shard)  # examples that are there twice pack better
    part = Answers(count, loaded.output_bytes, request.shard, files=bool(loaded.data.files))
    part.take(0, answers, 0, count)
    form = PartFormat(loaded.outputs, request.task.task, bool(loaded.data.files))
    return len(form.to_bytes(PartRows(0, part, loaded.labels[:count]))) / len(part)


def nothing(_folder: str, _shard: int, _first: int, _end: int) -> dict[str, str]:
    """Do nothing, with the arguments and the result of a task."""
    return {"problem": "", "worker": ""}


async def _task() -> tuple[float, float]:
    """Return the CPU ms of scheduler and client for a task, and the seconds in which a worker starts.

    Both are in this process.
    """
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    begun = time.monotonic()
    async with (
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            memory_limit=0,
            preload=["aisrv.addons.evaluate.fleet.own_session"],
            asynchronous=True,
            security=Security.temporary(),  # other users of the machine have no business there
        ) as cluster,
        Client(cluster, asynchronous=True, set_as_default=False) as client,
    ):
        started = time.monotonic() - begun
        folder = "x" * 60
        await client.submit(nothing, folder, 0, 0, 0, pure=False)
        before = time.process_time()
        futures = [
            client.submit(nothing, folder, number, 0, 1000, key=("evaluate-plan", number), pure=False)
            for number in range(TASKS)
        ]
        for future in futures:
            await future
            future.release()
        return (time.process_time() - before) * 1000 / TASKS, started
