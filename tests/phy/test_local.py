"""Local channel ends: every function against the real engine, or its exact bytes against a scripted one."""

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from aisrv import digits
from aisrv.board import Board
from aisrv.board.catalog import BOARDS
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import AcquireMode, Command, GpioMode, ProtocolError, Spec, Status
from aisrv.values.packet import replace
from aisrv.xcore.channels.chanend import ChanEnd
from phy import local
from tests.support.benches.scripted_engine import Recorded, ScriptedEngine
from tests.support.benches.wires import wire
from tests.support.models import networks

MODEL = digits.model_bytes()
IMAGES = [image for image, _ in digits.test_images()[:8]]


@asynccontextmanager
async def device(board: str = "single") -> AsyncIterator[Device]:
    async with open_device(BOARDS[board], runner=inline) as opened:
        yield opened


@asynccontextmanager
async def scripted(script: ScriptedEngine) -> AsyncIterator[ChanEnd]:
    async with wire() as w, trio.open_nursery() as nursery:
        nursery.start_soon(script.run, w.b)
        yield w.a
        nursery.cancel_scope.cancel()


# Against the real engine.


async def test_model_input_inference_and_output() -> None:
    async with device() as d:
        (c,) = d.local
        await local.aisrv_local_load_model(c, MODEL)
        for image in IMAGES:
            await local.aisrv_local_set_input_tensor(c, image)
            await local.aisrv_local_start_inference(c)
            assert await local.aisrv_local_get_output_tensor(c) == networks.run(MODEL, image)[0]


async def test_tensors_by_number() -> None:
    async with device() as d:
        (c,) = d.local
        await local.aisrv_local_load_model(c, networks.adding_network(2, 2, 3))
        await local.aisrv_local_set_input_tensor(c, b"\x01\x02\x03", tensor=0)
        await local.aisrv_local_set_input_tensor(c, memoryview(b"\x10\x20\x30"), tensor=1)
        assert await local.aisrv_local_get_input_tensor(c, tensor=1) == b"\x10\x20\x30"
        await local.aisrv_local_start_inference(c)
        assert await local.aisrv_local_get_output_tensor(c, tensor=1) == b"\x11\x22\x33"
        assert await local.aisrv_local_get_input_tensor_length(c, tensor=1) == 3
        assert await local.aisrv_local_get_output_tensor_length(c) == 3


async def test_spec_has_the_sizes_of_the_model() -> None:
    async with device() as d:
        (c,) = d.local
        hardware = Spec(tiles=2, internal_kib=512, external_kib=16384)
        assert await local.aisrv_local_get_spec(c) == hardware
        await local.aisrv_local_load_model(c, MODEL)
        loaded = replace(hardware, input_bytes=64, output_bytes=10, timing_count=6)
        assert await local.aisrv_local_get_spec(c) == loaded


async def test_timings_are_one_for_each_operator() -> None:
    async with device() as d:
        (c,) = d.local
        await local.aisrv_local_load_model(c, MODEL)
        await local.aisrv_local_start_inference(c)
        timings = await local.aisrv_local_get_timings(c)
        assert timings == tuple(d.engines[0].inference.timings)
        assert len(timings) == 6
        assert min(timings) > 0


@pytest.mark.parametrize(("memory", "in_arena"), [("arena", True), ("ext", False)])
async def test_model_goes_to_the_memory_that_was_asked_for(memory: local.Memory, in_arena: bool) -> None:
    async with device() as d:
        model = networks.big_network(1 << 20)  # larger than the arena
        loading = local.aisrv_local_load_model(d.local[0], model, memory)
        if in_arena:
            with pytest.raises(local.LocalError) as caught:
                await loading
            assert caught.value.status is Status.ERROR_MODEL_ERR
        else:
            await loading
            assert d.engines[0].inference.model is not None


async def test_id_status_and_debug_log() -> None:
    async with device() as d:
        (c,) = d.local
        assert await local.aisrv_local_get_id(c) == 0x12345678
        assert await local.aisrv_local_get_debug_log(c) == ""
        with pytest.raises(local.LocalError):
            await local.aisrv_local_start_inference(c)
        with pytest.raises(local.LocalError):
            await local.aisrv_local_load_model(c, b"nonsense")
        both = Status.ERROR_NO_MODEL | Status.ERROR_MODEL_ERR
        assert await local.aisrv_local_get_status(c) == both
        assert await local.aisrv_local_get_status(c) is Status.OKAY
        log = await local.aisrv_local_get_debug_log(c)
        assert "START_INFER: no model is loaded" in log
        assert "\0" not in log


async def test_gpio_settings_come_back() -> None:
    async with device() as d:
        (c,) = d.local
        assert await local.aisrv_local_get_output_gpio_en(c) is False
        assert await local.aisrv_local_get_output_gpio_mode(c) is GpioMode.NONE
        await local.aisrv_local_set_output_gpio_en(c, True)
        await local.aisrv_local_set_output_gpio_mode(c, GpioMode.MAX)
        await local.aisrv_local_set_output_gpio_thresh(c, 3, -5)
        assert await local.aisrv_local_get_output_gpio_en(c) is True
        assert await local.aisrv_local_get_output_gpio_mode(c) is GpioMode.MAX
        assert await local.aisrv_local_get_output_gpio_thresh(c) == (-128, -128, -128, -5)


