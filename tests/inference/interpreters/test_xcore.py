"""Models in XMOS's library: plain ones as TensorFlow Lite computes them, and those of its converter."""

import ctypes
import random
import struct
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tflite
from flatbuffers import flexbuffers
from tflite import BuiltinOperator, TensorType

from aisrv import digits
from aisrv.inference.engine import InferenceEngine
from aisrv.inference.errors import InferenceError, InvokeError, ModelError
from aisrv.inference.interpreter import MissingPackageError
from aisrv.inference.interpreters import xcore
from aisrv.inference.parameters import ParameterSource, ParameterTraffic
from aisrv.inference.placement import arena_need
from aisrv.inference.process.isolation import isolated
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator, constant_tensor
from aisrv.protocol.engine_kind import EngineKind
from aisrv.protocol.memory_map import ModelMemory
from tests.support.benches import engines
from tests.support.benches.engines import ARENA, run_once
from tests.support.models import networks
from tests.support.peers import mlperf_tiny, xcore_tools
from tests.support.peers.xcore_tools import Converted

IMAGES = digits.test_images()


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    yield from xcore_tools.use_library()


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return xcore_tools.convert(xcore_tools.flat_digits(), tmp_path_factory.mktemp("digits"))


class Memory:
    """Parameters in memory instead of flash; remembers what was asked, and fails from read `good` on."""

    def __init__(self, parameters: bytes, good: int = 1_000_000) -> None:
        self._parameters = parameters
        self.good = good
        self.asked: list[tuple[int, int]] = []

    async def read(self, offset: int, size: int) -> bytes:
        if len(self.asked) >= self.good:
            raise InvokeError("the flash is gone")
        self.asked.append((offset, size))
        return self._parameters[offset : offset + size]


def open_engine(
    parameters: ParameterSource | None = None, arena_bytes: int = ARENA
) -> AbstractAsyncContextManager[InferenceEngine]:
    runner = partial(isolated, kind=EngineKind("xcore"))
    return engines.open_engine(runner, arena_bytes=arena_bytes, parameters=parameters)


async def test_a_run_overwrites_its_inputs_as_a_device_does() -> None:
    given = np.random.default_rng(1).integers(-128, 128, 640, np.int8).tobytes()
    async with open_engine() as engine:
        await engine.load_model(mlperf_tiny.model_bytes("ad01_int8"), ModelMemory.ARENA)
        first = await run_once(engine, given)
        left = bytes(engine.input(0))
        assert left != given
        assert await run_once(engine) != first  # it starts from what the first one left
        assert await run_once(engine, given) == first


def seeded_inputs(model: bytes, seed: int) -> list[bytes]:
    generator = np.random.default_rng(seed)
    sizes = [tensor.nbytes for tensor in read_model(model).input_tensors]
    return [generator.integers(-128, 128, size, np.int8).tobytes() for size in sizes]


# Plain models.


async def test_every_digit_equals_tensorflow_lite() -> None:
    async with open_engine() as engine:
        await engine.load_model(digits.model_bytes(), ModelMemory.EXT)
        for image, _ in IMAGES:
            assert await run_once(engine, image) == networks.run(digits.model_bytes(), image)


@pytest.mark.parametrize("name", mlperf_tiny.NAMES)
async def test_plain_models_equal_tensorflow_lite(name: str) -> None:
    model = mlperf_tiny.model_bytes(name)
    async with open_engine() as engine:
        await engine.load_model(model, ModelMemory.EXT)
        for seed in range(2):
            inputs = seeded_inputs(model, seed)
            assert await run_once(engine, *inputs) == networks.run(model, *inputs)


@pytest.mark.parametrize("model", [digits.two_output_model_bytes(), networks.two_input_add_network(1024)])
async def test_several_tensors(model: bytes) -> None:
    async with open_engine() as engine:
        await engine.load_model(model, ModelMemory.ARENA)
        inputs = seeded_inputs(model, 3)
        assert await run_once(engine, *inputs) == networks.run(model, *inputs)


async def test_one_model_after_the_other() -> None:
    async with open_engine() as engine:
        for model in (digits.model_bytes(), networks.two_input_add_network(), digits.model_bytes()):
            await engine.load_model(model, ModelMemory.EXT)
            inputs = seeded_inputs(model, 4)
            assert await run_once(engine, *inputs) == networks.run(model, *inputs)


async def test_an_arena_that_the_device_needs_is_enough() -> None:
    model = digits.model_bytes()
    async with open_engine(arena_bytes=arena_need(read_model(model)).total) as engine:
        await engine.load_model(model, ModelMemory.EXT)
        assert await run_once(engine, IMAGES[0].image) == networks.run(model, IMAGES[0].image)


# Models of the converter.


