"""The client as programs use it: arrays, pictures and paths in, arrays with labels out, against a device."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from aisrv import AiServer, Board, digits
from aisrv.attach.background import BackgroundDevice
from aisrv.inference.process.inline import inline
from host_tools.errors import BadCommandError, NoModelError, NotRunError, TensorError, UnsupportedCommand
from host_tools.tensors.outputs import Score
from tests.support.models import networks
from tests.support.programs import running

DIGIT = digits.test_images()[0]
EXPECTED = np.frombuffer(networks.run(digits.model_bytes(), DIGIT.image)[0], np.int8).reshape(1, 10)
PIXELS = np.frombuffer(DIGIT.image, np.int8).reshape(1, 8, 8, 1)
OPERATORS = ("CONV_2D", "MAX_POOL_2D", "CONV_2D", "MAX_POOL_2D", "FULLY_CONNECTED", "SOFTMAX")
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@pytest.fixture(scope="module")
def device() -> Iterator[BackgroundDevice]:
    with BackgroundDevice(Board(), runner=inline) as background:
        yield background


@pytest.fixture
def address(device: BackgroundDevice) -> str:
    return f"usbip:{device.usbip_address}"


@pytest.fixture
def server(address: str) -> Iterator[AiServer]:
    with AiServer.open(address) as server:
        server.load_model(digits.model_bytes())
        yield server


def with_labels(names: tuple[str, ...] = NAMES, file: str = "labels.txt") -> bytes:
    """Return the digits network with its classes named, packed as TensorFlow Lite's metadata are."""
    content = io.BytesIO(digits.model_bytes())
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(file, "\n".join(names))
    return content.getvalue()


# Inputs


def picture() -> Image.Image:
    """The test image as gray pixels, 0 black to 255: what `full` turns back into its bytes."""
    return Image.fromarray((PIXELS.reshape(8, 8).astype(np.int16) + 128).astype(np.uint8))


def test_an_array_of_the_tensor_s_type(server: AiServer) -> None:
    outputs = server.run(PIXELS)
    assert [(each.dtype.name, each.tolist()) for each in outputs] == [("int8", EXPECTED.tolist())]


def test_extents_of_one_may_be_left_out(server: AiServer) -> None:
    assert server.run(PIXELS.reshape(8, 8))[0].tolist() == EXPECTED.tolist()


def test_real_numbers_are_quantized(server: AiServer) -> None:
    real = (PIXELS.astype(np.float64) + 128) / 240
    assert server.run(real)[0].tolist() == EXPECTED.tolist()
    assert server.run(real.tolist())[0].tolist() == EXPECTED.tolist()


def test_a_picture(server: AiServer) -> None:
    assert server.run(picture(), value_range="full")[0].tolist() == EXPECTED.tolist()
    assert server.run(picture().convert("RGB"), value_range="full")[0].tolist() == EXPECTED.tolist()


def test_paths_of_a_picture_an_array_and_bytes(server: AiServer, tmp_path: Path) -> None:
    picture().save(tmp_path / "seven.png")
    np.save(tmp_path / "seven.npy", PIXELS)
    (tmp_path / "seven.bin").write_bytes(DIGIT.image)
    for name in ("seven.png", "seven.npy", "seven.bin"):
        assert server.run(tmp_path / name, value_range="full")[0].tolist() == EXPECTED.tolist()
        assert server.run(str(tmp_path / name), value_range="full")[0].tolist() == EXPECTED.tolist()


def test_bytes_come_back_as_bytes_and_as_arrays_where_asked_for(server: AiServer) -> None:
    assert server.run(DIGIT.image) == EXPECTED.tobytes()
    (real,) = server.run(DIGIT.image, dequantize=True)
    assert real.tolist() == ((EXPECTED.astype(float) + 128) / 256).tolist()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (PIXELS.astype(np.uint8), "the array is uint8, the tensor int8"),
        (PIXELS[:, :7], r"the array has shape \[1, 7, 8, 1\], the tensor \[1, 8, 8, 1\]"),
        (np.full((8, 8), np.nan), "not finite"),
        ("/nonexistent.png", "/nonexistent.png"),
        (object(), "object is not a tensor"),
        (None, "NoneType is not a tensor"),
    ],
)
def test_input_that_does_not_fit_sends_nothing(server: AiServer, value: object, message: str) -> None:
    server.write_input(bytes(64))
    with pytest.raises(TensorError, match=message):
        server.run(value)
    with pytest.raises(TensorError, match="63 bytes, the tensor has 64"):
        server.run(DIGIT.image[:63], dequantize=True)
    assert server.read_input() == bytes(64)


