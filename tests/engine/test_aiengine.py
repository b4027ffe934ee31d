"""The AI engine over its channel: every command, good and bad. Models run inline, on the real interpreter."""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost
from aisrv.board import Board, EngineSpec
from aisrv.device.device import Device, ModelRefused, open_device
from aisrv.engine.debug_log import SIZE as DEBUG_LOG_SIZE
from aisrv.inference.process.inline import inline
from aisrv.model.reader import read_model
from aisrv.protocol.commands import Command, CommandPacket, Spec, Status
from aisrv.protocol.engine_channel import get_command, set_command
from aisrv.protocol.timing_bands import TimingBands
from tests.inference.interpreters.test_tflite import scatter_network
from tests.support.models import networks

IMAGES = digits.test_images()
LATER = [
    Command.START_ACQUIRE_SINGLE,
    Command.START_ACQUIRE_STREAM,
    Command.START_ACQUIRE_SET_I2C,
    Command.SET_SENSOR_TENSOR,
    Command.GET_SENSOR_TENSOR,
    Command.SET_SERVER,
]


@asynccontextmanager
async def engine(board: Board | None = None, model: bytes | None = None) -> AsyncIterator[Device]:
    async with open_device(board, runner=inline) as device:
        if model is not None:
            assert await set_command(device.local[0], Command.SET_MODEL_ARENA, 0, model) == Status.OKAY
        yield device


async def put(device: Device, command: int, data: bytes = b"", tensor: int = 0) -> Status:
    return await set_command(device.local[0], command, tensor, data)


async def get(device: Device, command: int, tensor: int = 0) -> bytes:
    status, data = await get_command(device.local[0], command, tensor)
    assert status == Status.OKAY
    return data


async def refused(device: Device, command: int, tensor: int = 0) -> Status:
    status, data = await get_command(device.local[0], command, tensor)
    assert data == b""
    return status


async def log_of(device: Device) -> str:
    return (await get(device, Command.GET_DEBUG_LOG)).rstrip(b"\0").decode()


# Without a model.


async def test_the_id_is_the_servers() -> None:
    async with engine() as device:
        assert await get(device, Command.GET_ID) == bytes.fromhex("78563412")


@pytest.mark.parametrize("command", [Command.NONE, Command.HELLO])
async def test_none_and_hello_answer_nothing_and_do_nothing(command: Command) -> None:
    async with engine() as device:
        assert await get(device, command) == b""
        assert await get(device, Command.GET_STATUS) == bytes(4)


async def test_the_spec_describes_the_hardware_and_no_model() -> None:
    async with engine(Board(engines=(EngineSpec(external_bytes=2 << 20),))) as device:
        # kind 0, 2 tiles, 512 KiB a tile, no flash, 2048 KiB external, three words of 0
        assert await get(device, Command.GET_SPEC) == bytes.fromhex(
            "0002 0002 0000 0008".replace(" ", "")
        ) + bytes(12)


@pytest.mark.parametrize(
    "command",
    [
        Command.GET_INPUT_TENSOR,
        Command.GET_OUTPUT_TENSOR,
        Command.GET_INPUT_TENSOR_LENGTH,
        Command.GET_OUTPUT_TENSOR_LENGTH,
        Command.GET_TIMINGS,
    ],
)
async def test_a_get_that_needs_a_model_says_there_is_none(command: Command) -> None:
    async with engine() as device:
        assert await refused(device, command) == Status.ERROR_NO_MODEL


@pytest.mark.parametrize("command", [Command.SET_INPUT_TENSOR, Command.START_INFER])
async def test_a_set_that_needs_a_model_says_there_is_none(command: Command) -> None:
    async with engine() as device:
        assert await put(device, command) == Status.ERROR_NO_MODEL