async def test_converted_digits_keep_their_classes(converted: Converted) -> None:
    """XMOS's kernels round otherwise: of 397 images one changes its class, and none a score by much."""
    other_class = largest = 0
    async with open_engine(Memory(converted.parameters)) as engine:
        await engine.load_model(converted.model, ModelMemory.EXT)
        for image, _ in IMAGES:
            (scores,) = (np.frombuffer(output, np.int8) for output in await run_once(engine, image))
            (expected,) = (np.frombuffer(o, np.int8) for o in networks.run(digits.model_bytes(), image))
            other_class += scores.argmax() != expected.argmax()
            largest = max(largest, np.abs(scores.astype(int) - expected).max())
    assert other_class <= 1
    assert largest <= 8


def loads_of(model: bytes) -> list[tuple[int, int]]:
    """Address and size of each load, as the FlexBuffers library reads the options."""
    root = tflite.Model.GetRootAs(model, 0)
    subgraph = root.Subgraphs(0)
    found = []
    for number in range(subgraph.OperatorsLength()):
        operator = subgraph.Operators(number)
        if root.OperatorCodes(operator.OpcodeIndex()).CustomCode() == b"XC_ld_weights":
            options = flexbuffers.Loads(operator.CustomOptionsAsNumpy().tobytes())
            found.append((options["a"], sum(options["s"])))
    return found


async def test_parameters_are_read_in_operator_order_at_every_run(converted: Converted) -> None:
    memory = Memory(converted.parameters)
    loads = loads_of(converted.model)
    async with open_engine(memory) as engine:
        await engine.load_model(converted.model, ModelMemory.EXT)
        assert memory.asked == []
        assert engine.parameter_traffic == ParameterTraffic(0, 0)
        for runs in (1, 2):
            await run_once(engine, IMAGES[0].image)
            assert memory.asked == loads * runs
            assert engine.parameter_traffic == ParameterTraffic(len(loads), sum(size for _, size in loads))
        await engine.unload_model()
        assert engine.parameter_traffic == ParameterTraffic(0, 0)
    assert len(loads) == 4


async def test_other_parameters_give_other_scores(converted: Converted) -> None:
    async with open_engine(Memory(bytes(len(converted.parameters)))) as engine:
        await engine.load_model(converted.model, ModelMemory.EXT)
        scores = {output for image, _ in IMAGES[:20] for output in await run_once(engine, image)}
    assert len(scores) == 1


async def test_parameters_are_no_input(converted: Converted) -> None:
    async with open_engine(Memory(converted.parameters)) as engine:
        await engine.load_model(converted.model, ModelMemory.EXT)
        assert engine.input_count == 1
        with pytest.raises(IndexError, match="no input 1: the model has 1"):
            engine.input(1)


async def test_a_read_that_fails_leaves_everything_as_it_was(converted: Converted) -> None:
    memory = Memory(converted.parameters, good=4)
    async with open_engine(memory) as engine:
        await engine.load_model(converted.model, ModelMemory.EXT)
        (first,) = await run_once(engine, IMAGES[0].image)
        memory.good = 6
        with pytest.raises(InvokeError, match=r"^the flash is gone$"):
            await run_once(engine, IMAGES[1].image)
        assert bytes(engine.output(0)) == first
        assert engine.parameter_traffic.requests == 4
        memory.good = 1_000_000
        assert await run_once(engine, IMAGES[0].image) == [first]


async def test_without_flash_it_is_refused(converted: Converted) -> None:
    async with open_engine() as engine:
        with pytest.raises(
            ModelError, match=r"^4 operators load parameters from flash: the engine has none$"
        ):
            await engine.load_model(converted.model, ModelMemory.EXT)
        assert engine.model is None


async def test_all_weights_in_the_model_need_no_flash(tmp_path: Path) -> None:
    model = xcore_tools.convert(
        xcore_tools.flat_digits(), tmp_path, "--xcore-load-externally-if-larger=1000000"
    ).model
    async with open_engine() as engine:
        await engine.load_model(model, ModelMemory.EXT)
        (scores,) = await run_once(engine, IMAGES[0].image)
        assert engine.parameter_traffic == ParameterTraffic(0, 0)
    assert np.frombuffer(scores, np.int8).argmax() == IMAGES[0].label


async def test_loads_beside_other_operators_are_refused(tmp_path: Path) -> None:
    model = xcore_tools.convert(xcore_tools.flat_digits(), tmp_path, "--xcore-async-load-weights").model
    async with open_engine(Memory(b"")) as engine:
        with pytest.raises(ModelError, match="while other operators run"):
            await engine.load_model(model, ModelMemory.EXT)


# Models that it cannot run.


def with_its_subgraph_twice(model: bytes) -> bytes:
    """Put another root in front, whose list of subgraphs names the model's only one twice."""
    root = tflite.Model.GetRootAs(model, 0)
    subgraph = root.Subgraphs(0)._tab.Pos
    vectors = {slot: root._tab.Vector(root._tab.Offset(4 + 2 * slot)) - 4 for slot in (1, 4, 6)}
    # From 8 on where the fields are in the table, from 32 on the table, from 56 on the list of subgraphs.
    fields = struct.pack(
        "<9H", 18, 24, 4, 8, 12, 0, 16, 0, 0
    )  # without metadata: a plan of memory is of one subgraph
    places = {40: vectors[1], 48: vectors[4], 52: vectors[6], 60: subgraph, 64: subgraph}
    table = struct.pack("<6I", 32 - 8, 3, 0, 56 - 44, 0, 0)
    front = bytearray(struct.pack("<I4s18s6x24sI20x", 32, b"TFL3", fields, table, 2))
    for at, target in places.items():
        front[at : at + 4] = struct.pack("<I", len(front) + target - at)
    return bytes(front) + model


