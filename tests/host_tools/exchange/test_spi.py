"""The client over SPI, against a port in memory: blocks, polling, errors, and what SPI has no place for."""

from collections.abc import Callable

import pytest

from aisrv.protocol.commands import Command
from host_tools.client import AiServer
from host_tools.errors import (
    BadCommandError,
    InferenceError,
    ModelError,
    NoModelError,
    TransferError,
    TransferTimeout,
    UnsupportedCommand,
)
from host_tools.exchange.spi import LONGEST_SLEEP, SHORTEST_SLEEP, SpiExchange
from tests.support.benches.memory_device import Engine
from tests.support.benches.spi_memory_slave import MemorySlave
from tests.support.models import networks

MODEL = networks.adding_network()
INFER_ERR, BAD_CMD = 0x10, 0x20
SIZES = [0, 1, 3, 4, 511, 512, 513, 1023, 1024, 1025, 100_003]


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


@pytest.fixture
def slave() -> MemorySlave:
    return MemorySlave(Engine(timings=[100, 0xFFFFFFFF]))


@pytest.fixture
def server(slave: MemorySlave) -> AiServer:
    return AiServer(slave)


def exchange(slave: MemorySlave, time: Time, timeout: float | None = 10.0) -> SpiExchange:
    return SpiExchange(slave, 0, timeout, clock=lambda: time.now, sleep=time.sleep)


# Commands


def test_hello_comes_first(slave: MemorySlave, server: AiServer) -> None:
    assert (slave.seen, slave.polls) == ([b"\x55"], 0)


def test_id(server: AiServer) -> None:
    assert server.id == 0x12345678


def test_spec_has_six_words(slave: MemorySlave, server: AiServer) -> None:
    server.load_model(MODEL)
    spec = server.spec()
    assert (spec.tiles, spec.input_bytes, spec.output_bytes, spec.timing_count) == (2, 16, 16, 2)
    assert spec.sensor_bytes == 0
    assert slave.seen[-1] == b"\x08" + bytes(26)


def test_write_infer_read(server: AiServer) -> None:
    server.load_model(MODEL)
    server.write_input(bytes(range(16)))
    server.infer()
    assert server.read_output() == bytes(range(255, 239, -1))
    assert server.timings() == (100, 0xFFFFFFFF)


def test_run(slave: MemorySlave, server: AiServer) -> None:
    server.load_model(MODEL)
    slave.seen.clear()
    assert server.run(bytes(range(16))) == bytes(range(255, 239, -1))
    assert slave.seen == [b"\x83" + bytes(range(16)), b"\x84", b"\x08" + bytes(26), b"\x05" + bytes(18)]


def test_lengths_come_from_the_spec() -> None:
    server = AiServer(MemorySlave(Engine(inputs=[600], outputs=[7])))
    server.load_model(MODEL)
    assert (server.input_length(), server.output_length()) == (600, 7)


@pytest.mark.parametrize(("memory", "command"), [("arena", 0x86), ("ext", 0x87)])
def test_model_goes_to_the_memory_asked_for(
    slave: MemorySlave, server: AiServer, memory: str, command: int
) -> None:
    server.load_model(MODEL, memory)  # type: ignore[arg-type]
    assert slave.engine.seen == [(command, 0, MODEL)]


def test_debug_log_is_text(slave: MemorySlave, server: AiServer) -> None:
    slave.engine.log = b"one\ntwo\n"
    assert server.debug_log() == "one\ntwo"
    assert len(slave.seen[-1]) == 3 + 2048


def test_acquisition_is_a_bare_command(slave: MemorySlave, server: AiServer) -> None:
    with pytest.raises(BadCommandError):  # this engine has no sensor
        server.acquire_single()
    assert slave.seen[1] == b"\x8c"


# Blocks