@pytest.mark.parametrize("command", LATER, ids=lambda command: command.name)
async def test_a_command_whose_part_is_not_there_is_a_bad_command(command: Command) -> None:
    async with engine() as device:
        if command & 0x80:
            assert await put(device, command, b"12345") == Status.ERROR_BAD_CMD
        else:
            assert await refused(device, command) == Status.ERROR_BAD_CMD
        assert await get(device, Command.GET_ID)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 511, 512, 513, 1024, 100_000])
async def test_an_unknown_set_is_drained_and_refused(size: int) -> None:
    async with engine() as device:
        assert await put(device, 0xFE, bytes(size)) == Status.ERROR_BAD_CMD
        assert await get(device, Command.GET_ID)


@pytest.mark.parametrize("command", [0x180, 0x183, 0x8000_0084, 0xFFFF_FFFF])
async def test_a_set_that_only_the_design_framing_can_name_is_refused(command: int) -> None:
    async with engine(model=digits.model_bytes()) as device:
        assert await put(device, command) == Status.ERROR_BAD_CMD


FREE = next(code for code in range(Command.GET_ID, 0x80) if code not in list(Command))


@pytest.mark.parametrize("command", [0x02, 0x7F, FREE, 0x1234_5678])
async def test_an_unknown_get_is_refused(command: int) -> None:
    async with engine() as device:
        assert await refused(device, command) == Status.ERROR_BAD_CMD


async def test_the_status_keeps_error_bits_until_they_are_read() -> None:
    async with engine() as device:
        await put(device, Command.START_INFER)
        await put(device, 0xFE)
        both = Status.ERROR_NO_MODEL | Status.ERROR_BAD_CMD
        assert await get(device, Command.GET_STATUS) == struct.pack("<I", both)
        assert await get(device, Command.GET_STATUS) == bytes(4)


async def test_the_debug_log_names_the_command_and_the_reason() -> None:
    async with engine() as device:
        await put(device, Command.START_INFER)
        log = await get(device, Command.GET_DEBUG_LOG)
        assert len(log) == DEBUG_LOG_SIZE
        assert log.rstrip(b"\0") == b"START_INFER: no model is loaded\n"


# Models.


@pytest.mark.parametrize("command", [Command.SET_MODEL_ARENA, Command.SET_MODEL_EXT])
async def test_a_model_is_described_in_the_spec(command: Command) -> None:
    async with engine() as device:
        assert await put(device, command, digits.model_bytes()) == Status.OKAY
        spec = Spec.from_bytes(await get(device, Command.GET_SPEC))
        operators = len(read_model(digits.model_bytes()).operators)
        assert (spec.input_bytes, spec.output_bytes, spec.timing_count) == (64, 10, operators)


async def test_a_second_model_replaces_the_first() -> None:
    async with engine(model=digits.model_bytes()) as device:
        assert await put(device, Command.SET_MODEL_ARENA, networks.two_input_add_network()) == Status.OKAY
        assert Spec.from_bytes(await get(device, Command.GET_SPEC)).input_bytes == 32


async def test_no_bytes_are_no_model() -> None:
    async with engine() as device:
        assert await put(device, Command.SET_MODEL_ARENA) == Status.ERROR_MODEL_ERR


@pytest.mark.parametrize("cut", range(0, 9000, 751))
async def test_a_truncated_model_is_refused(cut: int) -> None:
    async with engine() as device:
        status = await put(device, Command.SET_MODEL_ARENA, digits.model_bytes()[:cut])
        assert status == Status.ERROR_MODEL_ERR
        assert await refused(device, Command.GET_TIMINGS) == Status.ERROR_NO_MODEL


async def test_a_model_of_another_schema_version_is_refused_with_both_versions() -> None:
    async with engine() as device:
        model = networks.wrong_version(digits.model_bytes(), 2)
        assert await put(device, Command.SET_MODEL_ARENA, model) == Status.ERROR_MODEL_ERR
        log = await log_of(device)
        assert "version 2" in log
        assert "3" in log


