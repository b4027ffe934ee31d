"""Models that keep something from run to run, and models of many tensors of many types, through a device."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite import ActivationFunctionType, BuiltinOperator

from aisrv.board import Board, UsbProtocol
from aisrv.device.device import Device, open_device
from aisrv.inference.engine import Runners
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor, TensorType
from aisrv.model.writer import Network, NetworkOperator, constant_tensor
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import RESET_VARIABLES, get_command, set_command
from tests.support.benches.engines import EXACT, INSTALLED, PACKAGES, inline_as, isolated_as, needs
from tests.support.benches.model_session import model_session
from tests.support.models import networks
from tests.support.peers import wake_words

STEPS = 300
RUNNERS = [
    needs("tflite", inline_as("tflite")),
    needs("tflm", isolated_as("tflm")),
]


def kept_sums(kind: TensorType, state: TensorType) -> bytes:
    """The sum of the last three inputs, [1, 4]: they are kept in a variable tensor of its own type."""
    unit = None if kind == TensorType.FLOAT32 else Quantization.per_tensor(1.0, 0)
    numbers = {TensorType.FLOAT32: np.float32, TensorType.INT8: np.int8, TensorType.INT16: np.int16}
    sums = TensorType.FLOAT32 if unit is None else TensorType.INT32
    bias = np.zeros(4, np.float32 if sums == TensorType.FLOAT32 else np.int32)
    tensors = (
        Tensor("input", (1, 4), kind, unit),
        constant_tensor("feature", np.eye(4, dtype=numbers[kind]), unit),
        constant_tensor("time", np.ones((4, 3), numbers[state]), unit),
        constant_tensor("bias", bias, unit),
        Tensor("state", (1, 12), state, unit, is_variable=True),
        Tensor("sum", (1, 4), kind, unit),
    )
    # An int8 SVDF has to have a ReLU.
    options = {"rank": 1, "fused_activation_function": ActivationFunctionType.RELU}
    svdf = NetworkOperator(
        BuiltinOperator.SVDF, ("input", "feature", "time", "bias", "state"), ("sum",), options
    )
    return bytes(Network(tensors, (svdf,), ("input",), ("sum",), "sums"))


FLOAT_SUMS = kept_sums(TensorType.FLOAT32, TensorType.FLOAT32)
INT8_SUMS = kept_sums(TensorType.INT8, TensorType.INT16)


# Variables.


@pytest.mark.parametrize(("_kind", "runner"), RUNNERS)
@pytest.mark.parametrize(("model", "dtype"), [(FLOAT_SUMS, "<f4"), (INT8_SUMS, "i1")])
async def test_variables_last_from_run_to_run(_kind: str, runner: Runners, model: bytes, dtype: str) -> None:
    one = np.array([1, 2, 3, 4], dtype)
    expected = [(factor * one).astype(dtype).tobytes() for factor in (1, 2, 3, 3)]
    async with model_session(model, runner) as session:
        assert [(await session.run(one.tobytes()))[0] for _ in expected] == expected


@pytest.mark.parametrize(("_kind", "runner"), RUNNERS)
async def test_a_model_that_is_set_again_starts_afresh(_kind: str, runner: Runners) -> None:
    one = bytes((1, 2, 3, 4))
    async with model_session(INT8_SUMS, runner) as session:
        assert await session.run(one) == [one]
        assert await session.run(one) == [bytes((2, 4, 6, 8))]
        await session.load(INT8_SUMS)
        assert await session.run(one) == [one]


@pytest.mark.parametrize(("_kind", "runner"), RUNNERS)
async def test_reset_gives_variables_their_first_values(_kind: str, runner: Runners) -> None:
    one = bytes((1, 2, 3, 4))
    board = Board(protocol=UsbProtocol.IOSERVER)
    async with open_device(board, runner=runner) as device:
        await device.load_model(INT8_SUMS)

        async def twice() -> list[bytes]:
            return [await run_locally(device, one), await run_locally(device, one)]

        assert await twice() == [one, bytes((2, 4, 6, 8))]
        assert await set_command(device.local[0], RESET_VARIABLES) is Status.OKAY
        assert await twice() == [one, bytes((2, 4, 6, 8))]


async def run_locally(device: Device, data: bytes) -> bytes:
    """Run a model of one input and one output by the device's own channel to its engine."""
    engine = device.local[0]
    assert await set_command(engine, Command.SET_INPUT_TENSOR, 0, data) is Status.OKAY
    assert await set_command(engine, Command.START_INFER) is Status.OKAY
    return (await get_command(engine, Command.GET_OUTPUT_TENSOR))[1]


