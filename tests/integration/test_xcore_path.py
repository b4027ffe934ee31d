"""Models that XMOS's converter made, in a device: booted from flash, with their parameters read from there.

The converter and the library are PyPI's `xmos-ai-tools` (`tests/support/peers/xcore_tools.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from aisrv import digits
from aisrv.board import Board, EngineSpec, FlashSpec
from aisrv.device.device import Device, open_device
from aisrv.inference.parameters import ParameterTraffic, parameter_loads
from aisrv.inference.process.isolation import IsolatedInterpreter, isolated
from aisrv.model.reader import read_model
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import get_command, set_command
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.settings.size import Size
from aisrv.xcore.tokens import Run
from aisrv.xcore.trace import TracedEnd, Tracer
from flash_server.chip.part import MX25R3235F
from flash_server.chip.storage import LARGEST_WRITE, FileStorage
from flash_server.image import DataPartition, EngineImage, Generation
from flash_server.protocol import FlashCommand, FlashRequest
from tests.support.benches.device_log import log_of
from tests.support.models import networks
from tests.support.peers import mlperf_tiny, xcore_tools
from tests.support.peers.xcore_tools import Converted

BOOT_BYTES = Size(64 * 1024)
IMAGES = digits.test_images()
ARENA_FLASH, EXT_FLASH = Command.SET_MODEL_ARENA_FLASH, Command.SET_MODEL_EXT_FLASH

Chip = Callable[..., FlashSpec]
XCORE = EngineKind("xcore")
Scores = npt.NDArray[np.int8]


def xcore(log: Callable[[str], None], *, kind: EngineKind = XCORE) -> IsolatedInterpreter:
    """Run every engine's models in XMOS's library, whatever its board says."""
    return isolated(log, kind=XCORE)


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    yield from xcore_tools.use_library()


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return xcore_tools.convert(xcore_tools.flat_digits(), tmp_path_factory.mktemp("digits"))


@pytest.fixture
def chip(tmp_path: Path) -> Chip:
    """Make a chip's file with a data partition of one image for each engine."""

    def make(
        *engines: EngineImage, generation: Generation = Generation.FAST, swapped: bool | None = None
    ) -> FlashSpec:
        path = tmp_path / "chip.bin"
        data = DataPartition(engines, generation, swapped).build()
        with FileStorage(path, MX25R3235F.size) as storage:
            for at in range(0, len(data), LARGEST_WRITE):
                storage.write(BOOT_BYTES + at, data[at : at + LARGEST_WRITE])
        return FlashSpec(MX25R3235F, path=path, boot_bytes=BOOT_BYTES)

    return make


def board(flash: FlashSpec, boot: Command = EXT_FLASH) -> Board:
    return Board(engines=(EngineSpec(boot=boot),), flashes=(flash,))


async def infer(device: Device, data: bytes, engine: int = 0) -> Scores:
    c = device.local[engine]
    assert await set_command(c, Command.SET_INPUT_TENSOR, 0, data) is Status.OKAY
    assert await set_command(c, Command.START_INFER) is Status.OKAY
    _, scores = await get_command(c, Command.GET_OUTPUT_TENSOR)
    return np.frombuffer(scores, np.int8)


def original(model: bytes, data: bytes) -> Scores:
    """Scores of the model before it was converted, in TensorFlow Lite."""
    return np.frombuffer(networks.run(model, data)[0], np.int8)


# The right classes.


@pytest.mark.parametrize("boot", [ARENA_FLASH, EXT_FLASH])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("generation", Generation)
async def test_digits_boot_from_flash_and_are_told_apart(
    generation: Generation, swapped: bool, boot: Command, converted: Converted, chip: Chip
) -> None:
    flash = chip(EngineImage(converted.model, converted.parameters), generation=generation, swapped=swapped)
    async with open_device(board(flash, boot), runner=xcore) as device:
        for image, label in IMAGES[:10]:
            assert (await infer(device, image)).argmax() == label


@pytest.mark.parametrize(
    ("name", "largest"), [("kws_ref_model", 8), ("vww_96_int8", 4), ("str_ww_ref_model", 4)]
)
async def test_mlperf_tiny_models_keep_their_classes(
    name: str, largest: int, chip: Chip, tmp_path: Path
) -> None:
    """XMOS's kernels round otherwise, by a few steps of the output at most."""
    model = mlperf_tiny.model_bytes(name)
    made = xcore_tools.convert(model, tmp_path)
    size = read_model(model).input_bytes
    async with open_device(board(chip(EngineImage(made.model, made.parameters))), runner=xcore) as device:
        for seed in range(3):
            data = np.random.default_rng(seed).integers(-128, 128, size, np.int8).tobytes()
            scores, expected = await infer(device, data), original(model, data)
            assert scores.argmax() == expected.argmax()
            assert np.abs(scores.astype(int) - expected).max() <= largest


async def test_the_device_gives_the_bytes_of_the_library_called_directly(
    converted: Converted, chip: Chip
) -> None:
    direct = isolated(lambda _text: None, kind=XCORE)
    await direct.load(converted.model, 448 * 1024)
    direct.input(1)[:] = converted.parameters
    flash = chip(EngineImage(converted.model, converted.parameters))
    async with open_device(board(flash), runner=xcore) as device:
        for image, _ in IMAGES[:50]:
            direct.input(0)[:] = image
            await direct.invoke()
            assert (await infer(device, image)).tobytes() == bytes(direct.output(0))
    await direct.close()