async def test_an_unknown_operator_is_refused_by_number() -> None:
    async with engine() as device:
        model = networks.unknown_operator_network(9999)
        assert await put(device, Command.SET_MODEL_ARENA, model) == Status.ERROR_MODEL_ERR
        assert "9999" in await log_of(device)


async def test_a_custom_operator_is_refused_by_name() -> None:
    async with engine() as device:
        model = networks.custom_operator_network("NoSuchOperator")
        assert await put(device, Command.SET_MODEL_ARENA, model) == Status.ERROR_MODEL_ERR
        assert "NoSuchOperator" in await log_of(device)


async def test_a_failed_load_leaves_no_model() -> None:
    async with engine(model=digits.model_bytes()) as device:
        assert await put(device, Command.SET_MODEL_ARENA, b"nonsense" * 10) == Status.ERROR_MODEL_ERR
        assert await put(device, Command.START_INFER) == Status.ERROR_NO_MODEL


async def test_a_model_larger_than_the_arena_is_refused_with_both_sizes() -> None:
    async with engine(Board(engines=(EngineSpec(arena_bytes=9000),))) as device:
        model = digits.model_bytes()
        assert await put(device, Command.SET_MODEL_ARENA, model) == Status.ERROR_MODEL_ERR
        size = len(model)
        needs = f"the model needs {size:,} bytes of the arena: 9,000 available, {size - 9000:,} missing"
        assert needs in await log_of(device)


async def test_the_arena_of_a_model_in_the_arena_is_what_remains() -> None:
    model = digits.model_bytes()
    board = Board(engines=(EngineSpec(arena_bytes=len(model) + 1024),))
    async with engine(board) as device:
        assert await put(device, Command.SET_MODEL_ARENA, model) == Status.ERROR_MODEL_ERR
        assert await put(device, Command.SET_MODEL_EXT, model) == Status.OKAY


async def test_a_model_larger_than_the_external_memory_is_refused() -> None:
    async with engine(Board(engines=(EngineSpec(external_bytes=4096),))) as device:
        assert await put(device, Command.SET_MODEL_EXT, digits.model_bytes()) == Status.ERROR_MODEL_ERR
        assert "4,096 available" in await log_of(device)


# Tensors and inference.


async def test_every_digit_gives_the_bytes_of_the_interpreter_called_directly() -> None:
    async with engine(model=digits.model_bytes()) as device:
        for image, _ in IMAGES[:40]:
            assert await put(device, Command.SET_INPUT_TENSOR, image) == Status.OKAY
            assert await put(device, Command.START_INFER) == Status.OKAY
            (expected,) = networks.run(digits.model_bytes(), image)
            assert await get(device, Command.GET_OUTPUT_TENSOR) == expected


async def test_several_outputs_are_read_by_number() -> None:
    model = digits.two_output_model_bytes()
    async with engine(model=model) as device:
        await put(device, Command.SET_INPUT_TENSOR, IMAGES[0].image)
        await put(device, Command.START_INFER)
        got = [await get(device, Command.GET_OUTPUT_TENSOR, number) for number in range(2)]
        assert got == networks.run(model, IMAGES[0].image)


async def test_several_inputs_are_set_by_number() -> None:
    async with engine(model=networks.two_input_add_network(16)) as device:
        await put(device, Command.SET_INPUT_TENSOR, bytes([1] * 16), tensor=0)
        await put(device, Command.SET_INPUT_TENSOR, bytes([2] * 16), tensor=1)
        await put(device, Command.START_INFER)
        assert await get(device, Command.GET_OUTPUT_TENSOR) == bytes([3] * 16)


async def test_an_input_reads_back() -> None:
    async with engine(model=digits.model_bytes()) as device:
        await put(device, Command.SET_INPUT_TENSOR, IMAGES[3].image)
        assert await get(device, Command.GET_INPUT_TENSOR) == IMAGES[3].image