# Many tensors.


def typed_network() -> bytes:
    """Float to int8, int8 to float, uint8 to int8 and the sum of int16, each with an input of its own."""

    def scale(step: float, zero_point: int = 0) -> Quantization:
        return Quantization.per_tensor(step, zero_point)

    tensors = (
        Tensor("float in", (1, 8), TensorType.FLOAT32),
        Tensor("int8 in", (1, 8), TensorType.INT8, scale(0.5, -1)),
        Tensor("uint8 in", (1, 8), TensorType.UINT8, scale(1.0, 128)),
        Tensor("int16 in", (1, 8), TensorType.INT16, scale(1.0)),
        Tensor("int8 out", (1, 8), TensorType.INT8, scale(0.5, 3)),
        Tensor("float out", (1, 8), TensorType.FLOAT32),
        Tensor("signed out", (1, 8), TensorType.INT8, scale(1.0)),
        Tensor("int16 out", (1, 8), TensorType.INT16, scale(1.0)),
    )
    operators = (
        NetworkOperator(BuiltinOperator.QUANTIZE, ("float in",), ("int8 out",)),
        NetworkOperator(BuiltinOperator.DEQUANTIZE, ("int8 in",), ("float out",)),
        NetworkOperator(BuiltinOperator.QUANTIZE, ("uint8 in",), ("signed out",)),
        NetworkOperator(BuiltinOperator.ADD, ("int16 in", "int16 in"), ("int16 out",)),
    )
    names = [tensor.name for tensor in tensors]
    return bytes(Network(tensors, operators, tuple(names[:4]), tuple(names[4:])))


@pytest.mark.parametrize(("_kind", "runner"), RUNNERS)
async def test_tensors_of_every_type(_kind: str, runner: Runners) -> None:
    inputs = (
        np.array([0, 0.5, -0.5, 1, 62, 63, -65, -70], "<f4"),
        np.array([-128, -2, -1, 0, 1, 2, 126, 127], "i1"),
        np.array([0, 1, 127, 128, 129, 200, 254, 255], "u1"),
        np.array([0, 1, -1, 100, -100, 16_383, -16_384, 20_000], "<i2"),
    )
    expected = [
        np.array([3, 4, 2, 5, 127, 127, -127, -128], "i1"),  # q = r / 0.5 + 3
        np.array([-63.5, -0.5, 0, 0.5, 1, 1.5, 63.5, 64], "<f4"),  # r = 0.5 * (q + 1)
        np.array([-128, -127, -1, 0, 1, 72, 126, 127], "i1"),  # less 128
        np.array([0, 2, -2, 200, -200, 32_766, -32_768, 32_767], "<i2"),  # twice, saturated
    ]
    async with model_session(typed_network(), runner) as session:
        outputs = await session.run(*(data.tobytes() for data in inputs))
    assert [
        np.frombuffer(output, array.dtype).tolist() for output, array in zip(outputs, expected, strict=True)
    ] == [array.tolist() for array in expected]


@pytest.mark.parametrize(("_kind", "runner"), RUNNERS)
@pytest.mark.parametrize(("inputs", "outputs", "length"), [(3, 2, 16), (40, 40, 1), (2, 3, 513)])
async def test_many_inputs_and_outputs(
    _kind: str, runner: Runners, inputs: int, outputs: int, length: int
) -> None:
    data = [bytes((number,)) * length for number in range(inputs)]
    expected = [bytes((number % inputs + (number + 1) % inputs,)) * length for number in range(outputs)]
    model = networks.adding_network(inputs, outputs, length)
    async with model_session(model, runner) as session:
        assert await session.run(*data) == expected


# Wake words: streaming models, whose variables are resources that operators read and assign.