async def test_loads_in_a_model_with_branches_are_refused(converted: Converted) -> None:
    async with open_engine(Memory(converted.parameters)) as engine:
        with pytest.raises(ModelError, match="2 subgraphs and XC_ld_weights"):
            await engine.load_model(with_its_subgraph_twice(converted.model), ModelMemory.EXT)


def dense_network(*scales: float) -> bytes:
    unit = Quantization.per_tensor(0.05, 0)
    weights = np.random.default_rng(1).integers(-127, 128, (2, 32), np.int8)
    tensors = (
        Tensor("in", (1, 32), TensorType.INT8, unit),
        constant_tensor("weights", weights, Quantization.per_channel(scales, 0)),
        Tensor("out", (1, 2), TensorType.INT8, Quantization.per_tensor(0.5, 0)),
    )
    dense = NetworkOperator(BuiltinOperator.FULLY_CONNECTED, ("in", "weights", ""), ("out",))
    return bytes(Network(tensors, (dense,), ("in",), ("out",)))


async def test_scales_for_each_channel_of_a_fully_connected_layer_are_refused() -> None:
    async with open_engine() as engine:
        with pytest.raises(ModelError, match=r"operator 0 \(FULLY_CONNECTED\) has a scale for each channel"):
            await engine.load_model(dense_network(0.01, 0.02), ModelMemory.EXT)


@pytest.mark.parametrize("scales", [(0.01,), (0.01, 0.01)])
async def test_one_scale_for_all_channels_is_computed(scales: tuple[float, ...]) -> None:
    model = dense_network(*scales)
    async with open_engine() as engine:
        await engine.load_model(model, ModelMemory.EXT)
        inputs = seeded_inputs(model, 5)
        assert await run_once(engine, *inputs) == networks.run(model, *inputs)


async def test_a_model_for_another_version_is_refused_by_name_and_version(
    converted: Converted,
) -> None:
    # The version of lib_tflite_micro is in words 4 to 6 of the configuration.
    config = next(m.data for m in read_model(converted.model).metadata if m.name == "xcoreSharedConfig")
    other = converted.model.replace(config, config[:20] + b"\x63" + config[21:])
    async with open_engine(Memory(converted.parameters)) as engine:
        with pytest.raises(
            ModelError, match=r"another version.*lib_tflite_micro 0\.99\.\d+, this is 0\.8\.\d+"
        ):
            await engine.load_model(other, ModelMemory.EXT)


@pytest.mark.parametrize(
    "model", [networks.custom_operator_network(), networks.unknown_operator_network(150)]
)
async def test_operators_that_it_does_not_have(model: bytes) -> None:
    async with open_engine() as engine:
        with pytest.raises(ModelError, match="its tensors cannot be allocated"):
            await engine.load_model(model, ModelMemory.EXT)
        await engine.load_model(digits.model_bytes(), ModelMemory.EXT)


async def test_damaged_models_are_errors_or_results(converted: Converted) -> None:
    """Whatever a damaged file does to the library, the engine loads and runs the next."""
    chance = random.Random(6)
    async with open_engine(Memory(converted.parameters)) as engine:
        for _ in range(40):
            damaged = bytearray(converted.model)
            for _ in range(4):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            try:
                await engine.load_model(bytes(damaged), ModelMemory.EXT)
                await engine.invoke()
            except InferenceError:
                continue
        await engine.load_model(digits.model_bytes(), ModelMemory.EXT)
        assert await run_once(engine, IMAGES[0].image) == networks.run(digits.model_bytes(), IMAGES[0].image)


# The library.


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xcore, "find_spec", lambda _name: None)
    with pytest.raises(
        MissingPackageError,
        match=r"^xmos-ai-tools is not installed: pip install (--no-deps xmos-ai-tools|.*\[xcore\]\")$",
    ):
        xcore.XcoreInterpreter()


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
def test_a_model_begins_at_a_multiple_of_16_bytes(size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    copies = [xcore._aligned(data) for _ in range(10)]
    assert [ctypes.addressof(copy) % 16 for copy in copies] == [0] * 10
    assert [bytes(copy) for copy in copies] == [data] * 10


def test_the_digits_network_is_made_flat_without_changing_it() -> None:
    flat, plain = xcore_tools.flat_digits(), digits.model_bytes()
    assert [networks.run(flat, image) for image, _ in IMAGES[:20]] == [
        networks.run(plain, image) for image, _ in IMAGES[:20]
    ]