async def test_tensor_lengths_are_answered_by_number() -> None:
    async with engine(model=digits.two_output_model_bytes()) as device:
        assert await get(device, Command.GET_INPUT_TENSOR_LENGTH) == struct.pack("<I", 64)
        assert await get(device, Command.GET_OUTPUT_TENSOR_LENGTH, 0) == struct.pack("<I", 10)
        assert await get(device, Command.GET_OUTPUT_TENSOR_LENGTH, 1) == struct.pack("<I", 128)


@pytest.mark.parametrize("tensor", [1, 2, 40, 255, 0xFFFFFFFF])
async def test_a_tensor_that_the_model_lacks_is_a_bad_command(tensor: int) -> None:
    async with engine(model=digits.model_bytes()) as device:
        assert await put(device, Command.SET_INPUT_TENSOR, bytes(64), tensor) == Status.ERROR_BAD_CMD
        for command in (
            Command.GET_INPUT_TENSOR,
            Command.GET_OUTPUT_TENSOR,
            Command.GET_INPUT_TENSOR_LENGTH,
            Command.GET_OUTPUT_TENSOR_LENGTH,
        ):
            assert await refused(device, command, tensor) == Status.ERROR_BAD_CMD


@pytest.mark.parametrize("size", [0, 1, 3, 4, 63, 65, 68, 511, 512, 513, 1024, 1 << 20])
async def test_an_input_of_another_size_is_refused_and_overwrites_nothing(size: int) -> None:
    async with engine(model=digits.model_bytes()) as device:
        await put(device, Command.SET_INPUT_TENSOR, IMAGES[0].image)
        assert await put(device, Command.SET_INPUT_TENSOR, b"\x55" * size) == Status.ERROR_BAD_CMD
        assert await get(device, Command.GET_INPUT_TENSOR) == IMAGES[0].image


async def test_an_input_may_be_padded_to_whole_words() -> None:
    async with engine(model=networks.two_input_add_network(13)) as device:
        assert await put(device, Command.SET_INPUT_TENSOR, bytes(range(16))) == Status.OKAY
        assert await get(device, Command.GET_INPUT_TENSOR) == bytes(range(13))


async def test_timings_are_one_word_an_operator() -> None:
    async with engine(model=digits.model_bytes()) as device:
        await put(device, Command.SET_INPUT_TENSOR, IMAGES[0].image)
        await put(device, Command.START_INFER)
        timings = await get(device, Command.GET_TIMINGS)
        operators = read_model(digits.model_bytes()).operators
        assert len(timings) == 4 * len(operators)
        assert all(struct.unpack(f"<{len(operators)}I", timings))


async def test_start_infer_with_data_is_refused() -> None:
    async with engine(model=digits.model_bytes()) as device:
        assert await put(device, Command.START_INFER, bytes(5)) == Status.ERROR_BAD_CMD


async def test_without_a_sensor_the_mode_is_single() -> None:
    async with engine() as device:
        assert await get(device, Command.GET_ACQUIRE_MODE) == bytes(4)
        assert await log_of(device) == ""


async def test_the_profiler_summary_is_answered_and_logged() -> None:
    async with engine(model=digits.model_bytes()) as device:
        assert await get(device, Command.GET_PROFILE) == b"The model has not run yet.\n"
        assert await put(device, Command.START_INFER) == Status.OKAY
        summary = (await get(device, Command.GET_PROFILE)).decode()
        assert summary.startswith("One inference takes ")
        assert "\nOperators\n" in summary
        assert (await log_of(device)).endswith(summary)


async def test_times_have_bands_and_a_clock() -> None:
    async with engine(model=digits.model_bytes()) as device:
        bands = TimingBands.from_bytes(await get(device, Command.GET_TIMING_BANDS))
        assert bands.reference_hz == 100_000_000
        await put(device, Command.START_INFER)
        ticks = struct.unpack("<6I", await get(device, Command.GET_TIMINGS))
        assert all(band.low < count < band.high for count, band in zip(ticks, bands.operators, strict=True))
        assert bands.total.low < sum(ticks) < bands.total.high