DIRECT = {
    "tflite": f"""
from {PACKAGES["tflite"]}.interpreter import Interpreter, OpResolverType
it = Interpreter(sys.argv[1], num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
it.allocate_tensors()
source, target = it.get_input_details()[0], it.get_output_details()[0]
def step(data):
    it.set_tensor(source["index"], data.reshape(source["shape"]))
    it.invoke()
    return it.get_tensor(target["index"])
""",
    "tflm": """
from tflite_micro.python.tflite_micro import runtime
it = runtime.Interpreter.from_file(sys.argv[1], arena_size=1 << 20)
shape = it.get_input_details(0)["shape"]
def step(data):
    it.set_input(data.reshape(shape), 0)
    it.invoke()
    return it.get_output(0)
""",
}
STREAM = """
data = np.fromfile(sys.argv[2], np.int8).reshape(int(sys.argv[3]), -1)
print(json.dumps([step(row).tobytes().hex() for row in data]))
"""


def directly(kind: str, model: Path, data: "np.ndarray[Any, np.dtype[np.int8]]", folder: Path) -> list[str]:
    """What the interpreter's own Python interface gives for each row, in a process of its own."""
    file = folder / "steps"
    data.tofile(file)
    program = f"import json, sys\nimport numpy as np\n{DIRECT[kind]}{STREAM}"
    command = [sys.executable, "-c", program, str(model), str(file), str(len(data))]
    outputs: list[str] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return outputs


def features(steps: int) -> "np.ndarray[Any, np.dtype[np.int8]]":
    """Slices of 40 features, three a step, that wander together as loudness does: words come near."""
    random = np.random.default_rng(7)
    loudness = np.cumsum(random.normal(0, 2, (3 * steps, 1)), 0)
    bands = loudness + np.cumsum(random.normal(0, 0.5, (3 * steps, 40)), 0)
    folded = np.abs(bands % 376 - 188) - 128
    slices: np.ndarray[Any, np.dtype[np.int8]] = folded.astype(np.int8).reshape(steps, -1)
    return slices


OTHER_WORD = pytest.mark.long("each engine and each word streams every day")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        needs("tflite", "hey_mycroft"),
        needs("tflm", "okay_nabu"),
        needs("tflite", "okay_nabu", marks=[OTHER_WORD]),
        needs("tflm", "hey_mycroft", marks=[OTHER_WORD]),
    ],
)
async def test_wake_word_streams_like_the_interpreter_itself(kind: str, name: str, tmp_path: Path) -> None:
    model = wake_words.file(name)
    rows = features(STEPS)
    async with model_session(model.read_bytes(), isolated_as(kind)) as session:
        outputs = [(await session.run(row.tobytes()))[0].hex() for row in rows]
    assert outputs == directly(kind, model, rows, tmp_path)
    assert len(set(outputs)) >= 5  # it does listen


def test_what_keeps_something_from_run_to_run() -> None:
    assert read_model(INT8_SUMS).has_variables
    assert read_model(wake_words.file("okay_nabu").read_bytes()).has_variables
    assert not read_model(typed_network()).has_variables


@pytest.mark.parametrize(
    "kind",
    [needs("tflm"), needs("tflite", marks=[pytest.mark.long("smaller models are reset in it every day")])],
)
async def test_reset_of_a_wake_word(kind: str) -> None:
    rows = features(STEPS)
    async with open_device(Board(protocol=UsbProtocol.IOSERVER), runner=isolated_as(kind)) as device:
        await device.load_model(wake_words.file("okay_nabu").read_bytes())

        async def stream() -> list[bytes]:
            return [await run_locally(device, row.tobytes()) for row in rows]

        first = await stream()
        assert await stream() != first
        assert await set_command(device.local[0], RESET_VARIABLES) is Status.OKAY
        assert await stream() == first


@pytest.mark.long("each engine gives the outputs of its interpreter every day")
@pytest.mark.skipif("tflite" not in EXACT, reason="tflite_runtime is not installed")
async def test_wake_word_of_all_engines_is_the_same() -> None:
    model = wake_words.file("hey_mycroft").read_bytes()
    outputs = {}
    for kind in set(EXACT) & set(INSTALLED) & set(DIRECT):
        async with model_session(model, isolated_as(kind)) as session:
            outputs[kind] = [(await session.run(row.tobytes()))[0] for row in features(STEPS)]
    assert all(output == outputs["tflite"] for output in outputs.values())