async def test_each_engine_reads_its_own_parameters(converted: Converted, chip: Chip) -> None:
    blank = bytes(len(converted.parameters))
    flash = chip(EngineImage(converted.model, blank), EngineImage(converted.model, converted.parameters))
    engines = (EngineSpec(0, 200 * 1024, boot=EXT_FLASH), EngineSpec(1, 200 * 1024, boot=EXT_FLASH))
    async with open_device(Board(engines=engines, flashes=(flash,)), runner=xcore) as device:
        blanks, scores = set(), []
        for image, _ in IMAGES[:10]:
            blanks.add((await infer(device, image, 0)).tobytes())
            scores.append((await infer(device, image, 1)).argmax())
    assert len(blanks) == 1
    assert scores == [label for _, label in IMAGES[:10]]


# How the parameters come.


class Reads(Tracer):
    """The requests that went to the flash server, by the tokens that a channel end sent."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    def output(self, end: TracedEnd, run: Run, tick: int) -> None:
        if isinstance(run, bytes) and len(run) == 12:
            self.requests.append(run)


async def test_every_run_reads_the_parameters_on_the_channel_in_operator_order(
    converted: Converted, chip: Chip
) -> None:
    loads = parameter_loads(read_model(converted.model))
    expected = [
        bytes(FlashRequest(FlashCommand.READ_PARAMETERS, (load.address, load.size))) for load in loads
    ]
    flash = chip(EngineImage(converted.model, converted.parameters))
    async with open_device(board(flash), runner=xcore) as device:
        inference = device.engines[0].inference
        assert inference.parameter_traffic == ParameterTraffic(0, 0)
        for _ in range(2):
            reads = Reads()
            with device.node.tracing(reads):
                await infer(device, IMAGES[0].image)
            assert [request for request in reads.requests if request in expected] == expected
            assert inference.parameter_traffic == ParameterTraffic(4, sum(load.size for load in loads))


async def test_timings_include_the_loads(converted: Converted, chip: Chip) -> None:
    operators = read_model(converted.model).operators
    flash = chip(EngineImage(converted.model, converted.parameters))
    async with open_device(board(flash), runner=xcore) as device:
        await infer(device, IMAGES[0].image)
        _, words = await get_command(device.local[0], Command.GET_TIMINGS)
    ticks = memoryview(words).cast("I")
    loads = {load.operator: load.size for load in parameter_loads(read_model(converted.model))}
    assert len(ticks) == len(operators)
    # 100 MHz ticks: no flash has more than 50 MB/s, so a byte takes 2 of them at least.
    assert all(ticks[operator] >= 2 * size for operator, size in loads.items())


# What is missing or broken.


async def refused(device: Device) -> str:
    """Have an inference fail, and give its line of the debug log; the engine goes on."""
    c = device.local[0]
    assert await set_command(c, Command.SET_INPUT_TENSOR, 0, IMAGES[0].image) is Status.OKAY
    assert await set_command(c, Command.START_INFER) is Status.ERROR_INFER_ERR
    return (await log_of(device)).splitlines()[-1]


async def test_an_image_without_parameters_fails_the_inference(converted: Converted, chip: Chip) -> None:
    flash = chip(EngineImage(converted.model))
    async with open_device(board(flash), runner=xcore) as device:
        assert await refused(device) == (
            "START_INFER: the parameters in flash cannot be read: READ_PARAMETERS 6656 1024: "
            "the image has no such segment for this client"
        )


async def test_parameters_that_are_cut_off_fail_the_inference(converted: Converted, chip: Chip) -> None:
    cut = converted.parameters[:-4]
    # Sizes are not stored: what follows says where the parameters end.
    flash = chip(EngineImage(converted.model, cut, operators=b"next"))
    async with open_device(board(flash), runner=xcore) as device:
        line = await refused(device)
        assert "the parameters in flash cannot be read: READ_PARAMETERS" in line
        assert "past the end" in line


async def test_a_device_goes_on_after_parameters_that_could_not_be_read(
    converted: Converted, chip: Chip
) -> None:
    flash = chip(EngineImage(converted.model))
    async with open_device(board(flash), runner=xcore) as device:
        await refused(device)
        c = device.local[0]
        assert await set_command(c, Command.SET_MODEL_EXT, 0, digits.model_bytes()) is Status.OKAY
        scores = await infer(device, IMAGES[0].image)
    assert scores.tobytes() == original(digits.model_bytes(), IMAGES[0].image).tobytes()


async def test_a_board_without_flash_refuses_the_model(converted: Converted) -> None:
    async with open_device(Board(), runner=xcore) as device:
        c = device.local[0]
        assert await set_command(c, Command.SET_MODEL_EXT, 0, converted.model) is Status.ERROR_MODEL_ERR
        assert "4 operators load parameters from flash: the engine has none" in await log_of(device)


async def test_a_model_set_by_a_host_finds_its_parameters_in_flash(converted: Converted, chip: Chip) -> None:
    flash = chip(EngineImage(None, converted.parameters), generation=Generation.DESIGN)
    empty = replace(board(flash), engines=(EngineSpec(),))
    async with open_device(empty, runner=xcore) as device:
        c = device.local[0]
        assert await set_command(c, Command.SET_MODEL_ARENA, 0, converted.model) is Status.OKAY
        assert (await infer(device, IMAGES[0].image)).argmax() == IMAGES[0].label
