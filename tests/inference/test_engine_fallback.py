"""Models that an engine's interpreter has no code for: another one runs them, and the log says so."""

from typing import Final

import numpy as np
import pytest
from tflite import ActivationFunctionType, BuiltinOperator, TensorType

from aisrv import digits
from aisrv.inference.buffer_engine import create_engine
from aisrv.inference.engine import InferenceEngine, Runners
from aisrv.inference.errors import ModelError
from aisrv.inference.process.inline import inline
from aisrv.inference.process.isolation import isolated
from aisrv.model.errors import LoadResult
from aisrv.protocol.engine_kind import EngineKind
from aisrv.protocol.memory_map import ModelMemory
from tests.support.models import networks
from tests.support.models.one_operator import single, tensor
from tests.support.oracles.process_resources import child_processes

FLOATS: Final = TensorType.FLOAT32
SUM: Final = single(
    BuiltinOperator.ADD,
    [tensor("one", (1, 3), kind=FLOATS), tensor("two", (1, 3), kind=FLOATS)],
    [tensor("out", (1, 3), kind=FLOATS)],
    {"fused_activation_function": ActivationFunctionType.TANH},
)
"""The sum of two inputs of three floats, with an activation that kernels refuses and tflm leaves out."""

TFLM = EngineKind("tflm")
REFUSED = "loading the model: operator 0 (ADD): the activation TANH has no float32 kernel"


@pytest.fixture(autouse=True)
def _needs_tflm() -> None:
    pytest.importorskip("tflite_micro")


def engine_of(
    log: list[str], runners: Runners = inline, fallback: EngineKind | None = TFLM, arena_bytes: int = 1 << 16
) -> InferenceEngine:
    return create_engine(
        EngineKind("kernels"),
        runners,
        arena_bytes=arena_bytes,
        external_bytes=1 << 20,
        fallback=fallback,
        log=log.append,
    )


async def load(engine: InferenceEngine, model: bytes) -> None:
    await engine.load_model(model, ModelMemory.EXT)


@pytest.mark.parametrize("runners", [inline, isolated])
async def test_tflm_runs_what_kernels_has_no_code_for(runners: Runners) -> None:
    log: list[str] = []
    engine = engine_of(log, runners)
    await load(engine, SUM)
    assert engine.fallback == TFLM
    assert f"{REFUSED}; tflm runs it\n" in log
    for number in (0, 1):
        engine.input(number)[:] = np.full(3, number + 1.5, np.float32).tobytes()
    await engine.invoke()
    assert bytes(engine.output(0)) == np.full(3, 4, np.float32).tobytes()
    await engine.unload_model()
    assert engine.fallback is None


async def test_kernels_runs_what_it_has_code_for() -> None:
    log: list[str] = []
    engine = engine_of(log)
    await load(engine, SUM)
    await load(engine, digits.model_bytes())
    assert engine.fallback is None
    assert len([line for line in log if "runs it" in line]) == 1
    await engine.unload_model()


async def test_a_model_that_no_one_runs_is_refused_with_both_reasons() -> None:
    engine = engine_of([])
    with pytest.raises(ModelError) as caught:
        await load(engine, networks.custom_operator_network("XC_conv2d_v2"))
    refusal, _, second = str(caught.value).partition("; on tflm: ")
    assert refusal.endswith("operator 0 is custom, 'XC_conv2d_v2' (32), and has no kernel here")
    assert second.startswith("loading the model: RuntimeError")
    assert engine.model is None


async def test_a_model_that_does_not_fit_is_refused_at_once() -> None:
    engine = engine_of([], arena_bytes=1024)
    with pytest.raises(ModelError) as caught:
        await load(engine, digits.model_bytes())
    assert caught.value.load_result is LoadResult.TENSORS_DO_NOT_FIT
    assert "tflm" not in str(caught.value)


async def test_without_a_fallback_the_model_is_refused() -> None:
    engine = engine_of([], fallback=None)
    with pytest.raises(ModelError) as caught:
        await load(engine, SUM)
    assert str(caught.value) == REFUSED
    assert caught.value.load_result is LoadResult.UNSUPPORTED


async def test_the_process_that_refused_is_ended() -> None:
    engine, before = engine_of([], isolated), child_processes()
    await load(engine, SUM)
    assert len(child_processes()) == len(before) + 1
    await engine.unload_model()
    assert child_processes() == before