@pytest.mark.parametrize("size", SIZES)
def test_data_go_in_blocks_of_which_the_last_is_short(size: int) -> None:
    slave = MemorySlave(Engine(inputs=[size]))
    server = AiServer(slave)
    server.load_model(MODEL)
    slave.seen.clear()
    data = bytes(number % 251 for number in range(size))
    server.write_input(data)
    assert [len(block) - 1 for block in slave.seen] == [512] * (size // 512) + [size % 512]
    assert slave.engine.seen[-1] == (0x83, 0, data)


@pytest.mark.parametrize("size", [100, 16 * 1024, 40_000])
def test_progress_ends_with_all(size: int) -> None:
    server = AiServer(MemorySlave(Engine(inputs=[size])))
    server.load_model(MODEL)
    steps: list[tuple[int, int]] = []
    server.write_input(bytes(size), progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (size, size)
    assert all(done % (16 * 1024) == 0 for done, _ in steps[:-1])


def test_write_that_was_interrupted_is_ended_by_the_next_command() -> None:
    slave = MemorySlave(Engine(inputs=[2000]))
    server = AiServer(slave)
    server.load_model(MODEL)
    slave.fails_after = 7
    with pytest.raises(KeyboardInterrupt):
        server.write_input(bytes(2000))
    assert len(slave.data) in (1024, 1536)
    server.write_input(b"\1" * 2000)
    assert slave.engine.input_data == [b"\1" * 2000]
    assert server.status() == 0


# Errors


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda server: server.infer(), NoModelError),
        (lambda server: server.read_output(), NoModelError),
        (lambda server: server.timings(), NoModelError),
        (lambda server: server.input_length(), NoModelError),
        (lambda server: server.run(bytes(16)), NoModelError),
        (lambda server: server.load_model(b"no model", force=True), ModelError),
    ],
)
def test_failure_without_a_model(
    server: AiServer, call: Callable[[AiServer], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        call(server)
    assert server.status() == 0


def test_failure_carries_bits_and_log(slave: MemorySlave, server: AiServer) -> None:
    server.load_model(MODEL)
    slave.engine.fails[0x84] = INFER_ERR
    with pytest.raises(InferenceError, match="told to fail") as caught:
        server.infer()
    assert (caught.value.command, caught.value.status) == (0x84, INFER_ERR)
    assert caught.value.log == "told to fail"
    slave.engine.fails.clear()
    assert server.run(bytes(16)) == b"\xff" * 16


def test_failure_of_others_before_a_command_is_not_its_own(slave: MemorySlave, server: AiServer) -> None:
    slave.status = BAD_CMD
    server.load_model(MODEL)
    assert slave.engine.model == MODEL


def test_status_is_told_once(slave: MemorySlave, server: AiServer) -> None:
    slave.status = BAD_CMD
    assert [server.status(), server.status()] == [BAD_CMD, 0]


@pytest.mark.parametrize("tensor_bytes", [15, 17, 512])
def test_input_of_the_wrong_size(server: AiServer, tensor_bytes: int) -> None:
    server.load_model(MODEL)
    with pytest.raises(BadCommandError, match="SET_INPUT_TENSOR"):
        server.write_input(bytes(tensor_bytes))


def test_bus_without_an_ai_server() -> None:
    class Floating(MemorySlave):
        def _status_word(self) -> bytes:
            return b"\xff" * 4

    with pytest.raises(TransferError, match="status 0xffffffff is not one of an AI server"):
        _ = AiServer(Floating()).id


def test_transport_that_loses_bytes() -> None:
    class Short(MemorySlave):
        def _read(self, mosi: bytes, data: bytes) -> bytes:
            return super()._read(mosi, data)[:-1]

    with pytest.raises(TransferError, match="7 bytes were clocked, 6 came"):
        AiServer(Short()).status()


# Polling


def test_nothing_is_sent_while_the_device_is_busy(slave: MemorySlave) -> None:
    slave.busy = 5
    server = AiServer(slave)
    server.load_model(MODEL + bytes(1000))
    server.write_input(bytes(16))
    server.infer()
    assert server.status() == 0  # a command while BUSY would have left ERROR_BAD_CMD


def test_host_that_comes_while_the_device_is_busy_waits(slave: MemorySlave) -> None:
    slave.busy_now = 3
    time = Time()
    assert exchange(slave, time).get(Command.GET_ID) == bytes.fromhex("78563412")
    assert (slave.polls, len(time.sleeps)) == (4, 3)


def test_status_does_not_wait(slave: MemorySlave) -> None:
    slave.busy_now = 3
    time = Time()
    assert exchange(slave, time).get(Command.GET_STATUS) == b"\1\0\0\0"
    assert time.sleeps == []


def test_pauses_grow_and_stay_in_their_bounds(slave: MemorySlave) -> None:
    slave.busy_now = 200
    time = Time()
    exchange(slave, time).get(Command.GET_ID)
    assert time.sleeps[:8] == [SHORTEST_SLEEP] * 8
    assert time.sleeps == sorted(time.sleeps)
    assert time.sleeps[-1] == LONGEST_SLEEP
    waited = 0.0
    for pause in time.sleeps:
        assert pause == pytest.approx(min(max(waited / 8, SHORTEST_SLEEP), LONGEST_SLEEP))
        waited += pause


def test_device_that_stays_busy_is_a_time_out(slave: MemorySlave) -> None:
    slave.busy_now = 1 << 30
    time = Time()
    with pytest.raises(TransferTimeout, match=r"BUSY with within 0\.5 s"):
        exchange(slave, time, 0.5).get(Command.GET_ID)
    assert time.now == pytest.approx(0.5)
    assert slave.seen == [b"\x55"]


def test_inference_that_takes_too_long_is_a_time_out_and_the_next_command_waits(slave: MemorySlave) -> None:
    time = Time()
    link = exchange(slave, time, 1.0)
    link.set(Command.SET_MODEL_ARENA, MODEL)
    slave.busy = 300
    with pytest.raises(TransferTimeout, match="START_INFER not done within 1 s"):
        link.set(Command.START_INFER)
    assert len(link.get(Command.GET_OUTPUT_TENSOR)) == 16


def test_without_a_time_out_it_waits_on(slave: MemorySlave) -> None:
    slave.busy_now = 10_000
    time = Time()
    exchange(slave, time, None).get(Command.GET_ID)
    assert time.now > 40


# What SPI has no place for


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda server: server.gpio_enabled(), "GET_OUTPUT_GPIO_EN"),
        (lambda server: server.enable_gpio(), "SET_OUTPUT_GPIO_EN"),
        (lambda server: server.set_gpio_threshold(0, 0), "SET_OUTPUT_GPIO_THRESH"),
        (lambda server: server.read_input(), "GET_INPUT_TENSOR"),
        (lambda server: server.load_model_from_flash(), "SET_MODEL_ARENA_FLASH"),
        (lambda server: server.read_sensor(), "GET_SENSOR_TENSOR"),
        (lambda server: server.write_sensor(b""), "SET_SENSOR_TENSOR"),
        (lambda server: server.acquire_mode(), "GET_ACQUIRE_MODE"),
        (lambda server: server.acquire_stream(), "START_ACQUIRE_STREAM"),
        (lambda server: server.read_output(1), "tensor 1"),
        (lambda server: server.write_input(b"", 1), "tensor 1"),
        (lambda server: server.output_length(2), "tensor 2"),
    ],
)
def test_command_that_spi_lacks(
    slave: MemorySlave, server: AiServer, call: Callable[[AiServer], object], named: str
) -> None:
    with pytest.raises(UnsupportedCommand, match=named):
        call(server)
    assert slave.seen == [b"\x55"]


def test_engine_cannot_be_named(slave: MemorySlave) -> None:
    with pytest.raises(UnsupportedCommand, match="engine 1 cannot be named over SPI"):
        AiServer(slave, engine=1)
    assert slave.seen == []
