"""The image path against exact arithmetic written another way, and against Pillow."""

from fractions import Fraction
from math import gcd

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from aisrv.protocol.commands import FrameRegion
from aisrv.sensors.image.demosaic import mosaic
from aisrv.sensors.image.frame import Encoding, FrameError, RawFrame, check_frame, frame_size
from aisrv.sensors.image.image_path import ImagePath, RegionError, check_region
from aisrv.sensors.image.yuv import pack_yuv422
from tests.support.amounts import in_ci

Picture = npt.NDArray[np.uint8]
WIDTH, HEIGHT = 640, 480


def noise(width: int, height: int, seed: int = 0) -> Picture:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def smooth(width: int = WIDTH, height: int = HEIGHT) -> Picture:
    """A picture as a lens makes it: nothing finer than some ten pixels."""
    small = Image.fromarray(noise(width // 32, height // 32))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))


def rgb_frame(picture: Picture) -> RawFrame:
    return RawFrame(picture.shape[1], picture.shape[0], Encoding.RGB, picture.tobytes())


def bayer_frame(picture: Picture) -> RawFrame:
    return RawFrame(picture.shape[1], picture.shape[0], Encoding.BAYER_RGGB, mosaic(picture).tobytes())


def yuv_frame(picture: Picture) -> RawFrame:
    return RawFrame(picture.shape[1], picture.shape[0], Encoding.YUV422, pack_yuv422(picture).tobytes())


def whole(frame: RawFrame, width: int, height: int) -> FrameRegion:
    return FrameRegion(0, frame.width, 0, frame.height, width, height)


def pixels(tensor: bytes, region: FrameRegion, channels: int = 3) -> Picture:
    values = np.frombuffer(tensor, np.int8).astype(np.int16) + 128
    shape = (region.height, region.width, channels) if channels > 1 else (region.height, region.width)
    return values.astype(np.uint8).reshape(shape)


def resampled(frame: RawFrame, region: FrameRegion) -> Picture:
    return pixels(ImagePath().to_tensor(frame, region), region)


def pillow_area(picture: Picture, width: int, height: int) -> Picture:
    """Area averages by Pillow alone: pixels repeated so that the factor of `reduce` is a whole number."""
    across, down = gcd(picture.shape[1], width), gcd(picture.shape[0], height)
    repeated = Image.fromarray(picture).resize(
        (picture.shape[1] * (width // across), picture.shape[0] * (height // down)), Image.Resampling.NEAREST
    )
    return np.asarray(repeated.reduce((picture.shape[1] // across, picture.shape[0] // down)))


def errors(ours: Picture, theirs: Picture) -> tuple[int, float]:
    difference = np.abs(ours.astype(int) - theirs.astype(int))
    return int(difference.max()), float(difference.mean())


# The same arithmetic in fractions, pixel by pixel.


def exact_weights(start: int, end: int, target: int, output: int) -> dict[int, Fraction]:
    step = Fraction(end - start, target)
    weights: dict[int, Fraction] = {}
    if step >= 1:
        low, high = output * step, (output + 1) * step
        for x in range(end - start):
            shared = min(high, Fraction(x + 1)) - max(low, Fraction(x))
            if shared > 0:
                weights[start + x] = shared / step
        return weights
    center = (output + Fraction(1, 2)) * step - Fraction(1, 2)
    for x in range(-1, end - start + 1):
        weight = 1 - abs(center - x)
        if weight > 0:
            inside = start + min(max(x, 0), end - start - 1)
            weights[inside] = weights.get(inside, Fraction(0)) + weight
    return weights


def mirrored(index: int, length: int) -> int:
    return -index if index < 0 else 2 * (length - 1) - index if index >= length else index


def exact_demosaic(frame: RawFrame, x: int, y: int) -> list[Fraction]:
    def at(dx: int, dy: int) -> int:
        return frame.data[mirrored(y + dy, frame.height) * frame.width + mirrored(x + dx, frame.width)]

    own = Fraction(at(0, 0))
    beside = Fraction(at(-1, 0) + at(1, 0), 2)
    above = Fraction(at(0, -1) + at(0, 1), 2)
    corners = Fraction(at(-1, -1) + at(1, -1) + at(-1, 1) + at(1, 1), 4)
    return {
        (0, 0): [own, (beside + above) / 2, corners],
        (1, 0): [beside, own, above],
        (0, 1): [above, own, beside],
        (1, 1): [corners, (beside + above) / 2, own],
    }[x % 2, y % 2]


def exact(frame: RawFrame, region: FrameRegion) -> Picture:
    result = np.zeros((region.height, region.width, 3), np.uint8)
    for row in range(region.height):
        down = exact_weights(region.start_y, region.end_y, region.height, row)
        for column in range(region.width):
            across = exact_weights(region.start_x, region.end_x, region.width, column)
            mean = [Fraction(0)] * 3
            for y, weight_y in down.items():
                for x, weight_x in across.items():
                    if frame.encoding is Encoding.BAYER_RGGB:
                        colors = exact_demosaic(frame, x, y)
                    else:
                        at = (y * frame.width + x) * 3
                        colors = [Fraction(value) for value in frame.data[at : at + 3]]
                    mean = [m + weight_y * weight_x * c for m, c in zip(mean, colors, strict=True)]
            result[row, column] = [int(m + Fraction(1, 2)) for m in mean]
    return result


@st.composite
def frames_and_regions(draw: st.DrawFn, encoding: Encoding) -> tuple[RawFrame, FrameRegion]:
    width, height = draw(st.integers(2, 9)), draw(st.integers(2, 9))
    size = frame_size(width, height, encoding)
    data = draw(st.binary(min_size=size, max_size=size))
    start_x, start_y = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    end_x, end_y = draw(st.integers(start_x + 1, width)), draw(st.integers(start_y + 1, height))
    target = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    return RawFrame(width, height, encoding, data), FrameRegion(start_x, end_x, start_y, end_y, *target)


@settings(max_examples=in_ci(120, every_day=24))
@given(st.sampled_from([Encoding.RGB, Encoding.BAYER_RGGB]).flatmap(frames_and_regions))
def test_it_is_the_exact_mean_of_rgb_or_of_the_bilinear_mosaic(case: tuple[RawFrame, FrameRegion]) -> None:
    assert resampled(*case).tolist() == exact(*case).tolist()


# Against Pillow.


@pytest.mark.parametrize("factors", [(1, 1), (2, 2), (3, 3), (5, 5), (10, 8), (64, 96), (640, 480)])
def test_whole_factors_are_exact_means_and_those_of_pillow_within_one(factors: tuple[int, int]) -> None:
    across, down = factors
    picture = noise(720, 540) if factors == (3, 3) else noise(WIDTH, HEIGHT)
    height, width = picture.shape[0] // down, picture.shape[1] // across
    frame = rgb_frame(picture)
    ours = resampled(frame, whole(frame, width, height))
    sums = picture.reshape(height, down, width, across, 3).sum((1, 3), dtype=np.int64)
    assert np.array_equal(ours, (2 * sums + across * down) // (2 * across * down))
    # Pillow multiplies by a rounded reciprocal in place of dividing
    assert errors(ours, np.asarray(Image.fromarray(picture).reduce(factors)))[0] <= 1


@pytest.mark.parametrize("target", [(96, 96), (75, 50), (48, 36), (7, 11), (150, 112)])
def test_other_factors_are_the_area_averages_of_pillow_within_one(target: tuple[int, int]) -> None:
    picture = noise(160, 120)
    frame = rgb_frame(picture)
    largest, mean = errors(resampled(frame, whole(frame, *target)), pillow_area(picture, *target))
    assert (largest <= 1, mean <= 0.2) == (True, True), (largest, mean)


@pytest.mark.parametrize("target", [(1280, 960), (800, 600), (641, 481)])
def test_rgb_grows_as_pillow_does_with_bilinear(target: tuple[int, int]) -> None:
    picture = noise(WIDTH, HEIGHT)
    frame = rgb_frame(picture)
    theirs = np.asarray(Image.fromarray(picture).resize(target, Image.Resampling.BILINEAR))
    largest, mean = errors(resampled(frame, whole(frame, *target)), theirs)
    assert (largest <= 1, mean <= 0.3) == (True, True), (largest, mean)


@pytest.mark.parametrize("target", [(320, 240), (300, 200), (96, 96), (8, 8)])
@pytest.mark.parametrize("make", [bayer_frame, yuv_frame])
def test_raw_frames_shrink_to_the_picture_that_was_seen(make: object, target: tuple[int, int]) -> None:
    assert callable(make)
    picture = smooth()
    frame = make(picture)
    largest, mean = errors(resampled(frame, whole(frame, *target)), pillow_area(picture, *target))
    assert (largest <= 3, mean <= 0.5) == (True, True), (largest, mean)


@pytest.mark.parametrize("target", [(640, 480), (800, 600)])
@pytest.mark.parametrize(
    ("make", "most", "most_on_average"),
    [(bayer_frame, 4, 0.4), (yuv_frame, 10, 1.2)],  # half of the chroma is lost, and its steps are of 1.8
)
def test_raw_frames_keep_the_picture_that_was_seen(
    make: object, most: int, most_on_average: float, target: tuple[int, int]
) -> None:
    assert callable(make)
    picture = smooth()
    frame = make(picture)
    theirs = np.asarray(Image.fromarray(picture).resize(target, Image.Resampling.BILINEAR))
    largest, mean = errors(resampled(frame, whole(frame, *target)), theirs)
    assert (largest <= most, mean <= most_on_average) == (True, True), (largest, mean)


def test_gray_is_that_of_pillow_within_one() -> None:
    picture = noise(WIDTH, HEIGHT)
    frame = rgb_frame(picture)
    region = whole(frame, WIDTH, HEIGHT)
    theirs = np.asarray(Image.fromarray(picture).convert("L"))
    assert errors(pixels(ImagePath().to_gray(frame, region), region, 1), theirs)[0] <= 1


@pytest.mark.parametrize("make", [bayer_frame, yuv_frame])
def test_gray_of_raw_frames_is_that_of_pillow_within_the_tolerance(make: object) -> None:
    assert callable(make)
    picture = smooth()
    frame = make(picture)
    region = whole(frame, 96, 96)
    theirs = np.asarray(Image.fromarray(pillow_area(picture, 96, 96)).convert("L"))
    largest, mean = errors(pixels(ImagePath().to_gray(frame, region), region, 1), theirs)
    assert (largest <= 2, mean <= 0.5) == (True, True), (largest, mean)


def test_yuv_colors_are_those_of_pillow_within_two() -> None:
    flat = noise(256, 1).repeat(2, axis=1)  # one color a pair, as a pair has one chroma
    theirs = Image.fromarray(flat).convert("YCbCr")
    ours = pack_yuv422(flat).reshape(-1, 4)
    expected = np.asarray(theirs).reshape(-1, 2, 3)[:, 0]
    assert np.abs(ours[:, [0, 1, 3]].astype(int) - expected).max() <= 1
    frame = yuv_frame(flat)
    assert errors(resampled(frame, whole(frame, 512, 1)), flat)[0] <= 2


# Known pixels.


@pytest.mark.parametrize(
    ("at", "color"),
    [((0, 0), (255, 0, 0)), ((1, 0), (0, 255, 0)), ((0, 1), (0, 255, 0)), ((1, 1), (0, 0, 255))],
)
def test_mosaic_is_red_green_over_green_blue(at: tuple[int, int], color: tuple[int, int, int]) -> None:
    colors = np.array([[color, color], [color, color]], np.uint8)
    assert mosaic(colors)[at[1], at[0]] == 255
    assert mosaic(colors).sum() == (510 if color[1] else 255)


def test_tensor_is_int8_with_128_subtracted_row_by_row() -> None:
    frame = RawFrame(2, 2, Encoding.RGB, bytes([0, 127, 128, 255, 1, 2, 3, 4, 5, 6, 7, 8]))
    tensor = ImagePath().to_tensor(frame, whole(frame, 2, 2))
    assert list(memoryview(tensor).cast("b")) == [value - 128 for value in frame.data]


@pytest.mark.parametrize("level", [100, 101, 254])
@pytest.mark.parametrize(("short", "rounded"), [(0, 1), (1, 0), (3, 0)])
def test_one_in_a_whole_frame_decides_the_rounding(level: int, short: int, rounded: int) -> None:
    levels = np.full(WIDTH * HEIGHT, level, np.uint8)
    levels[: WIDTH * HEIGHT // 2 - short] += 1
    frame = rgb_frame(levels.reshape(HEIGHT, WIDTH, 1).repeat(3, axis=2))
    assert resampled(frame, whole(frame, 1, 1)).tolist() == [[[level + rounded] * 3]]


@pytest.mark.parametrize("luma", [0, 1, 128, 255])
def test_yuv_without_chroma_is_gray(luma: int) -> None:
    frame = RawFrame(2, 1, Encoding.YUV422, bytes([luma, 128, luma, 128]))
    assert resampled(frame, whole(frame, 2, 1)).tolist() == [[[luma] * 3] * 2]
    assert ImagePath().to_gray(frame, whole(frame, 2, 1)) == bytes([luma ^ 0x80] * 2)


def test_yuv_out_of_gamut_is_clipped() -> None:
    frame = RawFrame(2, 1, Encoding.YUV422, bytes([255, 0, 0, 255]))
    # Y + 1.402 V: 255 + 178 and 178.05; Y - 0.344 U - 0.714 V: 208.4 and -46.6; Y + 1.772 U: 28.2 and -226.8
    assert resampled(frame, whole(frame, 2, 1)).tolist() == [[[255, 208, 28], [178, 0, 0]]]


# Regions.


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (FrameRegion(0, 641, 0, 480, 8, 8), "columns end at 641, beyond the 640 of the frame"),
        (FrameRegion(0, 640, 0, 481, 8, 8), "rows end at 481, beyond the 480 of the frame"),
        (FrameRegion(640, 640, 0, 480, 8, 8), "columns 640 to 640 are empty"),
        (FrameRegion(0, 640, 7, 7, 8, 8), "rows 7 to 7 are empty"),
        (FrameRegion(20, 10, 0, 480, 8, 8), "columns 20 to 10 end before they start"),
        (FrameRegion(0, 640, 65535, 0, 8, 8), "rows 65535 to 0 end before they start"),
        (FrameRegion(-1, 640, 0, 480, 8, 8), "columns start at -1"),
        (FrameRegion(0, 640, 0, 480, 0, 8), "target width of 0"),
        (FrameRegion(0, 640, 0, 480, 8, 0), "target height of 0"),
        (FrameRegion(0, 640, 0, 480, 8, 9), "8x9 in 3 channels is 216 bytes, more than the 192"),
    ],
)
def test_wrong_region_is_named(region: FrameRegion, message: str) -> None:
    with pytest.raises(RegionError, match=message):
        check_region(region, WIDTH, HEIGHT, 192)


def test_largest_regions_pass() -> None:
    check_region(FrameRegion(0, 640, 0, 480, 8, 8), WIDTH, HEIGHT, 192)
    check_region(FrameRegion(639, 640, 479, 480, 65535, 65535), WIDTH, HEIGHT, None)
    check_region(FrameRegion(0, 1, 0, 1, 8, 24), WIDTH, HEIGHT, 192, channels=1)


def test_conversion_checks_the_region() -> None:
    frame = RawFrame(2, 2, Encoding.RGB, bytes(12))
    with pytest.raises(RegionError, match="columns end at 3"):
        ImagePath().to_tensor(frame, FrameRegion(0, 3, 0, 2, 1, 1))


# Frames.


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (RawFrame(2, 2, Encoding.RGB, bytes(11)), "rgb frame of 2x2 has 12 bytes, not 11"),
        (RawFrame(2, 2, Encoding.YUV422, bytes(9)), "yuv frame of 2x2 has 8 bytes, not 9"),
        (RawFrame(2, 2, Encoding.BAYER_RGGB, b""), "bayer frame of 2x2 has 4 bytes, not 0"),
        (RawFrame(3, 2, Encoding.YUV422, bytes(12)), "3 pixels wide"),
        (RawFrame(1, 2, Encoding.BAYER_RGGB, bytes(2)), "from 2x2 on"),
        (RawFrame(0, 2, Encoding.RGB, b""), "0x2: sides are 1 to 65535"),
        (RawFrame(65536, 1, Encoding.RGB, b""), "65536x1: sides are 1 to 65535"),
        (RawFrame(4, 1, Encoding.SAMPLES, bytes(4)), "samples is not a picture"),
    ],
)
def test_wrong_frame_is_refused(frame: RawFrame, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        ImagePath().to_tensor(frame, FrameRegion(0, 1, 0, 1, 1, 1))


def test_samples_have_as_many_bytes_as_their_size_says() -> None:
    check_frame(RawFrame(3, 4, Encoding.SAMPLES, bytes(12)))


# The cache.


def test_filters_are_kept_for_the_same_size_and_region_only() -> None:
    path = ImagePath()
    picture = noise(8, 8)
    for _ in range(2):
        for make in (rgb_frame, bayer_frame, yuv_frame):
            frame = make(picture)
            for region in (whole(frame, 4, 4), FrameRegion(1, 8, 0, 8, 4, 4), whole(frame, 9, 4)):
                assert path.to_tensor(frame, region) == ImagePath().to_tensor(frame, region)


def test_rarely_used_filters_are_forgotten() -> None:
    path = ImagePath()
    frame = rgb_frame(noise(8, 8))
    for width in range(1, 40):
        path.to_tensor(frame, whole(frame, width, 1))
    assert path._resampler.cache_info().currsize == 8
