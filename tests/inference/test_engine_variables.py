"""Variable tensors: they keep their values from run to run, and a reset gives them their first ones."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aisrv import digits
from aisrv.inference.engine import InferenceEngine, Runner, RunnerFactory
from aisrv.inference.process.inline import InlineInterpreter, inline
from aisrv.inference.process.isolation import IsolatedInterpreter, isolated
from aisrv.protocol.memory_map import ModelMemory
from tests.support import networks

ONE = networks.floats(1, 2, 3, 4)
SUMS = [ONE, networks.floats(2, 4, 6, 8), networks.floats(3, 6, 9, 12)]
FACTORIES = pytest.mark.parametrize("factory", [isolated, inline])


@asynccontextmanager
async def engine_with(factory: RunnerFactory, model: bytes) -> AsyncIterator[InferenceEngine]:
    engine = InferenceEngine(factory, arena_bytes=1 << 17, external_bytes=1 << 17)
    await engine.load_model(model, ModelMemory.EXT)
    try:
        yield engine
    finally:
        await engine.unload_model()


async def run(engine: InferenceEngine, data: bytes) -> bytes:
    engine.input(0)[:] = data
    await engine.invoke()
    return bytes(engine.output(0))


@FACTORIES
async def test_reset_leaves_inputs_and_outputs(factory: RunnerFactory) -> None:
    async with engine_with(factory, networks.summing_network()) as engine:
        await run(engine, ONE)
        await run(engine, ONE)
        await engine.reset_variables()
        assert (bytes(engine.input(0)), bytes(engine.output(0))) == (ONE, SUMS[1])
        await engine.invoke()
        assert bytes(engine.output(0)) == ONE


async def test_reset_without_variables_keeps_the_process() -> None:
    runners: list[IsolatedInterpreter] = []

    def factory(log: object) -> Runner:
        runners.append(IsolatedInterpreter(lambda _: None))
        return runners[-1]

    async with engine_with(factory, digits.model_bytes()) as engine:
        before = runners[0].pid
        await engine.reset_variables()
        assert runners[0].pid == before is not None


async def test_reset_without_a_model_does_nothing() -> None:
    engine = InferenceEngine(isolated, arena_bytes=1024, external_bytes=0)
    await engine.reset_variables()
    assert engine.model is None
    runner = InlineInterpreter()
    await runner.reset_variables()
    assert runner.layout.nbytes == 0
