"""`aisrv-host acquire`, `stream`, `frame` and `i2c` against a device with a sensor, over USB/IP."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from aisrv import AiServer, Board, digits
from aisrv.attach.background import BackgroundDevice
from aisrv.board import SensorSpec
from aisrv.inference.process.inline import inline
from aisrv.protocol.sensor_format import PixelEncoding
from host_tools.cli import main
from host_tools.commands.sensor import PICTURES
from host_tools.errors import TensorError
from tests.support.command_calls import CommandCalls

WIDTH, HEIGHT = 16, 8
COMMAND = CommandCalls(main)
done, failed, call = COMMAND.done, COMMAND.failed, COMMAND.call
Opener = Callable[[], AiServer]

COLORS = [(red, green, blue) for green in (255, 0) for red in (255, 0) for blue in (255, 0)]
BARS = np.broadcast_to(np.repeat(np.array(COLORS, np.int16), 2, axis=0), (HEIGHT, WIDTH, 3))
"""White, yellow, cyan, green, magenta, red, blue and black, two columns each."""


def device(encoding: str | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    sensor = None if encoding is None else SensorSpec(1, "pattern:bars", encoding, WIDTH, HEIGHT)
    with BackgroundDevice(Board(sensor=sensor), runner=inline) as background:
        address = f"usbip:{background.usbip_address}"
        monkeypatch.setenv("AISRV_DEVICE", address)
        yield lambda: AiServer.open(address)


@pytest.fixture(params=["bayer", "yuv", "rgb"])
def camera(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    yield from device(request.param, monkeypatch)


@pytest.fixture
def rgb_camera(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    yield from device("rgb", monkeypatch)


@pytest.fixture
def without_sensor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    yield from device(None, monkeypatch)


def answer(*words: object) -> Any:
    return json.loads(done(*words, "--json"))


# frame


def test_frame_as_a_picture(camera: Opener, tmp_path: Path) -> None:
    region = ("--region", f"0:{WIDTH},0:{HEIGHT}", "--size", f"{WIDTH}x{HEIGHT}")
    done("acquire", *region)
    assert done("frame", tmp_path / "bars.png") == f"{tmp_path / 'bars.png'}: {WIDTH} x {HEIGHT}\n"
    with Image.open(tmp_path / "bars.png") as picture:
        assert (picture.mode, picture.size) == ("RGB", (WIDTH, HEIGHT))
        assert np.abs(np.asarray(picture).astype(np.int16) - BARS).max() <= 1  # YUV is rounded
    done("frame", tmp_path / "bars.npy")
    assert np.abs(np.load(tmp_path / "bars.npy").astype(np.int16) - BARS).max() <= 1


def test_frame_in_the_library(camera: Opener) -> None:
    with camera() as server:
        server.acquire_single((0, WIDTH, 0, HEIGHT, WIDTH, HEIGHT))
        assert np.abs(server.read_picture().astype(np.int16) - BARS).max() <= 1


def test_frame_as_raw_bytes(rgb_camera: Opener, tmp_path: Path) -> None:
    with rgb_camera() as server:
        server.load_model(digits.model_bytes())
    path = tmp_path / "frame.raw"
    assert done("frame", path, "--acquire") == f"{path}: {WIDTH * HEIGHT * 3} bytes\n"
    assert path.read_bytes() == BARS.astype(np.uint8).tobytes()
    assert answer("frame", path) == {"file": str(path), "bytes": WIDTH * HEIGHT * 3}


def test_size_and_encoding_of_a_device_that_does_not_say(rgb_camera: Opener, tmp_path: Path) -> None:
    wide = ("--size", f"{WIDTH // 2}x{HEIGHT * 2}", "--encoding", "rgb")
    answer("frame", tmp_path / "wide.png", *wide)
    with Image.open(tmp_path / "wide.png") as picture:
        assert picture.size == (WIDTH // 2, HEIGHT * 2)
    message = failed(2, "frame", tmp_path / "bad.png", "--size", "5x5")
    assert message == f"aisrv-host: a frame of 5 x 5 has 25 bytes, not {WIDTH * HEIGHT * 3}\n"
    assert not (tmp_path / "bad.png").exists()


@pytest.mark.parametrize("size", ["640", "640x", "x", "1x2x3", "-1x4", "65536x1"])
def test_sizes_that_are_none(size: str, tmp_path: Path) -> None:
    assert call("frame", tmp_path / "x.png", "--size", size).exit_code == 2


# acquire and stream


def test_acquire_puts_the_frame_into_the_input(rgb_camera: Opener) -> None:
    with rgb_camera() as server:
        server.load_model(digits.model_bytes())
    assert done("acquire") == "one frame acquired\n"
    with rgb_camera() as server:
        columns = np.frombuffer(server.read_input(), np.int8).reshape(8, 8)[0].astype(int) + 128
    assert columns.tolist() == sorted(columns.tolist(), reverse=True)
    assert (columns[0], columns[-1]) == (255, 0)


def test_region_and_size_go_together(rgb_camera: Opener) -> None:
    assert "--region and --size go together" in failed(2, "acquire", "--size", "8x8")
    assert "columns end at 99" in failed(1, "acquire", "--region", "0:99,0:8", "--size", "8x8")


def test_stream(rgb_camera: Opener) -> None:
    assert "ERROR_NO_MODEL" in failed(1, "stream", "on")
    with rgb_camera() as server:
        server.load_model(digits.model_bytes())
    assert answer("stream") == {"mode": "single"}
    assert done("stream", "on") == "stream\n"
    assert answer("stream") == {"mode": "stream"}
    assert answer("stream", "off") == {"mode": "single"}
    assert done("stream") == "single\n"
    assert call("stream", "maybe").exit_code == 2


# i2c


def test_i2c(rgb_camera: Opener) -> None:
    assert done("i2c", "0x10", 2, "0x20") == "I2C 0x10: register 0x02 = 0x20\n"
    assert "I2C 0x10: register 0x02 = 0x20" in done("log")
    assert answer("i2c", 16, 2, 32) == {"address": 16, "register": 2, "value": 32}
    assert "no device at address 0x50" in failed(1, "i2c", 0x50, 0, 0)


@pytest.mark.parametrize("words", [("256", "0", "0"), ("0", "-1", "0"), ("0", "0", "0x"), ("0", "0")])
def test_i2c_takes_bytes(words: tuple[str, ...]) -> None:
    assert call("i2c", *words).exit_code == 2


# A board without a sensor


@pytest.mark.parametrize("words", [("acquire",), ("stream", "on"), ("frame", "raw"), ("i2c", "1", "2", "3")])
def test_without_a_sensor(
    without_sensor: Opener, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "the board has no sensor" in failed(1, *words)
    assert list(tmp_path.iterdir()) == []


def test_picture_without_a_sensor(without_sensor: Opener) -> None:
    with without_sensor() as server:
        assert server.sensor_format() is None
        with pytest.raises(TensorError, match="does not say what its frames are"):
            server.read_picture()


def test_encodings_of_pictures_have_the_numbers_of_the_protocol() -> None:
    assert [PixelEncoding[name.upper()] for name in PICTURES] == list(range(len(PICTURES)))
