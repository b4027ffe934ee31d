"""The cost of isolation, for each kind of engine that is installed.

    python -m benchmarks.engines

Loading into a new process and into a waiting one, switching models, runs beside the interpreter
called directly in this process, and the memory of a process with its model. What is compared takes turns.
"""

import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio

from aisrv import digits
from aisrv.inference.engine import InferenceEngine
from aisrv.inference.errors import ModelError
from aisrv.inference.interpreter import INTERPRETERS
from aisrv.inference.process.inline import InlineInterpreter
from aisrv.inference.process.isolation import IsolatedInterpreter
from aisrv.inference.process.worker_pool import open_worker_pool
from aisrv.protocol.engine_kind import EngineKind
from aisrv.protocol.memory_map import ModelMemory
from benchmarks.rows import Row
from tests.support.models import networks

ARENA: Final = 448 << 10
LOADS: Final = 11
SETTLED: Final = 0.3
"""Seconds in which a waiting process has surely imported its interpreter."""
MILLISECOND: Final = 1e3
MICROSECOND: Final = 1e6


def _ignore(_text: str) -> None:
    """Print nothing."""


async def _seconds(action: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await action()
    return time.perf_counter() - start


async def _loads(kind: EngineKind, model: bytes) -> list[Row]:
    cold, spare = [], []
    for _ in range(LOADS):
        runner = IsolatedInterpreter(_ignore, kind)
        cold.append(await _seconds(lambda runner=runner: runner.load(model, ARENA)))  # type: ignore[misc]
        await runner.close()
    with open_worker_pool(kind) as workers:
        for _ in range(LOADS):
            await trio.sleep(SETTLED)
            runner = workers.isolated(_ignore, kind=kind)
            spare.append(await _seconds(lambda runner=runner: runner.load(model, ARENA)))  # type: ignore[misc]
            await runner.close()
    return [
        Row(f"{kind}: load into a new process", statistics.median(cold) * MILLISECOND, "ms"),
        Row(f"{kind}: the same, slowest of {LOADS}", max(cold) * MILLISECOND, "ms"),
        Row(f"{kind}: load into a spare", statistics.median(spare) * MILLISECOND, "ms"),
    ]


async def _switches(kind: EngineKind) -> list[Row]:
    """An engine with a model gets another one."""
    seconds = []
    with open_worker_pool(kind) as workers:
        engine = InferenceEngine(
            lambda log: workers.isolated(log, kind=kind), arena_bytes=ARENA, external_bytes=1 << 20
        )
        for number in range(LOADS):
            model = (digits.model_bytes(), digits.two_output_model_bytes())[number % 2]
            await trio.sleep(SETTLED)
            seconds.append(await _seconds(lambda model=model: engine.load_model(model, ModelMemory.EXT)))  # type: ignore[misc]
        await engine.unload_model()
    return [Row(f"{kind}: switch from model to model, with a spare", statistics.median(seconds) * 1e3, "ms")]


async def _runs(kind: EngineKind, name: str, model: bytes, times: int) -> list[Row]:
    isolated, direct = IsolatedInterpreter(_ignore, kind), InlineInterpreter(kind)
    await isolated.load(model, ARENA)
    await direct.load(model, ARENA)
    seconds: dict[str, list[float]] = {"isolated": [], "direct": []}
    for _ in range(times):
        seconds["isolated"].append(await _seconds(isolated.invoke))
        seconds["direct"].append(await _seconds(direct.invoke))
    resident = _resident(isolated.pid)
    await isolated.close()
    plain, apart = (statistics.median(seconds[each]) for each in ("direct", "isolated"))
    return [
        Row(f"{kind}, {name}: run in this process", plain * MILLISECOND, "ms"),
        Row(f"{kind}, {name}: more in a process of its own", (apart - plain) * MICROSECOND, "us"),
        Row(f"{kind}, {name}: memory of that process, private", resident / 1e6, "MB"),
    ]


def _resident(pid: int | None) -> float:
    """Bytes of memory that a process shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


async def _kind(kind: EngineKind) -> list[Row]:
    try:
        rows = await _loads(kind, digits.model_bytes())
    except ModelError as error:
        print(f"{kind}: {error}")
        return []
    rows += await _switches(kind)
    rows += await _runs(kind, "digits", digits.model_bytes(), 400)
    return rows + await _runs(kind, "50 MMAC", networks.mmac_network(), 40)


def run() -> list[Row]:
    """Measure; about 15 s for each kind."""
    return [row for name in INTERPRETERS for row in trio.run(_kind, EngineKind(name))]


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>8.2f} {row.unit}")