async def test_without_a_model_there_is_a_clock_alone() -> None:
    async with engine() as device:
        assert await get(device, Command.GET_TIMING_BANDS) == struct.pack("<3I", 100_000_000, 0, 0)


async def test_the_operators_of_the_model_have_names() -> None:
    async with engine(model=digits.model_bytes()) as device:
        names = b"CONV_2D\0MAX_POOL_2D\0CONV_2D\0MAX_POOL_2D\0FULLY_CONNECTED\0SOFTMAX\0"
        assert await get(device, Command.GET_OPERATORS) == names


# GPIO.


async def test_gpio_settings_read_back() -> None:
    async with engine() as device:
        assert await get(device, Command.GET_OUTPUT_GPIO_EN) == bytes(4)
        assert await get(device, Command.GET_OUTPUT_GPIO_MODE) == bytes(4)
        assert await get(device, Command.GET_OUTPUT_GPIO_THRESH) == bytes([0x80] * 4)
        assert await put(device, Command.SET_OUTPUT_GPIO_EN, b"\x01") == Status.OKAY
        assert await put(device, Command.SET_OUTPUT_GPIO_MODE, b"\x01\0\0\0") == Status.OKAY
        assert await put(device, Command.SET_OUTPUT_GPIO_THRESH, b"\x02\xfb") == Status.OKAY
        assert await get(device, Command.GET_OUTPUT_GPIO_EN) == b"\x01\0\0\0"
        assert await get(device, Command.GET_OUTPUT_GPIO_MODE) == b"\x01\0\0\0"
        assert await get(device, Command.GET_OUTPUT_GPIO_THRESH) == b"\x80\x80\xfb\x80"


@pytest.mark.parametrize(
    ("command", "data"),
    [
        (Command.SET_OUTPUT_GPIO_EN, b""),
        (Command.SET_OUTPUT_GPIO_EN, b"\x02"),
        (Command.SET_OUTPUT_GPIO_EN, bytes(5)),
        (Command.SET_OUTPUT_GPIO_MODE, b"\x02"),
        (Command.SET_OUTPUT_GPIO_MODE, b""),
        (Command.SET_OUTPUT_GPIO_THRESH, b"\x04\x00"),
        (Command.SET_OUTPUT_GPIO_THRESH, b"\x00"),
        (Command.SET_OUTPUT_GPIO_THRESH, bytes(5)),
        (Command.SET_OUTPUT_GPIO_THRESH, bytes(513)),
    ],
)
async def test_gpio_settings_out_of_range_are_bad_commands(command: Command, data: bytes) -> None:
    async with engine() as device:
        assert await put(device, command, data) == Status.ERROR_BAD_CMD


async def test_leds_follow_the_largest_score_after_an_inference() -> None:
    async with engine(model=digits.model_bytes()) as device:
        seen: list[tuple[bool, ...]] = []
        device.engines[0].gpio.observe(seen.append)
        await put(device, Command.SET_OUTPUT_GPIO_EN, b"\x01")
        await put(device, Command.SET_OUTPUT_GPIO_MODE, b"\x01")
        for digit in (2, 0):
            image = next(
                image
                for image, label in IMAGES
                if label == digit
                and max(
                    range(10),
                    key=memoryview(networks.run(digits.model_bytes(), image)[0]).cast("b").__getitem__,
                )
                == digit
            )
            await put(device, Command.SET_INPUT_TENSOR, image)
            await put(device, Command.START_INFER)
        assert seen == [(False, False, True, False), (True, False, False, False)]


async def test_leds_stay_dark_while_disabled() -> None:
    async with engine(model=digits.model_bytes()) as device:
        await put(device, Command.SET_INPUT_TENSOR, IMAGES[0].image)
        await put(device, Command.START_INFER)
        assert device.engines[0].gpio.levels == (False,) * 4


# Several engines and clients.