async def test_chained_engines() -> None:
    async with device("chained") as d:
        first, second = d.local
        models = networks.cut_in_two()
        await local.aisrv_local_load_model(first, models[0])
        await local.aisrv_local_load_model(second, models[1])
        for image in IMAGES:
            await local.aisrv_local_set_input_tensor(first, image)
            await local.aisrv_local_start_inference(first)
            assert await local.aisrv_local_get_output_tensor(second) == networks.run(MODEL, image)[0]


async def test_failure_in_the_chain_is_the_failure_of_the_command() -> None:
    async with device("chained") as d:
        await local.aisrv_local_load_model(d.local[0], networks.cut_in_two()[0])
        with pytest.raises(local.LocalError) as caught:
            await local.aisrv_local_start_inference(d.local[0])
        assert caught.value.status is Status.ERROR_NO_MODEL


async def test_two_engines_in_turn() -> None:
    async with device("two-engines") as d:
        adder, reader = d.local
        await local.aisrv_local_load_model(adder, networks.adding_network(1, 1, 64))
        await local.aisrv_local_load_model(reader, MODEL)
        for image in IMAGES:
            half = bytes(((pixel - 256 if pixel > 127 else pixel) // 2) & 0xFF for pixel in image)
            await local.aisrv_local_set_input_tensor(adder, half)
            await local.aisrv_local_start_inference(adder)
            doubled = await local.aisrv_local_get_output_tensor(adder)
            await local.aisrv_local_set_input_tensor(reader, doubled)
            await local.aisrv_local_start_inference(reader)
            got = await local.aisrv_local_get_output_tensor(reader)
            assert got == networks.run(MODEL, bytes(2 * byte & 0xFF for byte in half))[0]


@pytest.mark.plain_time("only its own waits take time")
def test_a_task_on_a_tile_uses_an_engine_on_virtual_time() -> None:
    async def director(d: Device, done: trio.Event) -> None:
        (c,) = d.local
        await local.aisrv_local_load_model(c, MODEL)
        for image in IMAGES:
            await trio.sleep(3600)
            await local.aisrv_local_set_input_tensor(c, image)
            await local.aisrv_local_start_inference(c)
            assert await local.aisrv_local_get_output_tensor(c) == networks.run(MODEL, image)[0]
        done.set()

    async def main() -> float:
        async with open_device(Board(), runner=inline) as d:
            done = trio.Event()
            d.node.tiles[0].start(director, d, done)
            await done.wait()
        return trio.current_time()

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == len(IMAGES) * 3600


async def refused(call: Awaitable[object], command: Command, status: Status) -> None:
    with pytest.raises(local.LocalError) as caught:
        await call
    assert (caught.value.command, caught.value.status) == (command, status)


async def test_a_refusal_tells_command_and_status_and_the_end_stays_usable() -> None:
    async with device() as d:
        (c,) = d.local
        no_model, bad = Status.ERROR_NO_MODEL, Status.ERROR_BAD_CMD
        await refused(local.aisrv_local_get_output_tensor(c), Command.GET_OUTPUT_TENSOR, no_model)
        await refused(local.aisrv_local_get_timings(c), Command.GET_TIMINGS, no_model)
        await local.aisrv_local_load_model(c, MODEL)
        await refused(local.aisrv_local_get_output_tensor(c, 1), Command.GET_OUTPUT_TENSOR, bad)
        await refused(local.aisrv_local_set_input_tensor(c, bytes(63)), Command.SET_INPUT_TENSOR, bad)
        await refused(local.aisrv_local_set_input_tensor(c, bytes(65)), Command.SET_INPUT_TENSOR, bad)
        await refused(local.aisrv_local_set_output_gpio_thresh(c, 4, 0), Command.SET_OUTPUT_GPIO_THRESH, bad)
        assert len(await local.aisrv_local_get_output_tensor(c)) == 10


async def test_a_refusal_says_which_command_and_why() -> None:
    async with device() as d:
        with pytest.raises(local.LocalError, match=r"^START_INFER: .*ERROR_NO_MODEL"):
            await local.aisrv_local_start_inference(d.local[0])


# Exact bytes, against a scripted engine.

Call = Callable[[ChanEnd], Awaitable[object]]


@pytest.mark.parametrize(
    ("call", "recorded"),
    [
        (
            lambda c: local.aisrv_local_acquire_single(c, 1, 0x203, 4, 0xFFFF, 96, 0),
            Recorded(0x8C, 0, bytes.fromhex("0100 0302 0400 ffff 6000 0000")),
        ),
        (local.aisrv_local_acquire_frame, Recorded(0x8C, 0, b"")),
        (local.aisrv_local_acquire_stream, Recorded(0x8E, 0, b"")),
        (lambda c: local.aisrv_local_set_i2c(c, 0x24, 0, 255), Recorded(0x8F, 0, b"\x24\x00\xff")),
        (lambda c: local.aisrv_local_set_sensor_tensor(c, b"frame"), Recorded(0x8D, 0, b"frame")),
        (local.aisrv_local_start_inference, Recorded(0x84, 0, b"")),
        (lambda c: local.aisrv_local_set_input_tensor(c, b"abc", 7), Recorded(0x83, 7, b"abc")),
        (lambda c: local.aisrv_local_load_model(c, b"model"), Recorded(0x86, 0, b"model")),
        (lambda c: local.aisrv_local_load_model(c, b"model", "ext"), Recorded(0x87, 0, b"model")),
        (local.aisrv_local_load_model_from_flash, Recorded(0x96, 0, b"")),
        (lambda c: local.aisrv_local_load_model_from_flash(c, "ext"), Recorded(0x97, 0, b"")),
        (lambda c: local.aisrv_local_set_output_gpio_thresh(c, 2, -1), Recorded(0x92, 0, b"\x02\xff")),
        (lambda c: local.aisrv_local_set_output_gpio_en(c, True), Recorded(0x91, 0, b"\x01")),
        (lambda c: local.aisrv_local_set_output_gpio_mode(c, GpioMode.MAX), Recorded(0x93, 0, b"\x01")),
    ],
)
async def test_command_of_a_set(call: Call, recorded: Recorded) -> None:
    script = ScriptedEngine()
    async with scripted(script) as c:
        await call(c)
    assert script.commands == [recorded]


@pytest.mark.parametrize(
    ("call", "code", "answer", "result"),
    [
        (local.aisrv_local_get_sensor_tensor, 0x0D, b"frame", b"frame"),
        (local.aisrv_local_get_sensor_tensor_length, 0x0C, b"\0\1\0\0", 256),
        (local.aisrv_local_get_acquire_mode, 0x0E, b"\1\0\0\0", AcquireMode.STREAM),
        (local.aisrv_local_get_timings, 0x09, struct.pack("<2I", 1, 2**32 - 1), (1, 2**32 - 1)),
        (local.aisrv_local_get_timings, 0x09, b"", ()),
        (local.aisrv_local_get_debug_log, 0x0F, b"one\ntwo\0\0", "one\ntwo"),
        (local.aisrv_local_get_debug_log, 0x0F, b"\xff\0", "\N{REPLACEMENT CHARACTER}"),
        (local.aisrv_local_get_input_tensor_length, 0x0A, b"\1\2\0\0", 0x201),
        (local.aisrv_local_get_output_tensor_length, 0x0B, b"\1\2\0\0", 0x201),
        (local.aisrv_local_get_output_gpio_thresh, 0x12, b"\x80\x7f\0\xff", (-128, 127, 0, -1)),
    ],
)
async def test_answer_of_a_get(call: Call, code: int, answer: bytes, result: object) -> None:
    script = ScriptedEngine(answers={code: answer})
    async with scripted(script) as c:
        assert await call(c) == result
    assert script.commands == [Recorded(code, 0)]


@pytest.mark.parametrize(
    ("call", "code", "answer"),
    [
        (local.aisrv_local_get_id, 0x10, b"\1\2\3"),
        (local.aisrv_local_get_status, 0x01, b""),
        (local.aisrv_local_get_timings, 0x09, b"\1\2\3\4\5"),
        (local.aisrv_local_get_output_gpio_thresh, 0x12, b"\1\2\3"),
        (local.aisrv_local_get_spec, 0x08, bytes(19)),
    ],
)
async def test_answer_of_a_wrong_length_is_refused(call: Call, code: int, answer: bytes) -> None:
    async with scripted(ScriptedEngine(answers={code: answer})) as c:
        with pytest.raises(ProtocolError, match=r"bytes|thresholds"):
            await call(c)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: local.aisrv_local_acquire_single(c, -1, 0, 0, 0, 0, 0),
        lambda c: local.aisrv_local_acquire_single(c, 0, 0, 0, 0, 0, 65536),
        lambda c: local.aisrv_local_set_i2c(c, 256, 0, 0),
        lambda c: local.aisrv_local_set_output_gpio_thresh(c, 0, 128),
        lambda c: local.aisrv_local_set_output_gpio_thresh(c, -1, 0),
    ],
)
async def test_number_out_of_range_never_reaches_the_engine(call: Call) -> None:
    script = ScriptedEngine()
    async with scripted(script) as c:
        with pytest.raises(ValueError, match=r"START_ACQUIRE|SET_OUTPUT_GPIO"):
            await call(c)
    assert script.commands == []


@pytest.mark.parametrize("size", [0, 1, 3, 4, 511, 512, 513, 1024])
async def test_tensor_of_any_size_arrives_whole(size: int) -> None:
    data = bytes(number * 7 & 0xFF for number in range(size))
    script = ScriptedEngine(answers={0x05: data})
    async with scripted(script) as c:
        await local.aisrv_local_set_input_tensor(c, data)
        assert await local.aisrv_local_get_output_tensor(c) == data
    assert script.commands[0] == Recorded(0x83, 0, data)
