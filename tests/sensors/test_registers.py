"""Register models: what writes make of a picture, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.commands import FrameRegion
from aisrv.protocol.i2c import I2cNak
from aisrv.sensors.image.frame import Encoding, RawFrame, frame_size
from aisrv.sensors.image.image_path import ImagePath
from aisrv.sensors.registers import (
    BLACK,
    COLOR_BARS,
    RED,
    SENSOR_MODELS,
    WHITE,
    Gc2145,
    GenericSensor,
    bars,
    scaled,
)

PICTURES = (Encoding.RGB, Encoding.BAYER_RGGB, Encoding.YUV422)


def picture(encoding: Encoding, data: bytes | None = None, width: int = 4, height: int = 2) -> RawFrame:
    size = frame_size(width, height, encoding)
    return RawFrame(width, height, encoding, bytes(i % 256 for i in range(size)) if data is None else data)


def rgb(frame: RawFrame) -> list[tuple[int, ...]]:
    """The colors of the first row of pixels, through the image path at the frame's own size."""
    size = frame.width, frame.height
    data = ImagePath().to_tensor(frame, FrameRegion(0, size[0], 0, size[1], *size))
    row = [value ^ 0x80 for value in data[: 3 * frame.width]]
    return [tuple(row[i : i + 3]) for i in range(0, len(row), 3)]


# Scaling.