def test_number_of_inputs(server: AiServer) -> None:
    with pytest.raises(TensorError, match="2 inputs given, the model has 1"):
        server.run(PIXELS, PIXELS)


def test_a_batch_is_refused_with_what_helps(server: AiServer) -> None:
    batch = np.concatenate([PIXELS] * 5)
    with pytest.raises(TensorError) as caught:
        server.run(batch)
    assert str(caught.value) == (
        "the array has shape [5, 8, 8, 1], the tensor [1, 8, 8, 1]: it holds 5 examples, and an inference "
        "takes one; call run for each"
    )
    assert [np.array_equal(server.run(each)[0], EXPECTED) for each in batch] == [True] * 5


def test_an_array_of_another_shape_is_no_batch(server: AiServer) -> None:
    with pytest.raises(TensorError, match=r"^the array has shape \[5, 7, 8, 1\], the tensor \[1, 8, 8, 1\]$"):
        server.run(np.zeros((5, 7, 8, 1), np.int8))


def test_several_inputs(server: AiServer) -> None:
    server.load_model(networks.two_input_add_network())
    first, second = np.arange(16, dtype=np.int8), np.full(16, 3, np.int8)
    expected = networks.run(networks.two_input_add_network(), first.tobytes(), second.tobytes())
    shape = server.model().inputs[0].shape
    assert server.run(first.reshape(shape), second.reshape(shape))[0].tobytes() == expected[0]


def test_several_outputs(server: AiServer) -> None:
    server.load_model(digits.two_output_model_bytes())
    outputs = server.run(PIXELS)
    assert [each.tobytes() for each in outputs] == networks.run(digits.two_output_model_bytes(), DIGIT.image)
    assert outputs[1].shape == (1, 2, 2, 32)


# Outputs


def test_outputs_may_be_changed(server: AiServer) -> None:
    outputs = server.run(PIXELS)
    outputs[0][0, 0] = 5
    assert np.asarray(outputs)[0, 0] == 5


def test_labels_of_the_model(server: AiServer) -> None:
    server.load_model(with_labels())
    outputs = server.run(PIXELS)
    assert outputs.labels == NAMES
    best = int(EXPECTED.argmax())
    assert outputs.best(1) == [Score(best, NAMES[best], int(EXPECTED.max()))]
    assert repr(outputs).startswith(f"<Outputs int8[1, 10]; best {NAMES[best]}: {int(EXPECTED.max())}, ")


def test_a_model_without_labels(server: AiServer) -> None:
    outputs = server.run(PIXELS)
    assert (outputs.labels, outputs.best(1)[0].label) == ((), "")


# What is known of the model


def test_model_that_this_object_loaded(server: AiServer) -> None:
    model = server.model()
    assert str(model) == "int8[1, 8, 8, 1] -> int8[1, 10]"
    assert model.inputs[0].scale == pytest.approx(1 / 240)
    assert model.inputs[0].zero_point == -128
    assert model.operators == OPERATORS


def test_model_that_another_program_loaded(server: AiServer, address: str) -> None:
    server.close()
    with AiServer.open(address) as other:
        assert str(other.model()) == "int8[1, 8, 8, 1] -> int8[1, 10]"
        assert other.model().operators == ()
        assert other.run(PIXELS)[0].tolist() == EXPECTED.tolist()


def test_without_a_model() -> None:
    with (
        BackgroundDevice(Board(), runner=inline) as device,
        AiServer.open(f"usbip:{device.usbip_address}") as server,
    ):
        with pytest.raises(NoModelError):
            server.run(PIXELS)
        server.use_model(digits.model_bytes())
        assert server.model().operators == OPERATORS
        with pytest.raises(NoModelError):
            server.run(PIXELS)


def test_file_of_the_model_that_the_device_has(server: AiServer, address: str, digits_file: Path) -> None:
    server.close()
    with AiServer.open(address) as other:
        other.use_model(digits_file)
        assert other.model().operators == OPERATORS
        with pytest.raises(TensorError, match="the model"):
            other.use_model(b"no model")
        assert other.model().operators == OPERATORS


def test_next_load_replaces_what_is_known(server: AiServer) -> None:
    assert len(server.model().inputs) == 1
    server.command(0x86, data=networks.two_input_add_network())
    assert len(server.model().inputs) == 2


