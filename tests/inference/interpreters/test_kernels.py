"""The engine kind `kernels`: in workers, in the process, in a device; wake words; dumped tensors."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from tflite import BuiltinOperator

from aisrv import digits
from aisrv.analysis.engine_comparison import EngineError, run_engine
from aisrv.board import Board, EngineSpec
from aisrv.cli.diff_engines import diff_model, report
from aisrv.cli.main import main
from aisrv.cli.options.dump import dump_tensors
from aisrv.device.device import open_device
from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import create_interpreter
from aisrv.inference.interpreters.kernels import KernelsInterpreter
from aisrv.inference.process.inline import InlineInterpreter
from aisrv.inference.process.isolation import IsolatedInterpreter
from aisrv.kernels.backends.registry import find_backend
from aisrv.kernels.graph.load import load_graph
from aisrv.kernels.graph.plan import plan_apart
from aisrv.kernels.params import FullyConnectedParams, SoftmaxParams
from aisrv.model.errors import LoadResult
from aisrv.model.reader import read_model
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import get_command, set_command
from aisrv.protocol.engine_kind import EngineKind
from tests.support import mlperf_tiny, networks
from tests.support.models import single, tensor


def wake_words() -> list[Path]:
    """Streaming models, none where their package is not installed."""
    found = find_spec("pymicro_wakeword")
    return sorted((Path(found.origin).parent / "models").glob("*.tflite")) if found and found.origin else []


ARENA = 448 * 1024


PACKAGES = {"tflm": "tflite_micro", "tflite": "tflite_runtime"}


def need(engine: str) -> None:
    """Skip the test where the package of an engine is not installed."""
    if engine in PACKAGES and find_spec(PACKAGES[engine]) is None:
        pytest.skip(f"{PACKAGES[engine]} is not installed")


def image(number: int = 0) -> bytes:
    return bytes(digits.test_images()[number][0])


# Kinds.


def test_the_options_of_a_kind_are_the_interpreters() -> None:
    interpreter = create_interpreter(EngineKind("kernels", "nosuch"))
    assert isinstance(interpreter, KernelsInterpreter)
    with pytest.raises(ModelError, match="there is no kernel backend 'nosuch'"):
        interpreter.load(digits.model_bytes(), ARENA)


@pytest.mark.parametrize("kind", ["kernels", "kernels:reference", "kernels:numpy"])
async def test_runner_in_this_process_equals_the_reference(kind: str) -> None:
    runner = InlineInterpreter(EngineKind.parse(kind))
    await runner.load(digits.model_bytes(), ARENA)
    for number in range(3):
        runner.input(0)[:] = image(number)
        await runner.invoke()
        assert [bytes(runner.output(0))] == networks.run(digits.model_bytes(), image(number))


async def test_runner_in_a_worker_equals_the_reference() -> None:
    runner = IsolatedInterpreter(lambda _text: None, EngineKind("kernels"))
    await runner.load(digits.model_bytes(), ARENA)
    runner.input(0)[:] = image()
    await runner.invoke()
    assert [bytes(runner.output(0))] == networks.run(digits.model_bytes(), image())
    await runner.close()


async def test_device_classifies_with_kernels() -> None:
    board = Board(engines=(EngineSpec(kind=EngineKind("kernels")),))
    async with open_device(board) as device:
        engine = device.local[0]
        assert await set_command(engine, Command.SET_MODEL_ARENA, 0, digits.model_bytes()) is Status.OKAY
        assert await set_command(engine, Command.SET_INPUT_TENSOR, 0, image()) is Status.OKAY
        assert await set_command(engine, Command.START_INFER) is Status.OKAY
        expected = networks.run(digits.model_bytes(), image())
        assert await get_command(engine, Command.GET_OUTPUT_TENSOR) == (Status.OKAY, expected[0])


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
            "loading the model: operator 0 is SVDF (builtin operator 27), and has no kernel here",
            LoadResult.OTHER,
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


@pytest.mark.parametrize("path", wake_words(), ids=lambda path: path.stem)
def test_every_tensor_of_streaming_models_equals_that_of_tflm_from_run_to_run(path: Path) -> None:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    model = path.read_bytes()
    graph = load_graph(model, find_backend("numpy"), planner=plan_apart)
    theirs = runtime.Interpreter.from_bytes(
        model, arena_size=1 << 20, intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors
    )
    made = [
        index
        for operator in graph.operators
        if operator.operator.name != "VAR_HANDLE"
        for index in operator.operator.outputs
    ]
    states = [each.outputs[0] for each in graph.operators if each.operator.name == "READ_VARIABLE"]
    random = np.random.default_rng(5)
    seen = set()
    for _ in range(6):
        features = random.integers(-128, 128, graph.model.input_tensors[0].shape, dtype=np.int8)
        graph.inputs[0][:] = memoryview(features.tobytes()).cast("b")
        graph.invoke()
        theirs.set_input(features, 0)
        theirs.invoke()
        expected = {index: theirs.GetTensor(index, 0)["tensor_data"].tobytes() for index in made}
        assert {index: graph.tensors[index].buffer.tobytes() for index in made} == expected
        seen.add(b"".join(bytes(state.buffer) for state in states))
    assert len(seen) == 6  # what was assigned in one run is read in the next


# Dumps.


def test_dumping_boards_name_a_folder_for_each_engine(tmp_path: Path) -> None:
    one = Board(engines=(EngineSpec(kind=EngineKind("kernels", "reference")),))
    assert [str(board.engines[0].kind) for board in dump_tensors([one], tmp_path)] == [
        f"kernels:reference:{tmp_path}"
    ]
    two = dump_tensors([one, Board(engines=(EngineSpec(kind=EngineKind("kernels")),))], tmp_path)
    assert [str(board.engines[0].kind) for board in two] == [
        f"kernels:reference:{tmp_path}/0.0",
        f"kernels::{tmp_path}/1.0",
    ]


def test_only_kernels_dump(tmp_path: Path) -> None:
    with pytest.raises(
        click.UsageError, match="engine 0 is of kind 'tflite': only kernels can write tensors"
    ):
        dump_tensors([Board()], tmp_path)


async def test_device_writes_tensors_from_its_worker(tmp_path: Path) -> None:
    folder = tmp_path / "tensors"
    (board,) = dump_tensors([Board(engines=(EngineSpec(kind=EngineKind("kernels")),))], folder)
    runner = IsolatedInterpreter(lambda _text: None, board.engines[0].kind)
    await runner.load(digits.model_bytes(), ARENA)
    runner.input(0)[:] = image()
    await runner.invoke()
    (scores,) = (folder / "000001").glob("005-SOFTMAX-*.npy")
    assert np.load(scores).tobytes() == bytes(runner.output(0))
    await runner.close()


async def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=r"the folder for tensors: .*Not a directory"):
        await InlineInterpreter(EngineKind("kernels", tensor_folder=tmp_path / "file" / "below")).load(
            digits.model_bytes(), ARENA
        )


# Comparing engines.


class _Changed:
    """The numpy backend, with one thing wrong."""

    def __init__(self, change: Callable[[memoryview], None]) -> None:
        self._change = change
        self._backend = find_backend("numpy")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def fully_connected(self, params: FullyConnectedParams) -> Callable[[], None]:
        kernel = self._backend.fully_connected(params)

        def wrong() -> None:
            kernel()
            self._change(params.output)

        return wrong

    def softmax(self, params: SoftmaxParams) -> Callable[[], None]:
        return self._backend.softmax(params)


def engines(monkeypatch: pytest.MonkeyPatch, change: Callable[[memoryview], None]) -> None:
    from aisrv.analysis import engine_comparison as engine_tensors

    monkeypatch.setattr(
        engine_tensors,
        "find_backend",
        lambda name: _Changed(change) if name == "wrong" else find_backend(name),
    )


def test_first_operator_that_differs_is_named_with_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    need("tflm")

    def add_three(output: memoryview) -> None:
        output[4] += 3 if output[4] < 0 else -3

    engines(monkeypatch, add_three)
    pair = EngineKind("kernels", "wrong"), EngineKind("tflm")
    _, comparisons = diff_model(digits.model_bytes(), [image()], pair)
    lines = report(comparisons, pair).splitlines()
    logits = read_model(digits.model_bytes()).operators[4].outputs[0]
    assert lines[0].startswith("kernels:wrong and tflm differ in ")
    assert lines[1] == (f"first: operator 4 (FULLY_CONNECTED), tensor {logits}: 1 of 10 elements, by up to 3")


@pytest.mark.parametrize("other", ["tflm", "tflite", "kernels:reference"])
def test_engines_that_are_equal(other: str) -> None:
    need(other)
    pair = EngineKind("kernels"), EngineKind.parse(other)
    _, comparisons = diff_model(digits.model_bytes(), None, pair, seed=3)
    assert report(comparisons, pair) == f"kernels and {other} are equal in all 6 tensors"


def test_inputs_of_add_cannot_be_read_in_tflite() -> None:
    need("tflite")
    model = mlperf_tiny.model_bytes("pretrainedResnet_quant")
    _, comparisons = diff_model(model, None, (EngineKind("kernels"), EngineKind("tflite")))
    adds = [operator for operator in read_model(model).operators if operator.name == "ADD"]
    skipped = {each.tensor for each in comparisons if each.difference is None}
    assert skipped == {index for operator in adds for index in operator.inputs}
    assert all(each.difference.differing == 0 for each in comparisons if each.difference)


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("xcore", "no engine 'xcore': there are kernels, kernels:NAME, tflm, tflite"),
        ("tflite", "tflite does not run the model: "),
        ("tflm", "tflm does not run the model: "),
    ],
)
def test_engine_that_does_not_run_it(engine: str, message: str) -> None:
    need(engine)
    model = single(BuiltinOperator.COS, [tensor("in", (4,))], [tensor("out", (4,))])
    with pytest.raises(EngineError) as error:
        run_engine(EngineKind(engine), model, [bytes(4)])
    assert str(error.value).startswith(message)


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["diff-engines", *map(str, arguments)])


def test_command_compares_on_an_input(tmp_path: Path) -> None:
    need("tflm")
    model, picture = tmp_path / "digits.tflite", tmp_path / "picture"
    model.write_bytes(digits.model_bytes())
    picture.write_bytes(image())
    result = invoke(model, "--input", picture)
    assert (result.exit_code, result.output) == (0, "kernels and tflm are equal in all 6 tensors\n")


def test_command_ends_with_1_where_engines_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def invert(output: memoryview) -> None:
        output[0] = ~output[0]

    engines(monkeypatch, invert)
    model = tmp_path / "digits.tflite"
    model.write_bytes(digits.model_bytes())
    result = invoke(model, "--engines", "kernels", "kernels:wrong")
    assert result.exit_code == 1
    assert "first: operator 4 (FULLY_CONNECTED)" in result.output


@pytest.mark.parametrize("sizes", [[63], [65], [64, 1]])
def test_command_refuses_inputs_of_another_size(tmp_path: Path, sizes: Sequence[int]) -> None:
    model = tmp_path / "digits.tflite"
    model.write_bytes(digits.model_bytes())
    arguments: list[object] = [model]
    for number, size in enumerate(sizes):
        (tmp_path / str(number)).write_bytes(bytes(size))
        arguments += ["--input", tmp_path / str(number)]
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert result.output == (f"Error: {model}: inputs have {sizes} bytes, the model takes [64]\n")
