"""Endless models: a loop that never ends is stopped, and the engine goes on."""

import math
import signal
import time

import pytest
import trio

from aisrv.inference.engine import InferenceEngine
from aisrv.inference.errors import InvokeError
from aisrv.inference.process.isolation import Limits, isolated
from aisrv.protocol.engine_kind import EngineKind
from aisrv.protocol.memory_map import ModelMemory
from tests.support.models.endless import LIMIT, endless_network

SECONDS = 0.3


@pytest.mark.parametrize("kind", ["tflite", "tflm"])
async def test_an_endless_loop_is_stopped_and_the_model_stays(kind: str) -> None:
    engine = InferenceEngine(
        lambda log: isolated(log, kind=EngineKind(kind), limits=Limits(invoke_seconds=SECONDS)),
        arena_bytes=1 << 18,
        external_bytes=1 << 18,
    )
    last = LIMIT.to_bytes(4, "little")
    await engine.load_model(endless_network(), ModelMemory.EXT)
    engine.input(0)[:] = last
    await engine.invoke()
    assert bytes(engine.output(0)) == last

    engine.input(0)[:] = bytes(4)
    start = time.perf_counter()
    with pytest.raises(
        InvokeError, match=r"^running the model: the interpreter took more than 0\.3 s and was stopped$"
    ):
        await engine.invoke()
    assert time.perf_counter() - start >= SECONDS

    engine.input(0)[:] = last
    await engine.invoke()
    assert bytes(engine.output(0)) == last
    await engine.unload_model()


async def test_a_parent_that_ignores_and_blocks_alarms_is_no_hindrance() -> None:
    handler = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    try:
        runner = isolated(lambda _text: None, limits=Limits(invoke_seconds=SECONDS))
        await runner.load(endless_network(), 1 << 18)
        with trio.fail_after(60), pytest.raises(InvokeError, match="was stopped"):
            await runner.invoke()
        await runner.close()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        signal.signal(signal.SIGALRM, handler)


async def test_infinity_is_no_limit() -> None:
    runner = isolated(lambda _text: None, limits=Limits(invoke_seconds=math.inf))
    await runner.load(endless_network(), 1 << 18)
    runner.input(0)[:] = LIMIT.to_bytes(4, "little")
    await runner.invoke()
    await runner.close()