def test_timings_have_the_operators_names(server: AiServer) -> None:
    server.run(PIXELS)
    timings = server.timings()
    assert timings.names == OPERATORS
    assert timings.operators[0].name == "CONV_2D"
    assert [each.ticks for each in timings.operators] == list(timings)
    assert timings.microseconds == pytest.approx(sum(timings) / 100)
    assert repr(timings).startswith("<Timings of 6 operators: ")
    assert "CONV_2D" in repr(timings)


def test_timings_of_a_virtual_device_have_bands(server: AiServer) -> None:
    server.run(PIXELS)
    timings = server.timings()
    assert timings.band is not None
    assert timings.band.low < timings.total < timings.band.high
    for each in timings.operators:
        assert each.band is not None
        assert each.band.low < each.ticks < each.band.high
        low, high = each.microseconds_band or (0.0, 0.0)
        assert low < each.microseconds < high
    assert repr(timings).startswith("<Timings of 6 operators: 413.90 µs (343.87 to 485.99); CONV_2D 189.19 (")


def test_microseconds_are_real_ones_on_a_board_of_another_clock(tmp_path: Path, digits_file: Path) -> None:
    (tmp_path / "board.toml").write_text("[node]\nreference = 175\n[spi]\n")
    options = ("--board", str(tmp_path / "board.toml"), "--model", str(digits_file), "--spi-port", "0")
    with running(*options) as (_, ready):
        addresses = [place.strip() for place in ready.split(",")]
        assert [address.partition(":")[0] for address in addresses] == ["usbip", "spi"]
        for address in addresses:
            with AiServer.open(address, reference_mhz=50) as server:  # the device knows better
                server.run(DIGIT.image)
                timings = server.timings()
                assert timings.total == pytest.approx(1.75 * 41390, rel=1e-4)
                assert timings.reference_mhz == 175
                assert timings.microseconds == pytest.approx(413.9, rel=1e-4)
                assert timings.band is not None


def test_timings_of_a_model_that_another_program_loaded(server: AiServer, address: str) -> None:
    server.run(PIXELS)
    server.close()
    with AiServer.open(address) as other:
        timings = other.timings()
    assert timings.names == OPERATORS


def test_names_are_not_those_of_a_file_of_another_model(server: AiServer) -> None:
    server.command(0x86, data=networks.adding_network())
    server.infer()
    server.use_model(digits.model_bytes())
    assert server.timings().names == ("ADD",)


def test_timings_of_a_model_that_the_device_started_with(digits_file: Path) -> None:
    with running("--model", str(digits_file)) as (_, address), AiServer.open(address) as server:
        with pytest.raises(NotRunError, match="no inference has run"):
            server.timings()
        server.run(DIGIT.image)
        assert server.timings().names == OPERATORS


def test_repr(server: AiServer, address: str) -> None:
    assert repr(server) == f"<AiServer {address}, engine 0: a model of {len(digits.model_bytes())} bytes>"
    server.model()
    assert repr(server) == f"<AiServer {address}, engine 0: int8[1, 8, 8, 1] -> int8[1, 10]>"


# Commands by their code


def test_commands_by_their_code(server: AiServer) -> None:
    assert server.command(0x10) == b"\x78\x56\x34\x12"
    assert server.command(0x83, data=DIGIT.image) == b""
    assert server.command(0x84) == b""
    assert server.command(0x05) == EXPECTED.tobytes()


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_code_that_the_device_does_not_know(server: AiServer, code: int) -> None:
    with pytest.raises(BadCommandError, match=f"command 0x{code:02x} failed on engine 0, tensor 3"):
        server.command(code, 3)
    assert server.id == 0x12345678


@pytest.mark.parametrize(("code", "data"), [(0x100, b""), (-1, b""), (0x10, b"x")])
def test_commands_that_are_none(server: AiServer, code: int, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"a command is a byte|GET_ID is a GET"):
        server.command(code, data=data)


def test_reset_keeps_the_model(server: AiServer) -> None:
    server.reset()
    assert server.run(PIXELS)[0].tolist() == EXPECTED.tolist()


def test_unsupported_commands_over_spi_are_named() -> None:
    from host_tools.exchange.spi import _check

    with pytest.raises(UnsupportedCommand, match="command 0x7f cannot be sent over SPI"):
        _check(0x7F, 0, frozenset())