@pytest.mark.parametrize(
    ("gain", "expected"),
    [(0.0, [0, 0, 0, 0]), (0.5, [0, 50, 100, 128]), (1.0, [0, 100, 200, 255]), (2.0, [0, 200, 255, 255])],
)
@pytest.mark.parametrize("encoding", [Encoding.RGB, Encoding.BAYER_RGGB])
def test_gain_scales_each_level_up_to_white(encoding: Encoding, gain: float, expected: list[int]) -> None:
    data = bytes((0, 100, 200, 255)) * (frame_size(4, 2, encoding) // 4)
    assert list(scaled(picture(encoding, data), gain).data[:4]) == expected


@pytest.mark.parametrize(
    ("gain", "expected"), [(0.0, [0, 128, 0, 128]), (0.5, [50, 138, 20, 64]), (2.0, [200, 168, 80, 0])]
)
def test_gain_scales_brightness_and_color_differences_of_yuv(gain: float, expected: list[int]) -> None:
    frame = scaled(picture(Encoding.YUV422, bytes((100, 148, 40, 0)) * 4), gain)
    assert list(frame.data[:4]) == expected


@given(st.sampled_from(PICTURES), st.floats(0, 20), st.binary(min_size=24, max_size=24))
def test_scaling_keeps_the_format(encoding: Encoding, gain: float, noise: bytes) -> None:
    frame = picture(encoding, noise[: frame_size(4, 2, encoding)])
    got = scaled(frame, gain)
    assert (got.width, got.height, got.encoding, len(got.data)) == (4, 2, encoding, len(frame.data))


def test_samples_stay_as_they_are() -> None:
    frame = picture(Encoding.SAMPLES)
    assert scaled(frame, 5.0) is frame
    assert bars(frame, COLOR_BARS) is frame


# Bars.


@pytest.mark.parametrize("encoding", PICTURES)
def test_one_color_fills_the_picture(encoding: Encoding) -> None:
    for color in COLOR_BARS:
        frame = bars(picture(encoding, width=8), (color,))
        assert len(frame.data) == frame_size(8, 2, encoding)
        for pixel in rgb(frame):
            assert max(abs(a - b) for a, b in zip(pixel, color, strict=True)) <= 2


@pytest.mark.parametrize("encoding", [Encoding.RGB, Encoding.YUV422])
def test_bars_stand_in_order_and_are_equally_wide(encoding: Encoding) -> None:
    pixels = rgb(bars(picture(encoding, width=32), COLOR_BARS))
    for x, pixel in enumerate(pixels):
        expected = COLOR_BARS[x // 4]
        assert max(abs(a - b) for a, b in zip(pixel, expected, strict=True)) <= 2


def test_bars_of_a_bayer_frame_have_the_mosaics_bytes() -> None:
    frame = bars(picture(Encoding.BAYER_RGGB, width=4, height=3), (RED, WHITE))
    red_green, green_blue = b"\xff\x00\xff\xff", b"\x00\x00\xff\xff"
    assert frame.data == red_green + green_blue + red_green


@pytest.mark.parametrize("width", [2, 4, 6, 7, 9, 640])
def test_bars_of_any_width_fill_the_frame(width: int) -> None:
    frame = bars(picture(Encoding.RGB, width=width), COLOR_BARS)
    assert len(frame.data) == 6 * width
    assert frame.data[:3] == bytes(WHITE)


# The generic sensor.


def test_generic_sensor_at_start_shows_the_picture_as_it_is() -> None:
    frame = picture(Encoding.RGB)
    assert GenericSensor().expose(frame) is frame


@pytest.mark.parametrize(
    ("register", "value", "factor"), [(1, 128, 2), (1, 32, 0.5), (2, 32, 2), (2, 8, 0.5)]
)
def test_generic_exposure_and_gain_scale(register: int, value: int, factor: float) -> None:
    sensor = GenericSensor()
    sensor.write(register, value)
    assert sensor.expose(picture(Encoding.RGB)).data == bytes(round(level * factor) for level in range(24))


def test_generic_exposure_and_gain_multiply() -> None:
    sensor = GenericSensor()
    sensor.write(1, 128)
    sensor.write(2, 24)
    assert sensor.expose(picture(Encoding.RGB)).data == bytes(3 * level for level in range(24))


def test_generic_test_pattern_replaces_the_picture_and_goes_again() -> None:
    sensor, frame = GenericSensor(), picture(Encoding.RGB)
    for value, color in ((2, WHITE), (3, BLACK)):
        sensor.write(3, value)
        assert sensor.expose(frame).data == bytes(color) * 8
    sensor.write(3, 1)
    assert sensor.expose(frame).data == b"".join(map(bytes, COLOR_BARS[::2])) * 2
    sensor.write(3, 0)
    assert sensor.expose(frame) is frame


@pytest.mark.parametrize("register", [4, 5, 0x80, 0xFF])
def test_generic_register_that_is_not_there_is_not_acknowledged(register: int) -> None:
    with pytest.raises(I2cNak, match=f"0x{register:02x}"):
        GenericSensor().write(register, 0)
    with pytest.raises(I2cNak, match=f"0x{register:02x}"):
        GenericSensor().read(register)


@pytest.mark.parametrize("value", [4, 5, 255])
def test_generic_pattern_that_is_not_there_is_not_acknowledged(value: int) -> None:
    sensor = GenericSensor()
    with pytest.raises(I2cNak, match=f"pattern {value}"):
        sensor.write(3, value)
    assert sensor.read(3) == 0


def test_generic_chip_id_cannot_be_written() -> None:
    sensor = GenericSensor()
    sensor.write(0, 1)
    assert sensor.read(0) == 0x5A


# The GC2145. Register numbers and values as drivers send them.


def write(sensor: Gc2145, *pairs: tuple[int, int]) -> None:
    for register, value in pairs:
        sensor.write(register, value)


def test_gc2145_answers_its_chip_id_on_every_page() -> None:
    sensor = Gc2145()
    for page in range(4):
        write(sensor, (0xFE, page), (0xF0, 0), (0xF1, 0))
        assert (sensor.read(0xF0), sensor.read(0xF1), sensor.read(0xFE)) == (0x21, 0x45, page)


def test_gc2145_at_start_shows_the_picture_as_it_is() -> None:
    frame = picture(Encoding.RGB)
    assert Gc2145().expose(frame) is frame


@pytest.mark.parametrize(
    ("pairs", "factor"),
    [
        (((0xB0, 0x80),), 2),
        (((0xB0, 0x20),), 0.5),
        (((0x03, 0x09), (0x04, 0xC4)), 2),
        (((0x03, 0xE9), (0x04, 0xC4)), 2),  # 13 bits count
        (((0x03, 0x02), (0x04, 0x71)), 0.5),
        (((0x03, 0x09), (0x04, 0xC4), (0xB0, 0x20)), 1),
        (((0x03, 0x00), (0x04, 0x00)), 0),
    ],
)
def test_gc2145_exposure_and_gain_scale(pairs: tuple[tuple[int, int], ...], factor: float) -> None:
    sensor = Gc2145()
    write(sensor, *pairs)
    assert sensor.expose(picture(Encoding.RGB)).data == bytes(round(level * factor) for level in range(24))


@pytest.mark.parametrize(
    ("value", "color"),
    [
        (0x48, (255, 255, 255)),
        (0x88, (255, 255, 0)),
        (0x98, (0, 255, 255)),
        (0x68, (0, 255, 0)),
        (0xA8, (255, 0, 255)),
        (0x58, (255, 0, 0)),
        (0x08, (0, 0, 0)),
    ],
)
def test_gc2145_uniform_patterns_are_those_of_the_linux_driver(value: int, color: tuple[int, ...]) -> None:
    sensor = Gc2145()
    write(sensor, (0x8C, 0x09), (0x8D, value))
    assert sensor.expose(picture(Encoding.RGB)).data == bytes(color) * 8


def test_gc2145_color_pattern_is_bars_until_it_is_disabled() -> None:
    sensor, frame = Gc2145(), picture(Encoding.RGB)
    write(sensor, (0x8C, 0x09), (0x8D, 0x00))
    assert sensor.expose(frame) == bars(frame, COLOR_BARS)
    write(sensor, (0x8C, 0), (0x8D, 0))
    assert sensor.expose(frame) is frame


def test_gc2145_registers_of_other_pages_leave_the_picture() -> None:
    sensor, frame = Gc2145(), picture(Encoding.RGB)
    for page in (1, 2, 3):
        write(sensor, (0xFE, page), (0x03, 0), (0x04, 0), (0xB0, 0), (0x8C, 9))
    assert sensor.expose(frame) is frame
    assert sensor.read(0xB0) == 0
    write(sensor, (0xFE, 0))
    assert sensor.read(0xB0) == 0x40


def test_gc2145_reset_brings_the_first_values_back() -> None:
    sensor, frame = Gc2145(), picture(Encoding.RGB)
    write(sensor, (0xB0, 0xFF), (0x8C, 9), (0xFE, 0xF0))
    assert sensor.expose(frame) is frame
    assert (sensor.read(0x03), sensor.read(0x04), sensor.read(0xFE)) == (0x04, 0xE2, 0)


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), max_size=30), st.sampled_from(PICTURES))
def test_gc2145_takes_any_write_and_delivers_a_frame(
    pairs: list[tuple[int, int]], encoding: Encoding
) -> None:
    sensor, frame = Gc2145(), picture(encoding)
    write(sensor, *pairs)
    assert len(sensor.expose(frame).data) == len(frame.data)
    assert (sensor.read(0xF0), sensor.read(0xF1)) == (0x21, 0x45)


# By name.


@pytest.mark.parametrize(("name", "address"), [("generic", 0x10), ("gc2145", 0x3C)])
def test_model_is_made_by_name_at_its_address(name: str, address: int) -> None:
    assert SENSOR_MODELS[name]().address == address
