"""`aisrv model diff`: engines compared operator by operator, and the first that differs."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tflite import BuiltinOperator

from aisrv import digits
from aisrv.addons.kernels.backends.registry import find_backend
from aisrv.addons.kernels.params import FullyConnectedParams, SoftmaxParams
from aisrv.addons.predict import diff_command as diff_engines_module
from aisrv.addons.predict import engine_process
from aisrv.addons.predict.diff_command import default_engines, diff_model, report
from aisrv.addons.predict.engine_comparison import EngineError, run_engine
from aisrv.cli.main import main
from aisrv.model.reader import read_model
from aisrv.protocol.engine_kind import EngineKind
from tests.support.benches.engines import need
from tests.support.models import networks
from tests.support.models.one_operator import single, tensor
from tests.support.paths import ROOT
from tests.support.peers import mlperf_tiny, xcore_tools
from tests.support.programs import AISRV, run_process


def image(number: int = 0) -> bytes:
    return bytes(digits.test_images()[number][0])


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
    from aisrv.addons.predict import engine_comparison as engine_tensors

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
    lines = report(diff_model(digits.model_bytes(), [image()], pair, run=run_engine)).splitlines()
    logits = read_model(digits.model_bytes()).operators[4].outputs[0]
    assert lines[0].startswith("kernels:wrong and tflm differ in ")
    assert lines[1] == (f"first: operator 4 (FULLY_CONNECTED), tensor {logits}: 1 of 10 elements, by up to 3")


TFLITE_TOO = pytest.mark.long("another model is compared with it every day")


@pytest.mark.parametrize(
    "other", ["tflm", pytest.param("tflite", marks=TFLITE_TOO), "litert", "kernels:reference"]
)
def test_engines_that_are_equal(other: str) -> None:
    need(other)
    pair = EngineKind("kernels"), EngineKind.parse(other)
    diff = diff_model(digits.model_bytes(), None, pair, seed=3, run=run_engine)
    assert report(diff) == f"kernels and {other} are equal in all 6 tensors"
    assert diff.same


def test_inputs_of_add_cannot_be_read_in_tflite() -> None:
    need("tflite")
    model = mlperf_tiny.model_bytes("pretrainedResnet_quant")
    _, comparisons = diff_model(model, None, (EngineKind("kernels"), EngineKind("tflite")), run=run_engine)
    adds = [operator for operator in read_model(model).operators if operator.name == "ADD"]
    skipped = {each.tensor for each in comparisons if each.difference is None}
    assert skipped == {index for operator in adds for index in operator.inputs}
    assert all(each.difference.differing == 0 for each in comparisons if each.difference)


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("none", "an engine of kind 'none' runs no model"),
        ("tflite", "tflite does not run the model: "),
        ("tflm", "tflm does not run the model: "),
    ],
)
def test_engine_that_does_not_run_it(engine: str, message: str) -> None:
    if engine != "xcore":
        need(engine)
    model = single(BuiltinOperator.COS, [tensor("in", (4,))], [tensor("out", (4,))])
    with pytest.raises(EngineError) as error:
        run_engine(EngineKind(engine), model, [bytes(4)])
    assert str(error.value).startswith(message)


@pytest.fixture(scope="module")
def xcore() -> Iterator[None]:
    yield from xcore_tools.use_library()


@pytest.mark.usefixtures("xcore")
@pytest.mark.parametrize("peer", ["kernels", "tflm", "tflite"])
def test_xmos_library_is_compared_by_what_it_puts_out(peer: str) -> None:
    if peer != "kernels":
        need(peer)
    pair = EngineKind(peer), EngineKind("xcore")
    _, comparisons = diff_model(digits.model_bytes(), [image()], pair, run=run_engine)
    *others, output = [each.difference for each in comparisons]
    assert others == [None] * 5
    assert output is not None
    assert (output.elements, output.differing) == (10, 0)


@pytest.mark.usefixtures("xcore")
def test_xmos_library_refuses_what_it_has_no_kernel_for() -> None:
    model = single(BuiltinOperator.COS, [tensor("in", (4,))], [tensor("out", (4,))])
    with pytest.raises(EngineError, match=r"^xcore does not run the model: "):
        run_engine(EngineKind("xcore"), model, [bytes(4)])


@pytest.mark.usefixtures("xcore")
def test_model_with_parameters_in_flash_is_not_compared_without_them(tmp_path: Path) -> None:
    converted = xcore_tools.convert(xcore_tools.flat_digits(), tmp_path)
    size = f"{len(converted.parameters):,}"
    with pytest.raises(
        EngineError, match=f"^the model loads {size} bytes of parameters from flash, which are not given$"
    ):
        run_engine(EngineKind("xcore"), converted.model, [image()])


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what a command makes of answers; that engines run in processes of their own is tested below."""
    monkeypatch.setattr(engine_process, "run_apart", run_engine)


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["model", "diff", *map(str, arguments)])


