"""The engine kind `kernels`: in workers, in the process, in a device; wake words; dumped tensors."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.addons.kernels.backends.registry import find_backend
from aisrv.addons.kernels.interpreter import KernelsInterpreter
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.plan import plan_apart
from aisrv.board import Board, EngineSpec
from aisrv.cli.options.dump import dump_tensors
from aisrv.inference.engine import Runner
from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import create_interpreter
from aisrv.inference.process.inline import InlineInterpreter
from aisrv.inference.process.isolation import IsolatedInterpreter
from aisrv.model.errors import LoadResult
from aisrv.protocol.engine_kind import EngineKind
from tests.support.benches import engines
from tests.support.benches.engines import ARENA, loaded, run_once
from tests.support.models import int16_models, kernel_backends, native, networks
from tests.support.peers import mlperf_tiny, wake_words


def image(number: int = 0) -> bytes:
    return bytes(digits.test_images()[number][0])


# Kinds.


def test_the_options_of_a_kind_are_the_interpreters() -> None:
    interpreter = create_interpreter(EngineKind("kernels", "nosuch"))
    assert isinstance(interpreter, KernelsInterpreter)
    with pytest.raises(ModelError, match="there is no kernel backend 'nosuch'"):
        interpreter.load(digits.model_bytes(), ARENA)


async def check_digits(runner: Runner) -> None:
    async with loaded(runner, digits.model_bytes()):
        for number in range(3):
            expected = networks.run(digits.model_bytes(), image(number))
            assert await run_once(runner, image(number)) == expected


@pytest.mark.parametrize("kind", ["kernels", "kernels:reference", "kernels:numpy"])
async def test_runner_in_this_process_equals_the_reference(kind: str) -> None:
    await check_digits(InlineInterpreter(EngineKind.parse(kind)))


async def test_threads_of_a_worker_start_before_its_sandbox() -> None:
    native.library()
    await check_digits(IsolatedInterpreter(print, EngineKind("kernels", "native+threads=3")))


# int16 activations and weights of 4 bits.


@pytest.mark.parametrize("backend", kernel_backends.NAMES)
async def test_networks_of_int16_and_int4_equal_tflm(backend: str) -> None:
    engines.need("tflm")
    kernel_backends.shipped_backend(backend)
    random = np.random.default_rng(3)
    for model, data in (
        (int16_models.int16_network(), random.uniform(-16, 16, 90).astype(np.float32)),
        (int16_models.int4_network(), random.integers(-128, 128, 90, np.int8)),
    ):
        results = []
        for engine in (f"kernels:{backend}", "tflm"):
            runner = InlineInterpreter(EngineKind.parse(engine))
            await runner.load(model, ARENA)
            results.append(await run_once(runner, data.tobytes()))
        assert results[0] == results[1]
        assert len(set(results[0][0])) > 2


# Errors.


@pytest.mark.parametrize(
    ("kind", "model", "arena", "message", "result"),
    [
        (
            "kernels:nosuch",
            digits.model_bytes,
            ARENA,
            "loading the model: there is no kernel backend 'nosuch'",
            LoadResult.OTHER,
        ),
        (
            "kernels",
            digits.model_bytes,
            1279,
            "loading the model: the tensors need an arena of 1,280 bytes, there are 1,279",
            LoadResult.TENSORS_DO_NOT_FIT,
        ),
        (
            "kernels",
            networks.summing_network,
            ARENA,
            "loading the model: operator 0 (SVDF): input 0 (tensor 0) is FLOAT32, must be INT8",
            LoadResult.UNSUPPORTED,
        ),
    ],
)
async def test_model_that_does_not_load(
    kind: str, model: Callable[[], bytes], arena: int, message: str, result: LoadResult
) -> None:
    with pytest.raises(ModelError) as error:
        await InlineInterpreter(EngineKind.parse(kind)).load(model(), arena)
    assert str(error.value).startswith(message)
    assert error.value.load_result is result


def test_interpreter_without_a_model() -> None:
    with pytest.raises(InvokeError, match="no model is loaded"):
        KernelsInterpreter().invoke()


# Inputs after a run.


def test_run_overwrites_inputs_as_a_device_does() -> None:
    interpreter = KernelsInterpreter()
    model = mlperf_tiny.model_bytes("ad01_int8")
    layout = interpreter.load(model, ARENA)
    given = np.random.default_rng(1).integers(-128, 128, 640, np.int8).tobytes()
    interpreter.set_input(0, memoryview(given))
    interpreter.invoke()
    left, result = bytearray(640), bytearray(640)
    interpreter.get_input(0, memoryview(left))
    interpreter.get_output(0, memoryview(result))
    assert layout == ((640,), (640,))
    # Input and output share their place in an arena of 768 bytes.
    assert left != given
    assert left == result


# Variables.


@pytest.mark.parametrize("path", wake_words.files(), ids=lambda path: path.stem)
def test_every_tensor_of_streaming_models_equals_that_of_tflm_from_run_to_run(path: Path) -> None:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    model = path.read_bytes()
    network = load_network(model, find_backend("numpy"), planner=plan_apart)
    theirs = runtime.Interpreter.from_bytes(
        model, arena_size=1 << 20, intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors
    )
    made = [
        index
        for operator in network.operators
        if operator.operator.name != "VAR_HANDLE"
        for index in operator.operator.outputs
    ]
    states = [each.outputs[0] for each in network.operators if each.operator.name == "READ_VARIABLE"]
    random = np.random.default_rng(5)
    seen = set()
    for _ in range(6):
        features = random.integers(-128, 128, network.model.input_tensors[0].shape, dtype=np.int8)
        network.inputs[0][:] = memoryview(features.tobytes()).cast("b")
        network.invoke()
        theirs.set_input(features, 0)
        theirs.invoke()
        expected = {index: theirs.GetTensor(index, 0)["tensor_data"].tobytes() for index in made}
        assert {index: network.tensors[index].buffer.tobytes() for index in made} == expected
        seen.add(b"".join(bytes(state.buffer) for state in states))
    assert len(seen) == 6  # what was assigned in one run is read in the next


# Dumps.


async def test_device_writes_tensors_from_its_worker(tmp_path: Path) -> None:
    folder = tmp_path / "tensors"
    (board,) = dump_tensors([Board(engines=(EngineSpec(kind=EngineKind("kernels")),))], folder)
    async with loaded(IsolatedInterpreter(print, board.engines[0].kind), digits.model_bytes()) as runner:
        outputs = await run_once(runner, image())
    (scores,) = (folder / "000001").glob("005-SOFTMAX-*.npy")
    assert [np.load(scores).tobytes()] == outputs


async def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=r"the folder for tensors: .*Not a directory"):
        await InlineInterpreter(EngineKind("kernels", tensor_folder=tmp_path / "file" / "below")).load(
            digits.model_bytes(), ARENA
        )


@pytest.mark.parametrize("elements", [65536, 300_000])
async def test_tensors_larger_than_what_a_worker_may_print_are_written(tmp_path: Path, elements: int) -> None:
    """The limit on what a worker prints is none on the tensors that it writes."""
    folder = tmp_path / "tensors"
    runner = IsolatedInterpreter(print, EngineKind("kernels", tensor_folder=folder))
    async with loaded(runner, networks.adding_network(1, 1, elements), 1 << 22):
        await runner.invoke()
    sizes = sorted(file.stat().st_size for file in (folder / "000001").iterdir())
    assert sizes[-1] == elements + 128
