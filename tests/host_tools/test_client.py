"""The client against a device in memory, through the real USB transport, in both framings."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.protocol.commands import Command, Dialect, GpioMode, ProtocolError, Status
from host_tools.client import AiServer
from host_tools.errors import (
    BadCommandError,
    CommandError,
    DeviceGone,
    HostError,
    InferenceError,
    ModelError,
    NoEngineError,
    NoModelError,
    NotRunError,
    TensorError,
    TransferError,
    TransferTimeout,
)
from host_tools.transports.usb import UsbTransport
from tests.support.amounts import in_ci
from tests.support.benches.memory_device import (
    BAD_CMD,
    INFER_ERR,
    MODEL_ERR,
    NO_MODEL,
    Backend,
    Device,
    Engine,
)
from tests.support.models import networks, relocatable

MODEL = networks.adding_network()
BOUNDARIES = [0, 1, 3, 4, 511, 512, 513, 1024, 16 * 1024, 16 * 1024 + 1, 48 * 1024, 100_000]


def connect(device: Device, **options: object) -> tuple[AiServer, Backend]:
    backend = Backend(device)
    transport = UsbTransport(backend, next(iter(backend.enumerate_devices())))
    return AiServer(transport, **options), backend  # type: ignore[arg-type]


@pytest.fixture(params=list(Dialect), ids=lambda dialect: str(dialect.value))
def dialect(request: pytest.FixtureRequest) -> Dialect:
    assert isinstance(request.param, Dialect)
    return request.param


@pytest.fixture
def device() -> Device:
    return Device(Engine(timings=[100, 0xFFFFFFFF]))


@pytest.fixture
def server(device: Device, dialect: Dialect) -> Iterator[AiServer]:
    with connect(device, dialect=dialect)[0] as server:
        yield server


# Every command


def test_id(server: AiServer) -> None:
    assert server.id == 0x12345678


def test_spec_before_a_model(server: AiServer) -> None:
    spec = server.spec()
    assert (spec.server_kind, spec.tiles, spec.internal_kib) == (1, 2, 512)
    assert (spec.input_bytes, spec.output_bytes, spec.timing_count) == (0, 0, 0)


def test_spec_with_a_model(server: AiServer) -> None:
    server.load_model(MODEL)
    spec = server.spec()
    assert (spec.input_bytes, spec.output_bytes, spec.timing_count) == (16, 16, 2)


@pytest.mark.parametrize(("memory", "command"), [("arena", 0x86), ("ext", 0x87)])
def test_a_model_goes_to_the_memory_asked_for(
    server: AiServer, device: Device, memory: str, command: int
) -> None:
    server.load_model(MODEL, memory)  # type: ignore[arg-type]
    assert (device.engine.model, device.engine.memory) == (MODEL, command)


def test_a_model_from_a_file(server: AiServer, device: Device, tmp_path: "pytest.TempPathFactory") -> None:
    path = tmp_path / "model.tflite"  # type: ignore[operator]
    path.write_bytes(MODEL)
    server.load_model(path)
    assert device.engine.model == MODEL


def test_write_infer_read(server: AiServer) -> None:
    server.load_model(MODEL)
    server.write_input(bytes(range(16)))
    server.infer()
    assert server.read_output() == bytes(range(255, 239, -1))


def test_run(server: AiServer) -> None:
    server.load_model(MODEL)
    assert server.run(bytes(range(16))) == bytes(range(255, 239, -1))


def test_tensors_are_numbered(dialect: Dialect) -> None:
    device = Device(Engine(inputs=[4, 600], outputs=[8, 2]))
    server, _ = connect(device, dialect=dialect)
    server.load_model(MODEL)
    server.write_input(b"x" * 600, tensor=1)
    assert server.read_input(1) == b"x" * 600
    assert server.read_input(0) == bytes(4)
    assert (server.input_length(1), server.output_length(1)) == (600, 2)
    assert (server.input_length(), server.output_length()) == (4, 8)
    assert server.read_output(1) == bytes(2)


def test_what_is_no_model_is_refused_before_it_replaces_one(
    server: AiServer, device: Device, tmp_path: Path
) -> None:
    server.load_model(MODEL)
    with pytest.raises(TensorError, match=r"^the model: not a TensorFlow Lite file: bytes 4 to 7 are"):
        server.load_model(b"this is no model")
    path = tmp_path / "notes.txt"
    path.write_text("short")
    with pytest.raises(TensorError, match=rf"^{path}: "):
        server.load_model(path)
    assert device.engine.model == MODEL
    assert "a model of" in repr(server)


def test_a_relocatable_image_is_a_model(server: AiServer, device: Device) -> None:
    with pytest.raises(ModelError):  # the double takes no such
        server.load_model(relocatable.DIGITS.read_bytes())
    assert device.engine.model is None


def test_engines_are_numbered(dialect: Dialect) -> None:
    device = Device(Engine(), Engine())
    server, _ = connect(device, dialect=dialect, engine=1)
    server.load_model(MODEL)
    assert (device.engines[0].model, device.engines[1].model) == (None, MODEL)


def test_timings_are_unsigned_ticks(server: AiServer) -> None:
    server.load_model(MODEL)
    assert server.timings() == (100, 4_294_967_295)


def test_timings_before_an_inference_are_none(dialect: Dialect) -> None:
    server, _ = connect(Device(Engine(timings=[0, 0])), dialect=dialect)
    server.load_model(MODEL)
    message = "there are no timings: no inference has run since the model was loaded"
    with pytest.raises(NotRunError, match=message):
        server.timings()
    server.run(bytes(16))
    assert server.timings() == (0, 0)
    server.load_model(MODEL)
    with pytest.raises(NotRunError, match=message):
        server.timings()


def test_hardware_is_asked_for_names_once(server: AiServer, device: Device) -> None:
    server.command(Command.SET_MODEL_ARENA, data=MODEL)
    for _ in range(2):
        assert server.timings().names == ()
    asked = [seen for seen in device.engine.seen if seen[0] == Command.GET_OPERATORS]
    assert len(asked) == 1


def test_hardware_is_asked_for_bands_once_and_its_clock_is_told(device: Device) -> None:
    with connect(device, reference_mhz=175)[0] as server:
        server.command(Command.SET_MODEL_ARENA, data=MODEL)
        for _ in range(2):
            timings = server.timings()
            assert (timings.band, timings.reference_mhz) == (None, 175)
            assert timings.microseconds == sum(timings) / 175
            assert timings.operators[0].microseconds_band is None
    asked = [seen for seen in device.engine.seen if seen[0] == Command.GET_TIMING_BANDS]
    assert len(asked) == 1


def test_gpio_enable(server: AiServer, device: Device) -> None:
    assert server.gpio_enabled() is False
    server.enable_gpio()
    assert device.engine.gpio == b"\x01"
    assert server.gpio_enabled() is True


def test_gpio_thresholds_are_signed(server: AiServer, device: Device, dialect: Dialect) -> None:
    assert server.gpio_thresholds() == (-128, -128, -128, -128)
    server.set_gpio_threshold(2, -3)
    assert device.engine.seen[-1 if dialect is Dialect.DESIGN else -2][::2] == (
        0x92,
        b"\x02\xfd",
    )
    assert server.gpio_thresholds() == (-128, -128, -3, -128)


@pytest.mark.parametrize(("index", "threshold"), [(-1, 0), (256, 0), (0, -129), (0, 128)])
def test_gpio_threshold_out_of_range(server: AiServer, index: int, threshold: int) -> None:
    with pytest.raises(ValueError, match="does not fit the 2 bytes of a threshold"):
        server.set_gpio_threshold(index, threshold)


def test_gpio_mode(server: AiServer) -> None:
    server.set_gpio_mode(GpioMode.MAX)
    assert server.gpio_mode() is GpioMode.MAX


@pytest.mark.parametrize("value", [b"\x01", b"\x01\0\0\0"])
def test_gpio_mode_as_byte_or_word(server: AiServer, device: Device, value: bytes) -> None:
    device.engine.mode = value
    assert server.gpio_mode() is GpioMode.MAX


@pytest.mark.parametrize(("value", "message"), [(b"\x07", "7 is not a valid"), (b"", "got no bytes")])
def test_gpio_mode_that_makes_no_sense(server: AiServer, device: Device, value: bytes, message: str) -> None:
    device.engine.mode = value
    with pytest.raises(TransferError, match=message):
        server.gpio_mode()


def test_acquire_region_is_six_shorts(server: AiServer, device: Device) -> None:
    with pytest.raises(BadCommandError):
        server.acquire_single((0, 160, 20, 300, 96, 64))
    data = next(data for command, _, data in device.engine.seen if command == 0x8C)
    assert data == bytes.fromhex("0000 a000 1400 2c01 6000 4000")


@pytest.mark.parametrize(
    ("call", "command", "data"),
    [
        (lambda s: s.acquire_single(), 0x8C, b""),
        (lambda s: s.acquire_stream(), 0x8E, b""),
        (lambda s: s.set_sensor_register(0x24, 3, 255), 0x8F, b"\x24\x03\xff"),
        (lambda s: s.read_sensor(), 0x0D, b""),
        (lambda s: s.write_sensor(b"abc"), 0x8D, b"abc"),
        (lambda s: s.load_model_from_flash(), 0x96, b""),
        (lambda s: s.load_model_from_flash("ext"), 0x97, b""),
    ],
)
def test_commands_that_a_device_may_refuse(
    server: AiServer, device: Device, call: object, command: int, data: bytes
) -> None:
    with pytest.raises(BadCommandError):
        call(server)  # type: ignore[operator]
    assert (command, 0, data) in device.engine.seen


def test_acquire_mode(server: AiServer) -> None:
    assert server.acquire_mode() == 0


def test_debug_log_without_padding(server: AiServer, device: Device) -> None:
    device.engine.log = b"first\nsecond\n"
    assert server.debug_log() == "first\nsecond"


def test_debug_log_of_lines_padded_one_by_one(server: AiServer, device: Device) -> None:
    device.engine.log = b"first\n\0\0\0second\0\0third"
    assert server.debug_log() == "first\nsecond\nthird"


def test_debug_log_that_is_no_text(server: AiServer, device: Device) -> None:
    device.engine.log = b"\xff\x00\n"
    assert server.debug_log() == "\\xff"


# The end of a transfer


@pytest.mark.parametrize("size", BOUNDARIES)
def test_data_of_any_length_arrives_whole(dialect: Dialect, size: int) -> None:
    device = Device(Engine(inputs=[size], outputs=[size]))
    server, _ = connect(device, dialect=dialect)
    server.load_model(MODEL)
    data = bytes(i * 7 & 0xFF for i in range(size))
    server.write_input(data)
    assert device.engine.input_data == [data]
    assert server.read_input() == data
    assert server.id == 0x12345678


@pytest.mark.parametrize(
    ("size", "expected"), [(0, ["out 0"]), (511, ["out 511"]), (512, ["out 512", "out 0"])]
)
def test_only_a_short_packet_ends_a_set(size: int, expected: list[str]) -> None:
    server, backend = connect(Device(Engine(inputs=[size])), dialect=Dialect.DESIGN)
    server.load_model(MODEL)
    backend.calls.clear()
    server.write_input(bytes(size))
    assert backend.calls == ["out 12", *expected, "in 4"]


def test_a_large_model_goes_in_few_writes() -> None:
    server, backend = connect(Device(), dialect=Dialect.DESIGN)
    server.load_model(b"\0\0\0\0TFL3" + bytes((4 << 20) - 8), force=True)
    assert backend.calls == ["out 12", *["out 1048576"] * 4, "out 0", "in 4"]


def test_status_is_one_write_and_one_read() -> None:
    server, backend = connect(Device())
    assert server.status() == Status.OKAY
    assert backend.calls == ["out 3", "in 4"]


def test_classic_run_is_six_transfers() -> None:
    server, backend = connect(Device())
    server.load_model(MODEL)
    backend.calls.clear()
    server.run(bytes(16))
    assert backend.calls == ["out 3", "out 16", "out 3", "out 0", "out 3", "in 16"]


def test_progress_counts_bytes_to_the_end(server: AiServer) -> None:
    seen: list[tuple[int, int]] = []
    data = b"\0\0\0\0TFL3" + bytes((1 << 20) + 1)
    server.load_model(data, progress=lambda done, total: seen.append((done, total)), force=True)
    assert seen == [(1 << 20, len(data)), (len(data), len(data))]


# Failures that the device reports


@pytest.mark.parametrize(
    ("bit", "error"),
    [
        (NO_MODEL, NoModelError),
        (MODEL_ERR, ModelError),
        (INFER_ERR, InferenceError),
        (BAD_CMD, BadCommandError),
    ],
)
def test_each_error_bit_has_its_error(
    server: AiServer, device: Device, bit: int, error: type[CommandError]
) -> None:
    device.engine.fails[Command.START_INFER] = bit
    with pytest.raises(CommandError) as caught:
        server.infer()
    assert type(caught.value) is error
    assert caught.value.status == bit
    assert (caught.value.command, caught.value.engine, caught.value.tensor) == (Command.START_INFER, 0, 0)
    assert caught.value.log == "told to fail 0x84"


def test_a_failed_get(server: AiServer) -> None:
    with pytest.raises(NoModelError, match="GET_OUTPUT_TENSOR failed on engine 0, tensor 0"):
        server.read_output()


def test_the_message_tells_what_where_and_what_next(server: AiServer) -> None:
    with pytest.raises(NoModelError) as caught:
        server.write_input(b"x", tensor=3)
    assert str(caught.value) == (
        "SET_INPUT_TENSOR failed on engine 0, tensor 3 (ERROR_NO_MODEL): no model is loaded; load one first; "
        "its log ends with: no model is loaded"
    )


def test_an_error_is_told_once(server: AiServer) -> None:
    with pytest.raises(ModelError):
        server.load_model(b"no model", force=True)
    assert server.status() == Status.OKAY


def test_after_an_error_the_device_serves(server: AiServer, device: Device) -> None:
    with pytest.raises(ModelError):
        server.load_model(b"no model", force=True)
    server.load_model(MODEL)
    assert server.run(bytes(16)) == b"\xff" * 16
    assert device.resets == 2  # the double's own, and the one of opening


def test_classic_clears_both_halts_before_it_asks(device: Device) -> None:
    server, backend = connect(device)
    with pytest.raises(NoModelError):
        server.infer()
    assert backend.calls == [
        *["out 3", "out 0"],  # START_INFER
        "out 3",  # GET_ID finds the endpoint halted
        *["clear 0x01", "clear 0x81"],
        *["out 3", "in 4"],  # GET_STATUS
        *["out 3", "in 256"],  # GET_DEBUG_LOG
    ]


@pytest.mark.parametrize(
    ("failing", "error_command"),
    [(Command.SET_INPUT_TENSOR, "SET_INPUT_TENSOR"), (Command.START_INFER, "START_INFER"),
     (Command.GET_OUTPUT_TENSOR, "GET_OUTPUT_TENSOR")],
)  # fmt: skip
def test_a_failure_within_run_has_the_right_name(
    server: AiServer, device: Device, failing: Command, error_command: str
) -> None:
    server.load_model(MODEL)
    device.engine.fails[failing] = INFER_ERR
    with pytest.raises(InferenceError, match=error_command):
        server.run(bytes(16))


def test_hardware_that_forgets_the_reason_gives_a_plain_error() -> None:
    server, _ = connect(Device(keeps_errors=False))
    with pytest.raises(CommandError) as caught:
        server.infer()
    assert type(caught.value) is CommandError
    assert caught.value.log == "no model is loaded"


def test_an_engine_that_does_not_exist(device: Device, dialect: Dialect) -> None:
    server, _ = connect(device, dialect=dialect, engine=7)
    with pytest.raises(NoEngineError, match=r"GET_STATUS failed on engine 7.*the device has no such engine"):
        server.status()
    with pytest.raises(NoEngineError, match="SET_MODEL_ARENA failed on engine 7"):
        server.load_model(MODEL)
    assert not device.halted


def test_a_tensor_number_that_classic_cannot_carry(device: Device) -> None:
    server, backend = connect(device)
    with pytest.raises(ProtocolError, match="does not fit the classic framing"):
        server.read_output(256)
    assert backend.calls == []
    assert server.status() == Status.OKAY


def test_a_design_status_that_is_no_error_bit(device: Device) -> None:
    device.engine.fails[Command.GET_SPEC] = 0x01
    server, _ = connect(device, dialect=Dialect.DESIGN)
    with pytest.raises(CommandError, match=r"\(BUSY\)"):
        server.spec()


# Failures of the way there


def test_an_answer_of_the_wrong_size(
    server: AiServer, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "get", lambda *_: b"\x01\x02\x03")
    with pytest.raises(TransferError, match="GET_STATUS: expected a word of 4 bytes, got 3 bytes"):
        server.status()
    with pytest.raises(TransferError, match="GET_SPEC: a spec has 20 or 24 bytes, not 3"):
        server.spec()
    with pytest.raises(TransferError, match="GET_TIMINGS: 3 bytes"):
        server.timings()


def test_a_status_word_of_the_wrong_size(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = connect(device, dialect=Dialect.DESIGN)
    packets = iter([b"", bytes(4), struct.pack("<I", 0)])
    monkeypatch.setattr(device, "in_packet", lambda: next(packets))
    with pytest.raises(TransferError, match="expected a status word of 4 bytes, got 0 bytes"):
        server.status()
    assert server.status() == Status.OKAY


def test_a_timeout_is_followed_by_a_reset(device: Device, dialect: Dialect) -> None:
    server, _ = connect(device, dialect=dialect)
    server.load_model(MODEL)
    device.stuck_on = Command.START_INFER
    with pytest.raises(TransferTimeout):
        server.infer()
    device.stuck_on = None
    resets = device.resets
    assert server.run(bytes(16)) == b"\xff" * 16
    assert device.resets == resets + 1


def test_an_interrupted_transfer_is_followed_by_a_reset(
    server: AiServer, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(device, "in_packet", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            server.status()
    resets = device.resets
    assert server.id == 0x12345678
    assert device.resets == resets + 1


def test_a_device_that_goes_away(device: Device, dialect: Dialect) -> None:
    server, backend = connect(device, dialect=dialect)
    backend.gone = True
    with pytest.raises(DeviceGone, match="the device is gone"):
        server.status()
    with pytest.raises(DeviceGone):
        server.status()


def test_the_context_gives_the_device_back(device: Device) -> None:
    server, backend = connect(device)
    with server:
        assert backend.open_handles == 1
    server.close()
    assert backend.open_handles == 0


COMMANDS = st.sampled_from(
    [
        lambda s: s.status(),
        lambda s: s.load_model(MODEL),
        lambda s: s.load_model(b"bad", force=True),
        lambda s: s.write_input(bytes(16)),
        lambda s: s.write_input(bytes(512)),
        lambda s: s.write_input(b"", tensor=5),
        lambda s: s.infer(),
        lambda s: s.run(bytes(16)),
        lambda s: s.run(bytes(17)),
        lambda s: s.read_output(),
        lambda s: s.read_output(1),
        lambda s: s.timings(),
        lambda s: s.acquire_stream(),
    ]
)


@settings(derandomize=True, max_examples=in_ci(60, every_day=20), deadline=None)
@given(st.lists(COMMANDS, max_size=12), st.sampled_from(list(Dialect)))
def test_no_sequence_of_commands_loses_the_step(calls: list[object], dialect: Dialect) -> None:
    device = Device()
    server, _ = connect(device, dialect=dialect)
    for call in calls:
        try:
            call(server)  # type: ignore[operator]
        except CommandError as error:
            assert error.status in (NO_MODEL, MODEL_ERR, BAD_CMD)  # noqa: PT017
        except NotRunError:
            continue
        except HostError as error:
            pytest.fail(f"{error!r}")
    assert device.resets == 2
    assert server.id == 0x12345678
