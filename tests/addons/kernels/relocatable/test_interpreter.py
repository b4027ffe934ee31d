"""The engine kind `relocatable`: images in workers, in the process, in a device; hostile ones die alone."""

import re
import struct
from functools import partial

import pytest

from aisrv import digits
from aisrv.addons.kernels.relocatable.fetches import count_fetches
from aisrv.addons.kernels.relocatable.interpreter import COUNTED_LINES, RelocatableInterpreter
from aisrv.board import Board, EngineSpec
from aisrv.device.device import open_device
from aisrv.inference.engine import InferenceEngine
from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import create_interpreter
from aisrv.inference.process.inline import InlineInterpreter
from aisrv.inference.process.isolation import IsolatedInterpreter, Limits, isolated
from aisrv.inference.timings import Basis, DeviceModel
from aisrv.inference.timings.estimation import estimate_times
from aisrv.model.errors import LoadResult
from aisrv.model.relocatable.container import Core, Image, Variant, offset
from aisrv.model.relocatable.model import read_loadable
from aisrv.model.relocatable.network import Network
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import get_command, set_command
from aisrv.protocol.engine_kind import EngineKind
from aisrv.protocol.memory_map import ModelMemory
from tests.support.amounts import is_in_full
from tests.support.benches.engines import ARENA, loaded, run_once
from tests.support.models import networks
from tests.support.models.relocatable import (
    DIGITS_FPU,
    DIGITS_M33,
    digits_image,
    fresh_image,
    needs_compiler,
    read,
)
from tests.support.peers import mlperf_tiny

pytest.importorskip("unicorn", reason="pip install pyelftools unicorn")

PICTURE = digits.test_images()[0].image
EXPECTED = networks.run(digits.model_bytes(), PICTURE)


def patched_run(code: bytes) -> bytes:
    """The digits' image with other code where `run` leads."""
    image = bytearray(digits_image())
    entry = offset(Image.from_bytes(image).header.run) - 1
    image[entry : entry + len(code)] = code
    return bytes(image)


@pytest.mark.parametrize("kind", ["relocatable", "relocatable:cortex-m4", "relocatable::copy"])
async def test_in_this_process(kind: str) -> None:
    async with loaded(InlineInterpreter(EngineKind.parse(kind)), digits_image()) as runner:
        for digit in digits.test_images()[:5]:
            assert await run_once(runner, digit.image) == networks.run(digits.model_bytes(), digit.image)


async def test_on_a_core_with_an_fpu() -> None:
    runner = InlineInterpreter(EngineKind("relocatable", core="cortex-m7"))
    async with loaded(runner, read(DIGITS_FPU)):
        assert await run_once(runner, PICTURE) == EXPECTED


async def test_fetches_of_each_run_are_counted_in_the_log() -> None:
    printed: list[str] = []
    runner = IsolatedInterpreter(printed.append, EngineKind.parse("relocatable::counted"))
    async with loaded(runner, digits_image()):
        for _ in range(2):
            await run_once(runner, bytes(len(PICTURE)))  # a run may overwrite it
    expected = f"execute in place: {count_fetches(Image.from_bytes(digits_image()))}\n"
    assert printed == [expected, expected]


async def test_counting_ends_at_its_limit_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("aisrv.addons.kernels.relocatable.interpreter.COUNTED_LINES", 1000)
    runner = InlineInterpreter(EngineKind.parse("relocatable::counted"))
    await runner.load(digits_image(), ARENA)
    for _ in range(2):
        assert await run_once(runner, PICTURE) == EXPECTED
        counted = re.fullmatch(
            r"execute in place: ([\d,]+) hits, ([\d,]+) misses .*; the rest of the run was not counted, "
            r"aisrv-flash reloc fetches counts all of it\n",
            capsys.readouterr().out,
        )
        assert counted is not None
        assert 1000 <= sum(int(each.replace(",", "")) for each in counted.groups()) < 1100


KEYWORD_SPOTTING_LINES = 8_400_000
"""Lines of the cache that MLPerf Tiny's keyword spotting touches."""


def test_keyword_spotting_is_within_what_is_counted() -> None:
    assert COUNTED_LINES > KEYWORD_SPOTTING_LINES


@pytest.mark.in_full
async def test_keyword_spotting_is_counted_as_a_whole() -> None:
    if not is_in_full():
        pytest.skip("it takes seven seconds: pytest --in-full")
    needs_compiler()
    printed: list[str] = []
    image = fresh_image(mlperf_tiny.model_bytes("kws_ref_model"), Variant(Core.CORTEX_M4))
    runner = IsolatedInterpreter(printed.append, EngineKind.parse("relocatable::counted"))
    async with loaded(runner, image):
        await run_once(runner, bytes(490))
    (line,) = printed
    counted = re.fullmatch(
        r"execute in place: ([\d,]+) hits, ([\d,]+) misses \(.* %\), .* bytes from flash\n", line
    )
    assert counted is not None
    lines = sum(int(each.replace(",", "")) for each in counted.groups())
    assert lines == pytest.approx(KEYWORD_SPOTTING_LINES, rel=0.01)


