"""LiteRT as an engine of its own, where it is installed; elsewhere the error that says so."""

from importlib.util import find_spec

import pytest

from aisrv import digits
from aisrv.inference.errors import ModelError
from aisrv.inference.process.isolation import IsolatedInterpreter
from aisrv.protocol.engine_kind import EngineKind
from tests.support.models import networks

ARENA = 1 << 16
HAS_LITERT = find_spec("ai_edge_litert") is not None


@pytest.mark.skipif(HAS_LITERT, reason="ai-edge-litert is installed")
async def test_without_the_package_the_error_names_the_extra() -> None:
    runner = IsolatedInterpreter(lambda _text: None, EngineKind("litert"))
    with pytest.raises(
        ModelError,
        match=r"^loading the model: ai-edge-litert is not installed: pip install .*\[litert\]\"$",
    ):
        await runner.load(digits.model_bytes(), ARENA)
    assert runner.pid is None


@pytest.mark.skipif(not HAS_LITERT, reason="ai-edge-litert is not installed")
async def test_digits_have_the_right_classes_and_inputs_stay() -> None:
    runner = IsolatedInterpreter(lambda _text: None, EngineKind("litert"))
    await runner.load(digits.model_bytes(), ARENA)
    right = 0
    images = digits.test_images()[:50]
    for digit in images:
        runner.input(0)[:] = digit.image
        await runner.invoke()
        scores = memoryview(runner.output(0)).cast("b").tolist()
        right += scores.index(max(scores)) == digit.label
        assert bytes(runner.input(0)) == digit.image
    await runner.close()
    assert right >= 48


@pytest.mark.skipif(not HAS_LITERT, reason="ai-edge-litert is not installed")
async def test_a_custom_operator_is_refused() -> None:
    runner = IsolatedInterpreter(lambda _text: None, EngineKind("litert"))
    with pytest.raises(ModelError, match=r"^loading the model: "):
        await runner.load(networks.custom_operator_network(), ARENA)
