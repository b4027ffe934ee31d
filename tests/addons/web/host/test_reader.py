"""What a reader asks, and what it makes of the answers: of hardware's stand-in and of a virtual device."""

from collections.abc import Iterator

import pytest

from aisrv import digits
from aisrv.addons.web.host.reader import PICTURE_SECONDS, Reader
from aisrv.addons.web.host.watched_server import NEEDS_USB, WatchedServer
from aisrv.addons.web.pictures import FRAME, TENSOR
from aisrv.attach.background import BackgroundDevice
from aisrv.board import Board, SensorSpec
from aisrv.device.device import Device as VirtualDevice
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command, Dialect, GpioMode, Status
from host_tools.errors import CommandError, ModelError, UnexplainedError, UnsupportedCommand
from host_tools.transports.spi.transport import SpiTransport
from host_tools.transports.transport import Buffer
from host_tools.transports.usb import UsbTransport
from tests.support.benches.memory_device import BAD_CMD, INFER_ERR, Backend, Device, Engine
from tests.support.models import networks

MODEL = networks.adding_network()
each_dialect = pytest.mark.parametrize("dialect", list(Dialect), ids=lambda dialect: str(dialect.value))


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def reader_of(device: Device, dialect: Dialect = Dialect.CLASSIC) -> Reader:
    backend = Backend(device)
    transport = UsbTransport(backend, next(iter(backend.enumerate_devices())))
    return Reader(WatchedServer(transport, dialect=dialect), 0)


class Slave(SpiTransport):
    """A way over SPI that nothing may be sent over."""

    def transact(self, mosi: Buffer, timeout: float | None) -> bytes:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError


@pytest.fixture(scope="module")
def virtual() -> Iterator[BackgroundDevice]:
    with BackgroundDevice(Board(sensor=SensorSpec(1, "pattern:bars")), runner=inline) as device:
        yield device


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader(virtual: BackgroundDevice, clock: Clock) -> Iterator[Reader]:
    with WatchedServer.open(f"usbip:{virtual.usbip_address}") as server:
        yield Reader(server, 0, clock=clock)


# Hardware, which does not know the virtual device's own questions


@each_dialect
def test_nothing_asks_for_the_status(dialect: Dialect) -> None:
    engine = Engine(timings=[100, 300])
    reader = reader_of(Device(engine), dialect)
    engine.errors = INFER_ERR
    reader.read()
    reader.load(MODEL, "arena")
    reader.read()
    with pytest.raises(CommandError):
        reader.server.write_input(b"x")
    reader.read()
    assert Command.GET_STATUS not in {command for command, _, _ in engine.seen}
    assert engine.errors & INFER_ERR


def test_hardware_is_asked_what_it_does_not_know_only_once() -> None:
    engine = Engine(timings=[100, 300])
    reader = reader_of(Device(engine))
    reader.load(MODEL, "arena")
    reader.read()
    engine.timings = [100, 301]
    engine.seen.clear()
    reader.read()
    assert {command for command, _, _ in engine.seen} == {
        Command.GET_SPEC,
        Command.GET_TIMINGS,
        Command.GET_OUTPUT_TENSOR,
        Command.GET_OUTPUT_GPIO_EN,
        Command.GET_OUTPUT_GPIO_MODE,
        Command.GET_OUTPUT_GPIO_THRESH,
        Command.GET_ACQUIRE_MODE,
        Command.GET_DEBUG_LOG,
    }


def test_times_that_hardware_measured_have_no_band() -> None:
    reader = reader_of(Device(Engine(timings=[100, 300])))
    reader.load(MODEL, "arena")
    model = reader.read().engine["model"]
    assert model["ms"] == [0.004]
    assert model["operators"] == [
        ["operator 0", 0.001, 0.001, 0.001, "measured"],
        ["operator 1", 0.003, 0.003, 0.003, "measured"],
    ]


def test_hardware_without_a_model_shows_its_settings() -> None:
    engine = Engine(gpio=b"\x01", mode=b"\x01", thresholds=bytearray((0, 1, 2, 0xFF)), log=b"hello\n")
    reading = reader_of(Device(engine)).read()
    assert reading.engine == {
        "scores": [],
        "leds": 0,
        "errors": "",
        "stream": False,
        "gpio": [1, 1, 0, 1, 2, -1],
        "model": {},
    }
    assert reading.log[0] == "hello"


def test_a_refused_command_has_the_log_and_no_status() -> None:
    reader = reader_of(Device(Engine()))
    with pytest.raises(UnexplainedError, match="its log ends with: no model is loaded") as caught:
        reader.server.infer()
    assert caught.value.status == Status.OKAY


