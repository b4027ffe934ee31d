"""Variable tensors: they keep their values from run to run, and a reset gives them their first ones."""

import pytest

from aisrv import digits
from aisrv.inference.engine import InferenceEngine, Runner, RunnerFactory
from aisrv.inference.process.inline import InlineInterpreter, inline
from aisrv.inference.process.isolation import IsolatedInterpreter, isolated
from aisrv.protocol.memory_map import ModelMemory
from tests.support.benches.engines import open_engine, run_once
from tests.support.models import networks

ONE = networks.floats(1, 2, 3, 4)


@pytest.mark.parametrize("factory", [isolated, inline])
async def test_reset_leaves_inputs_and_outputs(factory: RunnerFactory) -> None:
    async with open_engine(factory) as engine:
        await engine.load_model(networks.summing_network(), ModelMemory.EXT)
        await run_once(engine, ONE)
        await run_once(engine, ONE)
        await engine.reset_variables()
        assert (bytes(engine.input(0)), bytes(engine.output(0))) == (ONE, networks.floats(2, 4, 6, 8))
        await engine.invoke()
        assert bytes(engine.output(0)) == ONE


async def test_reset_without_variables_keeps_the_process() -> None:
    runners: list[IsolatedInterpreter] = []

    def factory(log: object) -> Runner:
        runners.append(IsolatedInterpreter(lambda _: None))
        return runners[-1]

    async with open_engine(factory) as engine:
        await engine.load_model(digits.model_bytes(), ModelMemory.EXT)
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