CHAINED = Board(engines=(EngineSpec(tile=0, chain_to=1), EngineSpec(tile=1)))


async def test_a_network_cut_in_two_gives_the_bytes_of_the_whole_over_a_chain() -> None:
    first, second = networks.cut_in_two()
    async with engine(CHAINED, first) as device:
        await device.load_model(second, engine=1)
        for image, _ in IMAGES[:20]:
            await put(device, Command.SET_INPUT_TENSOR, image)
            assert await put(device, Command.START_INFER) == Status.OKAY
            status, output = await get_command(device.local[1], Command.GET_OUTPUT_TENSOR)
            assert (status, output) == (Status.OKAY, networks.run(digits.model_bytes(), image)[0])


async def test_a_failure_in_the_chain_is_the_failure_of_the_command() -> None:
    first, _ = networks.cut_in_two()
    async with engine(CHAINED, first) as device:
        await put(device, Command.SET_INPUT_TENSOR, IMAGES[0].image)
        assert await put(device, Command.START_INFER) == Status.ERROR_NO_MODEL


async def test_every_output_goes_along_the_chain() -> None:
    """Outputs 0 and 1 are the sums of inputs 0 and 1, 1 and 2; the next engine adds them."""
    async with engine(CHAINED, networks.adding_network(inputs=3, outputs=2)) as device:
        await device.load_model(networks.adding_network(inputs=2), engine=1)
        for tensor, value in enumerate((1, 10, 40)):
            await put(device, Command.SET_INPUT_TENSOR, bytes([value] * 16), tensor)
        assert await put(device, Command.START_INFER) == Status.OKAY
        assert await get_command(device.local[1], Command.GET_OUTPUT_TENSOR) == (
            Status.OKAY,
            bytes([1 + 10 + 10 + 40] * 16),
        )


async def test_an_inference_that_fails_in_the_chain_fails_the_command() -> None:
    """The first engine answers 100, and the second has 4 places: its index is out of range."""
    async with engine(CHAINED, networks.adding_network(inputs=1, length=4)) as device:
        await device.load_model(scatter_network(), engine=1)
        await put(device, Command.SET_INPUT_TENSOR, bytes((50, 0, 0, 0)))
        assert await put(device, Command.START_INFER) == Status.ERROR_INFER_ERR


async def test_a_chained_engine_whose_input_has_another_size_fails_the_command() -> None:
    async with engine(CHAINED, digits.model_bytes()) as device:
        await device.load_model(digits.model_bytes(), engine=1)
        await put(device, Command.SET_INPUT_TENSOR, IMAGES[0].image)
        assert await put(device, Command.START_INFER) == Status.ERROR_BAD_CMD


async def test_engines_are_apart() -> None:
    async with engine(
        Board(engines=(EngineSpec(tile=0), EngineSpec(tile=1))), digits.model_bytes()
    ) as device:
        assert await get(device, Command.GET_TIMINGS)
        assert (await get_command(device.local[1], Command.GET_TIMINGS))[0] == Status.ERROR_NO_MODEL


async def test_clients_that_ask_at_once_each_get_their_own_answer() -> None:
    async with engine(model=digits.model_bytes()) as device:
        host = InProcessHost(device.usb)
        await host.plug_in()

        async def ask_locally() -> None:
            for _ in range(100):
                assert await get(device, Command.GET_ID) == bytes.fromhex("78563412")

        async def ask_over_usb() -> None:
            for _ in range(100):
                await host.write(bytes(CommandPacket(Command.GET_INPUT_TENSOR_LENGTH)))
                assert await host.read(512) == struct.pack("<I", 64)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_locally)
            nursery.start_soon(ask_over_usb)


async def test_load_model_of_an_embedding_program_says_why_not() -> None:
    async with engine() as device:
        with pytest.raises(ModelRefused, match=r"engine 0 answered .*ERROR_MODEL_ERR"):
            await device.load_model(b"nonsense")