def test_the_design_framing_says_what_was_wrong() -> None:
    reader = reader_of(Device(Engine(fails={0x86: 0x08})), Dialect.DESIGN)
    with pytest.raises(ModelError):
        reader.server.load_model(MODEL)


def test_ways_that_read_the_status_are_refused() -> None:
    with pytest.raises(UnsupportedCommand, match=NEEDS_USB[:20]):
        WatchedServer(Slave())


# A virtual device, over USB/IP


def engine_errors(virtual: BackgroundDevice) -> Status:
    async def errors(device: VirtualDevice) -> Status:
        return device.engines[0].errors

    return virtual.call(errors)


def test_a_run_is_shown_as_the_device_has_it(virtual: BackgroundDevice, reader: Reader) -> None:
    reader.load(digits.model_bytes(), "arena")
    image = digits.test_images()[0]
    output = memoryview(reader.server.run(image.image)).cast("b").tolist()
    engine = reader.read().engine
    assert engine["scores"] == [list(each) for each in enumerate(output)]
    assert engine["model"]["bytes"] == len(digits.model_bytes())
    assert engine["model"]["shape"] == [1, 8, 8, 1]
    timings = reader.server.timings()
    assert engine["model"]["ms"][0] == pytest.approx(timings.microseconds / 1000, abs=1e-5)
    assert [name for name, *_ in engine["model"]["operators"]] == list(timings.names)
    assert {basis for *_, basis in engine["model"]["operators"]} == {"predicted"}


@pytest.mark.parametrize("mode", GpioMode)
def test_the_leds_are_those_of_the_device(virtual: BackgroundDevice, reader: Reader, mode: GpioMode) -> None:
    async def levels(device: VirtualDevice) -> list[bool]:
        return list(device.engines[0].gpio.levels)

    reader.load(digits.model_bytes(), "arena")
    reader.server.enable_gpio()
    reader.server.set_gpio_mode(mode)
    reader.server.set_gpio_threshold(1, -120)
    for image in digits.test_images()[:4]:
        reader.server.run(image.image)
        lit = [bool(reader.read().engine["leds"] >> place & 1) for place in range(4)]
        assert lit == virtual.call(levels)
    reader.server.run(next(image.image for image in digits.test_images() if image.label == 0))
    assert reader.read().engine["leds"] & 1
    reader.server.enable_gpio(False)
    assert reader.read().engine["leds"] == 0


def test_real_numbers_are_no_scores_and_no_picture(reader: Reader) -> None:
    reader.load(digits.float_model_bytes(), "arena")
    reader.server.infer()
    reading = reader.read()
    assert reading.engine["scores"] == []
    assert reading.engine["model"]["shape"] == []
    assert (TENSOR, 0) not in reading.pictures


def test_nothing_has_run_before_the_first_run(reader: Reader) -> None:
    reader.load(digits.model_bytes(), "arena")
    engine = reader.read().engine
    assert engine["scores"] == []
    assert "ms" not in engine["model"]


def test_a_model_that_another_way_brings_is_noticed(reader: Reader) -> None:
    reader.load(digits.model_bytes(), "arena")
    reader.read()
    reader.server.load_model(digits.two_output_model_bytes())
    assert reader.read().engine["model"]["bytes"] == len(digits.two_output_model_bytes())


def test_error_bits_stay_for_who_looks_for_them(virtual: BackgroundDevice, reader: Reader) -> None:
    reader.load(digits.model_bytes(), "arena")
    reader.read()
    before = engine_errors(virtual)
    with pytest.raises(CommandError):
        reader.server.write_input(b"x")
    reader.read()
    assert engine_errors(virtual) == before | Status(BAD_CMD)


def test_pictures_come_once_a_second(reader: Reader, clock: Clock) -> None:
    reader.load(digits.model_bytes(), "arena")
    image = digits.test_images()[0].image
    reader.server.write_input(image)
    first = reader.read().pictures
    assert first[FRAME, 0][:8] == bytes((FRAME, 0, 160, 0, 120, 0, 0, 0))
    assert first[TENSOR, 0][8::3] == bytes(pixel ^ 0x80 for pixel in image)
    reader.server.write_input(bytes(64))
    clock.now += PICTURE_SECONDS / 2
    assert reader.read().pictures == first
    clock.now += PICTURE_SECONDS / 2
    assert reader.read().pictures[TENSOR, 0][8:] == bytes((0x80,)) * 192
