"""The kernel backend `relocatable`: bit for bit `numpy`, with it for what C kernels leave out."""

import numpy as np
import pytest
from tflite import BuiltinOperator

from aisrv import digits
from aisrv.addons.kernels.backends.registry import BackendError, find_backend
from aisrv.addons.kernels.network.load import load_network
from tests.support.amounts import in_ci
from tests.support.models.operators import Draw
from tests.support.peers import mlperf_tiny

pytest.importorskip("unicorn", reason="pip install pyelftools unicorn")

OPERATORS = (
    BuiltinOperator.CONV_2D,
    BuiltinOperator.DEPTHWISE_CONV_2D,
    BuiltinOperator.FULLY_CONNECTED,
    BuiltinOperator.AVERAGE_POOL_2D,
    BuiltinOperator.MAX_POOL_2D,
    BuiltinOperator.SOFTMAX,
    BuiltinOperator.ADD,
    BuiltinOperator.MUL,
)


def outputs(model: bytes, backend: str, seed: int) -> list[bytes]:
    network = load_network(model, find_backend(backend))
    rng = np.random.default_rng(seed)
    for buffer in network.inputs:
        buffer[:] = memoryview(rng.integers(-128, 128, len(buffer)).astype(np.int8).tobytes()).cast("b")
    network.invoke()
    return [bytes(buffer) for buffer in network.outputs]


@pytest.mark.parametrize("seed", range(3))
def test_the_digits(seed: int) -> None:
    model = digits.two_output_model_bytes()
    assert outputs(model, "relocatable", seed) == outputs(model, "numpy", seed)


def test_keyword_spotting() -> None:
    model = mlperf_tiny.model_bytes("kws_ref_model")
    assert outputs(model, "relocatable", 0) == outputs(model, "numpy", 0)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("seed", range(in_ci(30, every_day=10)))
def test_random_operators(operator: int, seed: int) -> None:
    case = Draw(seed).case(operator)
    assert list(case.run(find_backend("relocatable"))) == list(case.run(find_backend("numpy")))


def test_without_unicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "unicorn", None)
    with pytest.raises(BackendError, match=r"needs the module unicorn \(.*\): pip install .*\[relocatable\]"):
        find_backend("relocatable")