async def test_the_kernel_backend_in_a_worker() -> None:
    runner = IsolatedInterpreter(print, EngineKind.parse("kernels:relocatable"))
    async with loaded(runner, digits.model_bytes()):
        assert await run_once(runner, PICTURE) == EXPECTED


async def test_an_endless_run_is_stopped_and_the_next_one_starts_anew() -> None:
    runner = IsolatedInterpreter(print, EngineKind("relocatable"), Limits(invoke_seconds=0.5))
    async with loaded(runner, patched_run(b"\xfe\xe7")):
        for _ in range(2):
            with pytest.raises(InvokeError, match=r"took more than 0\.5 s"):
                await runner.invoke()


async def test_code_that_goes_astray_is_an_error() -> None:
    runner = IsolatedInterpreter(print, EngineKind("relocatable"))
    async with loaded(runner, patched_run(b"\x00\x20\x00\x47")):
        with pytest.raises(InvokeError, match="run: the code faulted at 0x0"):
            await runner.invoke()


@pytest.mark.parametrize(
    ("model", "kind", "reason"),
    [
        (
            digits.model_bytes(),
            "relocatable",
            "it does not begin with NBIN; make one with aisrv-flash reloc build",
        ),
        (digits_image()[:-1], "relocatable", "weights_end says"),
        (digits_image(), "relocatable:cortex-m7", "compiled for cortex-m4, this is cortex-m7"),
        (read(DIGITS_M33), "relocatable:cortex-m33", "the image has no weights"),
        (digits_image(), "tflite", "a relocatable image, on the engine tflite: use --engine relocatable"),
        (digits_image(), "kernels", "a relocatable image, on the engine kernels: use --engine relocatable"),
        (digits_image(), "relocatable:m4", "unknown core 'm4'; known ones: cortex-m0plus, "),
    ],
)
async def test_a_model_that_is_not_loaded(model: bytes, kind: str, reason: str) -> None:
    runner = InlineInterpreter(EngineKind.parse(kind))
    with pytest.raises(ModelError, match=reason):
        await runner.load(model, ARENA)


@pytest.mark.parametrize(("mode", "needed"), [("xip", 168 + 1280), ("copy", None)])
async def test_an_arena_that_is_too_small(mode: str, needed: int | None) -> None:
    needed = needed or Image.from_bytes(digits_image()).sizes.copy + 1280
    runner = InlineInterpreter(EngineKind("relocatable", mode=mode))
    with pytest.raises(ModelError, match="the arena has") as caught:
        await runner.load(digits_image(), needed - 1)
    assert caught.value.load_result is LoadResult.TENSORS_DO_NOT_FIT
    await runner.load(digits_image(), needed)


def test_the_interpreter_of_the_kind() -> None:
    interpreter = create_interpreter(EngineKind("relocatable"))
    assert isinstance(interpreter, RelocatableInterpreter)
    with pytest.raises(InvokeError, match="no model is loaded"):
        interpreter.invoke()


# As an engine.


async def test_memory_and_timings_of_an_engine() -> None:
    runners = partial(isolated, kind=EngineKind("relocatable"))
    device = DeviceModel(clock_mhz=100)
    engine = InferenceEngine(runners, arena_bytes=ARENA, external_bytes=1 << 20, device=device)
    await engine.load_model(digits_image(), ModelMemory.ARENA)
    memory = engine.memory_map
    assert memory is not None
    assert (memory.head_bytes, memory.tail_bytes, memory.model_bytes) == (1280, 168, len(digits_image()))
    engine.input(0)[:] = PICTURE
    await engine.invoke()
    nodes = Network.of(Image.from_bytes(digits_image())).nodes
    assert engine.timings == tuple(
        node.instructions for node in nodes
    )  # one instruction is a tick at 100 MHz
    await engine.unload_model()


def test_an_image_as_a_model() -> None:
    model = read_loadable(digits_image())
    assert [tensor.shape for tensor in model.tensors] == [(1, 8, 8, 1), (1, 10)]
    names = ["CONV_2D", "MAX_POOL_2D", "CONV_2D", "MAX_POOL_2D", "FULLY_CONNECTED", "SOFTMAX"]
    assert [operator.name for operator in model.operators] == names
    times = estimate_times(DeviceModel(), model)
    assert {time.basis for time in times} == {Basis.ESTIMATE}


async def test_a_device_takes_an_image_and_a_wrong_one_leaves_no_model() -> None:
    board = Board(engines=(EngineSpec(kind=EngineKind("relocatable")),))
    async with open_device(board) as device:
        engine = device.local[0]
        assert await set_command(engine, Command.SET_MODEL_ARENA, 0, digits_image()) is Status.OKAY
        assert await set_command(engine, Command.SET_INPUT_TENSOR, 0, PICTURE) is Status.OKAY
        assert await set_command(engine, Command.START_INFER) is Status.OKAY
        assert await get_command(engine, Command.GET_OUTPUT_TENSOR) == (Status.OKAY, EXPECTED[0])
        wrong = bytearray(digits_image())
        struct.pack_into("<I", wrong, 96, 0)
        assert await set_command(engine, Command.SET_MODEL_ARENA, 0, bytes(wrong)) is Status.ERROR_MODEL_ERR
        assert await set_command(engine, Command.START_INFER) is not Status.OKAY
