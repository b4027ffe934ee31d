"""Models in TensorFlow Lite Micro: the reference's results, a real arena, and inputs as they were written."""

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder

import numpy as np
import pytest
from tflite import BuiltinOperator, TensorType

from aisrv import digits
from aisrv.inference.engine import InferenceEngine
from aisrv.inference.errors import ModelError
from aisrv.inference.interpreter import MissingPackageError
from aisrv.inference.interpreters import tflm
from aisrv.inference.interpreters.tflm import TflmInterpreter
from aisrv.inference.interpreters.tflm_shortage import Shortage, find_shortage
from aisrv.inference.placement import arena_need
from aisrv.inference.process.isolation import IsolatedInterpreter
from aisrv.model.errors import LoadResult
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator
from aisrv.protocol.engine_kind import EngineKind
from aisrv.protocol.memory_map import ModelMemory
from tests.support.benches.engines import ARENA, loaded
from tests.support.benches.engines import run_once as run
from tests.support.models import networks
from tests.support.programs import run_process

DIGITS_ARENA = 3632
"""What `print_allocations` of tflite-micro says that the digits network takes."""
TEMP_MEMORY = "Failed to allocate temp memory. Requested: 132, available 72, missing: 60\n"


def isolated_tflm(log: Callable[[str], None] = lambda _text: None) -> IsolatedInterpreter:
    return IsolatedInterpreter(log, EngineKind("tflm"))


def load_direct(model: bytes, arena_bytes: int = ARENA) -> TflmInterpreter:
    interpreter = TflmInterpreter()
    interpreter.load(model, arena_bytes)
    return interpreter


def run_direct(interpreter: TflmInterpreter, size: int, *inputs: bytes) -> bytes:
    """Run without reading inputs back; the first output."""
    for number, data in enumerate(inputs):
        interpreter.set_input(number, memoryview(data))
    interpreter.invoke()
    output = bytearray(size)
    interpreter.get_output(0, memoryview(output))
    return bytes(output)


# Inputs.


async def test_inputs_are_shown_as_they_were_written() -> None:
    """TFLM overwrites them, as the direct call shows; its binding has no way to read what it left."""
    image = digits.test_images()[0].image
    direct = load_direct(digits.model_bytes())
    assert run_direct(direct, 10, image) != run_direct(direct, 10)

    async with loaded(isolated_tflm(), digits.model_bytes()) as runner:
        assert bytes(runner.input(0)) == bytes(64)
        results = [*await run(runner, image), *await run(runner)]
        assert bytes(runner.input(0)) == image
        assert results == [run_direct(direct, 10, image)] * 2


async def test_an_input_without_bytes_is_fine() -> None:
    unit = Quantization.per_tensor(1.0, 0)
    tensors = tuple(Tensor(name, (1, 4), TensorType.INT8, unit) for name in ("input", "output"))
    scalar = Tensor("nothing", (0,), TensorType.INT8, unit)
    add = NetworkOperator(BuiltinOperator.ADD, ("input", "input"), ("output",))
    model = bytes(Network((*tensors, scalar), (add,), ("input", "nothing"), ("output",)))
    async with loaded(isolated_tflm(), model) as runner:
        assert await run(runner, b"\1\2\3\4") == [b"\2\4\6\10"]


# The arena.


async def test_the_smallest_arena() -> None:
    image = digits.test_images()[0].image
    async with loaded(isolated_tflm(), digits.model_bytes(), DIGITS_ARENA) as runner:
        assert await run(runner, image) == networks.run(digits.model_bytes(), image)


@pytest.mark.parametrize(
    ("arena_bytes", "message"),
    [
        # TFLM crashes where it has no room for itself; with room, it reports.
        (100, r"was killed by SIGSEGV.*: 104 bytes needed next, 96 available, 8 missing$"),
        (DIGITS_ARENA - 16, r"RuntimeError: .*: 24 bytes needed next, 16 available, 8 missing$"),
    ],
)
async def test_an_arena_that_is_too_small(arena_bytes: int, message: str) -> None:
    printed: list[str] = []
    runner = isolated_tflm(printed.append)
    with pytest.raises(ModelError, match=message) as caught:
        await runner.load(digits.model_bytes(), arena_bytes)
    assert caught.value.load_result is LoadResult.TENSORS_DO_NOT_FIT
    assert printed[0].startswith("Failed to allocate tail memory. Requested: ")
    assert runner.pid is None


async def test_an_engine_gives_the_arena_that_a_model_in_it_leaves() -> None:
    """The device's need fits, that of the 64-bit library does not: it is the library that refuses."""
    model = digits.model_bytes()
    need = arena_need(read_model(model)).total
    assert need < DIGITS_ARENA
    engine = InferenceEngine(isolated_tflm, arena_bytes=len(model) + DIGITS_ARENA, external_bytes=0)
    await engine.load_model(model, ModelMemory.ARENA)
    await engine.unload_model()
    engine = InferenceEngine(isolated_tflm, arena_bytes=len(model) + need, external_bytes=0)
    with pytest.raises(ModelError, match=r"missing$") as caught:
        await engine.load_model(model, ModelMemory.ARENA)
    assert caught.value.load_result is LoadResult.TENSORS_DO_NOT_FIT


@pytest.mark.parametrize(
    ("printed", "shortage"),
    [
        ("", None),
        ("Failed to resize buffer. Requested: 192, available 32, missing: 160\n", Shortage(192, 32, 160)),
        (
            f"a line\n{TEMP_MEMORY}Failed to allocate tail memory. Requested: 1, available 0, missing: 1\n",
            Shortage(132, 72, 60),
        ),
        ("Failed to resize buffer. Requested: , available 32, missing: 160", None),
        ("it Failed to resize buffer. Requested: 192, available 32, missing: 160", None),
    ],
)
def test_shortages_are_read_from_what_tflm_prints(printed: str, shortage: Shortage | None) -> None:
    assert find_shortage(printed) == shortage


# Models that it refuses.


@pytest.mark.parametrize(
    "model",
    [b"", b"no model", networks.unknown_operator_network(), networks.custom_operator_network()],
)
async def test_a_bad_model_is_a_model_error(model: bytes) -> None:
    runner = isolated_tflm()
    with pytest.raises(ModelError, match=r"^loading the model: "):
        await runner.load(model, ARENA)
    assert runner.pid is None


async def test_what_it_prints_is_logged() -> None:
    printed: list[str] = []
    runner = isolated_tflm(printed.append)
    with pytest.raises(ModelError):
        await runner.load(networks.custom_operator_network(), ARENA)
    assert printed == ["Failed to get registration from op code CUSTOM\n \n"]


# The binding.


def test_the_extension_is_loaded_without_its_package() -> None:
    script = "import sys, aisrv.inference.interpreters.tflm; print('tflite_micro' in sys.modules)"
    done = run_process([sys.executable, "-c", script], check=True)
    assert done.stdout == "False\n"


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PathFinder, "find_spec", lambda _name: None)
    with pytest.raises(
        MissingPackageError, match=r"^tflite-micro is not installed: pip install .*\[tflm\]\"$"
    ):
        tflm.import_binding()


def test_an_output_of_another_size_is_refused() -> None:
    interpreter = load_direct(digits.model_bytes())
    interpreter.set_input(0, memoryview(np.zeros(64, np.int8).tobytes()))
    interpreter.invoke()
    with pytest.raises(ValueError, match="output 0 now has 10 bytes, it was loaded with 9"):
        interpreter.get_output(0, memoryview(bytearray(9)))