@pytest.mark.usefixtures("in_this_process")
def test_command_compares_on_an_input(digits_file: Path, tmp_path: Path) -> None:
    need("tflm")
    picture = tmp_path / "picture"
    picture.write_bytes(image())
    result = invoke(digits_file, "--input", picture)
    assert (result.exit_code, result.output) == (0, "kernels and tflm are equal in all 6 tensors\n")


WRONG = "tests.support.benches.wrong_engines"
DEATHS = {
    "Crashing": "its process was ended by SIGSEGV",
    "Ending": "its process ended with exit code 7",
    "Absent": "does not run the model: AttributeError: ",
}
SECOND = pytest.mark.long("each dies as the first engine every day, and one as the second in JSON")


def test_command_ends_with_1_where_engines_differ(digits_file: Path) -> None:
    result = invoke(digits_file, "--engines", "kernels", f"{WRONG}:Inverting")
    assert result.exit_code == 1
    assert "\nfirst: operator 5 (SOFTMAX)" in result.output


@pytest.mark.parametrize(
    ("engine", "failure", "first"),
    [
        *((f"{WRONG}:{name}", failure, True) for name, failure in DEATHS.items()),
        *(pytest.param(f"{WRONG}:{name}", failure, False, marks=SECOND) for name, failure in DEATHS.items()),
    ],
)
def test_an_engine_that_dies_has_that_for_its_result(
    digits_file: Path, engine: str, failure: str, first: bool
) -> None:
    pair = [engine, "kernels"] if first else ["kernels", engine]
    result = invoke(digits_file, "--engines", *pair)
    assert result.exit_code == 1
    dead, alive = result.stdout.splitlines() if first else reversed(result.stdout.splitlines())
    assert alive == "kernels: ran the model"
    assert dead.startswith(f"{engine}: ")
    assert failure in dead


