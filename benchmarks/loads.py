"""1,000 loads of real models, good and bad, with and without a worker pool: what they leave behind.

python -m benchmarks.loads
"""

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from aisrv import digits
from aisrv.inference.errors import InferenceError
from aisrv.inference.process.isolation import Limits
from aisrv.inference.process.worker_pool import open_worker_pool
from aisrv.protocol.engine_kind import EngineKind
from benchmarks.rows import Row
from tests.support.models import networks
from tests.support.models.endless import endless_network

LOADS: Final = 1000
KINDS: Final = (EngineKind("tflite"), EngineKind("tflm"))
LIMITS: Final = Limits(invoke_seconds=0.05)


def _models() -> Iterator[tuple[EngineKind, bytes]]:
    """Of each round, one model runs, one is cut, one has no kernel, one never ends, one lacks arena."""
    models = (
        digits.model_bytes(),
        digits.model_bytes()[:3000],
        networks.custom_operator_network(),
        endless_network(),
        networks.two_input_add_network(),
    )
    return itertools.cycle(itertools.product(KINDS, models))


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _children() -> int:
    return len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def _mappings() -> int:
    """Mappings of files in memory: those of tensors whose views are gone must be gone, too."""
    return Path("/proc/self/maps").read_text().count("memfd:")


async def _load_all() -> list[Row]:
    before = _descriptors(), _children(), _mappings()
    failed = 0
    start = time.perf_counter()
    with open_worker_pool(*KINDS, limits=LIMITS) as workers:
        for number, (kind, model) in zip(range(LOADS), _models(), strict=False):
            runner = workers.isolated(lambda _text: None, kind=kind)
            failed += 1
            with suppress(InferenceError), trio.move_on_after(0.001 if number % 49 == 48 else 60):
                await runner.load(model, 100 if number % 7 == 6 else 1 << 18)
                await runner.invoke()
                failed -= 1
            await runner.close()
    seconds = time.perf_counter() - start
    del runner
    after = _descriptors(), _children(), _mappings()
    more = [now - then for now, then in zip(after, before, strict=True)]
    return [
        Row("loads", LOADS, ""),
        Row("of which failed, ran too long, or were cancelled", failed, ""),
        Row("one load, run and close, with its spare's start", seconds / LOADS * 1e3, "ms"),
        Row("descriptors left behind", more[0], ""),
        Row("processes left behind", more[1], ""),
        Row("mappings left behind", more[2], ""),
    ]


def run() -> list[Row]:
    """Load 1,000 times; about 2 minutes."""
    return trio.run(_load_all)


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>8.2f} {row.unit}")