@pytest.mark.usefixtures("in_this_process")
def test_a_result_in_json(digits_file: Path) -> None:
    result = invoke(digits_file, "--engines", "kernels", "kernels:reference", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (
        0,
        {
            "same": True,
            "engines": [
                {"engine": "kernels", "tensors": 6, "failure": None},
                {"engine": "kernels:reference", "tensors": 6, "failure": None},
            ],
            "compared": 6,
            "not_in_both": 0,
            "differences": [],
        },
    )


@pytest.mark.usefixtures("in_this_process")
def test_a_difference_in_json(digits_file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture"
    picture.write_bytes(image())
    result = invoke(digits_file, "--engines", "kernels", f"{WRONG}:Inverting", "--json", "--input", picture)
    right = networks.run(digits.model_bytes(), image())[0]
    (output,) = read_model(digits.model_bytes()).outputs
    first = int.from_bytes(right[:1], signed=True)
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["same"], answer["compared"], answer["not_in_both"]) == (1, False, 1, 5)
    assert answer["differences"] == [
        {
            "operator": 5,
            "name": "SOFTMAX",
            "tensor": output,
            "elements": 10,
            "differing": 1,
            "largest": abs(first - ~first),
        }
    ]


def test_a_crash_in_json(digits_file: Path) -> None:
    result = invoke(digits_file, "--engines", "kernels", f"{WRONG}:Crashing", "--json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["same"]) == (1, False)
    assert [each["failure"] for each in answer["engines"]] == [None, "its process was ended by SIGSEGV"]


def test_what_an_engine_prints_is_no_part_of_the_answer(digits_file: Path) -> None:
    engines = "kernels", f"{WRONG}:Printing"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = run_process(
        [*AISRV, "model", "diff", digits_file, "--json", "--engines", *engines], env=environment
    )
    assert (done.returncode, json.loads(done.stdout)["same"]) == (0, True)
    assert done.stderr == "printed by an engine\n"


@pytest.mark.parametrize("sizes", [[63], [65], [64, 1]])
def test_command_refuses_inputs_of_another_size(
    digits_file: Path, tmp_path: Path, sizes: Sequence[int]
) -> None:
    arguments: list[object] = [digits_file]
    for number, size in enumerate(sizes):
        (tmp_path / str(number)).write_bytes(bytes(size))
        arguments += ["--input", tmp_path / str(number)]
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert result.output == (f"Error: {digits_file}: inputs have {sizes} bytes, the model takes [64]\n")


def diff(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["model", "diff", *map(str, arguments)])
    return result.exit_code, result.output


@pytest.mark.usefixtures("in_this_process")
def test_an_array_is_an_input(tmp_path: Path) -> None:
    model, array = tmp_path / "digits.tflite", tmp_path / "image.npy"
    model.write_bytes(digits.model_bytes())
    (shape,) = (each.shape for each in read_model(digits.model_bytes()).input_tensors)
    np.save(array, np.frombuffer(image(), np.int8).reshape(shape))
    code, output = diff(model, "--engines", "kernels", "kernels:reference", "--input", array)
    assert (code, output.partition(" are ")[0]) == (0, "kernels and kernels:reference")


def test_an_array_of_another_type_is_refused(tmp_path: Path) -> None:
    model, array = tmp_path / "digits.tflite", tmp_path / "image.npy"
    model.write_bytes(digits.model_bytes())
    np.save(array, np.zeros((1, 2), np.float32))
    code, output = diff(model, "--engines", "kernels", "kernels:reference", "--input", array)
    assert code == 1
    assert f"{array} has float32 [1, 2], the input " in output
    assert " is int8 [" in output


def test_what_is_no_array_is_refused(tmp_path: Path) -> None:
    model, array = tmp_path / "digits.tflite", tmp_path / "image.npy"
    model.write_bytes(digits.model_bytes())
    array.write_bytes(b"no array")
    code, output = diff(model, "--engines", "kernels", "kernels:reference", "--input", array)
    assert code == 1
    assert f"{array} is not a .npy file" in output


def test_an_array_that_is_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    model, array = tmp_path / "digits.tflite", tmp_path / "image.npy"
    model.write_bytes(digits.model_bytes())
    os.mkfifo(array)
    code, output = diff(model, "--engines", "kernels", "kernels:reference", "--input", array)
    assert code != 0
    assert "regular file" in output


def test_an_engine_that_shows_outputs_alone_is_compared_by_them() -> None:
    pair = EngineKind("kernels"), EngineKind("aisrv.addons.kernels.interpreter:KernelsInterpreter")
    assert report(diff_model(digits.model_bytes(), [image()], pair, run=run_engine)) == (
        "kernels and aisrv.addons.kernels.interpreter:KernelsInterpreter are equal in all 1 tensors; "
        "5 cannot be read in both"
    )


def test_without_engines_our_kernels_are_compared_with_a_peer_that_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(diff_engines_module, "find_spec", lambda name: name == "ai_edge_litert" or None)
    assert default_engines() == (EngineKind("kernels"), EngineKind("litert"))
    monkeypatch.setattr(diff_engines_module, "find_spec", lambda _name: None)
    with pytest.raises(EngineError, match="no other engine is installed to compare with: pip install"):
        default_engines()
