"""Sources of pictures: what each delivers, where it ends, and what it says of bad input."""

import hashlib
import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from aisrv.protocol.commands import FrameRegion
from aisrv.sensors.image.demosaic import mosaic
from aisrv.sensors.image.frame import Encoding, FrameSource, RawFrame, SourceError, check_frame
from aisrv.sensors.image.image_path import ImagePath
from aisrv.sensors.registers import COLOR_BARS
from aisrv.sensors.sources import images
from aisrv.sensors.sources.arrays import ArraySource, CallbackSource
from aisrv.sensors.sources.images import FolderSource, ImageSource
from aisrv.sensors.sources.numbered import RawRecording
from aisrv.sensors.sources.patterns import Pattern, PatternSource
from aisrv.sensors.sources.video import VideoSource, WebcamSource, open_webcam
from aisrv.values.printable import printable
from tests.support.amounts import in_ci

Picture = npt.NDArray[np.uint8]
RGB = Encoding.RGB

opencv = pytest.mark.skipif(
    importlib.util.find_spec("cv2") is None, reason="video needs OpenCV: pip install opencv-python-headless"
)


def noise(width: int, height: int, seed: int = 0) -> Picture:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


async def picture(source: FrameSource) -> Picture:
    frame = await source.frame()
    check_frame(frame)
    assert (frame.width, frame.height, frame.encoding) == (source.width, source.height, RGB)
    return np.frombuffer(frame.data, np.uint8).reshape(frame.height, frame.width, 3)


def save(path: Path, pixels: Picture) -> Path:
    Image.fromarray(pixels).save(path)
    return path


# Patterns.


async def test_bars_are_eight_of_equal_width() -> None:
    got = await picture(PatternSource(Pattern.BARS, 16, 2, RGB))
    assert got[1].tolist() == [list(color) for color in COLOR_BARS for _ in range(2)]


async def test_gradient_rises_to_the_right_and_down() -> None:
    got = await picture(PatternSource(Pattern.GRADIENT, 256, 2, RGB))
    assert got[0].tolist() == [[x, 0, 128] for x in range(256)]
    assert got[1].tolist() == [[x, 255, 128] for x in range(256)]


async def test_checker_begins_with_white() -> None:
    got = await picture(PatternSource(Pattern.CHECKER, 32, 16, RGB))
    assert (got[0, :, 0].tolist(), got[2, :, 0].tolist()) == ([255, 255, 0, 0] * 8, [0, 0, 255, 255] * 8)


async def test_square_moves_and_comes_back() -> None:
    source = PatternSource(Pattern.MOVING, 16, 16, RGB)
    starts = [np.flatnonzero((await picture(source))[8, :, 0]).tolist() for _ in range(5)]
    assert starts == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15], [0, 1, 2, 3]]


async def test_noise_is_that_of_its_seed_and_frame() -> None:
    source = PatternSource(Pattern.NOISE, 4, 2, RGB, seed=7)
    expected = [hashlib.shake_128(text).digest(24) for text in (b"7:0", b"7:1", b"7:2")]
    assert [(await source.frame()).data for _ in range(3)] == expected


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("encoding", [Encoding.BAYER_RGGB, Encoding.YUV422, Encoding.RGB])
@pytest.mark.parametrize("size", [(2, 2), (4, 3), (64, 48), (640, 480)])
async def test_patterns_have_every_size_and_encoding(
    pattern: Pattern, encoding: Encoding, size: tuple[int, int]
) -> None:
    source = PatternSource(pattern, *size, encoding)
    frame = await source.frame()
    assert (frame.width, frame.height, frame.encoding) == (*size, encoding)
    check_frame(frame)


async def test_bayer_pattern_shows_the_first_bar_white_through_the_image_path() -> None:
    frame = await PatternSource(Pattern.BARS).frame()
    assert ImagePath().to_tensor(frame, FrameRegion(0, 70, 0, 480, 1, 1)) == bytes([127, 127, 127])


@pytest.mark.parametrize("size", [(0, 4), (4, 0), (1, 2), (65536, 2), (65535, 65535)])
def test_impossible_and_huge_patterns_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(SourceError, match="pattern bars: "):
        PatternSource(Pattern.BARS, *size)


# Images and folders.


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.ppm", "A.PNG"])
async def test_image_is_delivered_for_ever(tmp_path: Path, name: str) -> None:
    pixels = noise(7, 5)
    source = ImageSource(save(tmp_path / name, pixels), encoding=RGB)
    assert [(await picture(source)).tolist() for _ in range(3)] == [pixels.tolist()] * 3


async def test_image_is_seen_as_a_mosaic(tmp_path: Path) -> None:
    pixels = noise(7, 5)
    source = ImageSource(save(tmp_path / "a.png", pixels))
    assert await source.frame() == RawFrame(7, 5, Encoding.BAYER_RGGB, mosaic(pixels).tobytes())


async def test_gray_image_becomes_rgb(tmp_path: Path) -> None:
    Image.fromarray(np.array([[1, 2], [3, 4]], np.uint8)).save(tmp_path / "gray.png")
    got = await picture(ImageSource(tmp_path / "gray.png", encoding=RGB))
    assert got.tolist() == [[[1] * 3, [2] * 3], [[3] * 3, [4] * 3]]


async def test_image_is_scaled_to_the_size_asked_for(tmp_path: Path) -> None:
    pixels = np.array([[[0] * 3, [100] * 3], [[20] * 3, [80] * 3]], np.uint8)
    source = ImageSource(save(tmp_path / "a.png", pixels), (1, 2), RGB)
    assert (await picture(source)).tolist() == [[[50] * 3], [[50] * 3]]


def folder_of_three(folder: Path) -> list[list[int]]:
    """Pictures whose names are in order only when sorted, and files that are none."""
    colors = {"b.png": [2, 2, 2], "a.png": [1, 1, 1], "c.bmp": [3, 3, 3]}
    for name, color in colors.items():
        save(folder / name, np.full((2, 2, 3), color, np.uint8))
    (folder / "notes.txt").write_text("no picture")
    (folder / ".a.png").write_text("hidden")
    return [colors[name] for name in sorted(colors)]


async def test_folder_goes_by_name_and_ends(tmp_path: Path) -> None:
    expected = folder_of_three(tmp_path)
    source = FolderSource(tmp_path, encoding=RGB)
    assert [(await picture(source))[0, 0].tolist() for _ in range(3)] == expected
    with pytest.raises(SourceError, match="ended after 3 frames; with the option loop it begins again"):
        await source.frame()


async def test_folder_begins_again_in_a_loop(tmp_path: Path) -> None:
    expected = folder_of_three(tmp_path)
    source = FolderSource(tmp_path, encoding=RGB, loop=True)
    assert [(await picture(source))[0, 0].tolist() for _ in range(7)] == (expected * 3)[:7]


async def test_folder_scales_all_to_the_size_of_the_first(tmp_path: Path) -> None:
    save(tmp_path / "1.png", np.full((4, 6, 3), 9, np.uint8))
    save(tmp_path / "2.png", np.full((8, 3, 3), 7, np.uint8))
    source = FolderSource(tmp_path, encoding=RGB)
    assert [(await picture(source)).tolist() for _ in range(2)] == [
        np.full((4, 6, 3), level).tolist() for level in (9, 7)
    ]


async def test_folder_goes_on_behind_a_damaged_picture(tmp_path: Path) -> None:
    expected = folder_of_three(tmp_path)
    (tmp_path / "b.png").write_bytes(b"damaged")
    source = FolderSource(tmp_path, encoding=RGB)
    await source.frame()
    with pytest.raises(SourceError, match=r"b\.png: not a picture that can be read"):
        await source.frame()
    assert (await picture(source))[0, 0].tolist() == expected[2]


def test_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no pictures in it"):
        FolderSource(tmp_path)


@pytest.mark.parametrize("name", ["missing", "a\0b", "x" * 300])
def test_missing_files_and_folders_are_named(tmp_path: Path, name: str) -> None:
    for make in (FolderSource, ImageSource):
        with pytest.raises(SourceError, match=printable(name)[:6]):
            make(tmp_path / name)


def test_pipe_is_no_picture(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(SourceError, match=r"pipe\.png: not a regular file"):
        ImageSource(tmp_path / "pipe.png")


def test_picture_of_too_many_pixels_is_refused_unread(tmp_path: Path) -> None:
    for side, message in ((4097, "4097x4097 pixels"), (12_000, "12000x12000 pixels"), (30_000, "pixels")):
        path = tmp_path / f"{side}.ppm"
        path.write_bytes(b"P6 %d %d 255\n" % (side, side))
        with pytest.raises(SourceError, match=message):
            ImageSource(path)


def test_file_of_too_many_bytes_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "big.png"
    path.touch()
    os.truncate(path, images.LARGEST_FILE + 1)
    with pytest.raises(SourceError, match=f"big.png: larger than {images.LARGEST_FILE} bytes"):
        ImageSource(path)


def _saved(format_: str) -> bytes:
    from io import BytesIO

    file = BytesIO()
    Image.fromarray(noise(9, 9)).save(file, format_)
    return file.getvalue()


ORIGINALS = {name: _saved(name) for name in ("PNG", "JPEG", "BMP", "GIF", "PPM")}


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow warns of damaged metadata, and goes on
@settings(max_examples=in_ci(400, every_day=80))
@given(
    name=st.sampled_from(sorted(ORIGINALS)),
    cut=st.integers(0, 400),
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=6),
)
def test_damaged_picture_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, cut: int, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(ORIGINALS[name])
    for at, value in changes:
        data[at % len(data)] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(data[: len(data) - cut] if cut < len(data) else b"")
    try:
        ImageSource(path)
    except SourceError as error:
        assert str(path) in str(error)  # noqa: PT017 - both outcomes are right


# Arrays and callbacks.


@pytest.mark.parametrize("encoding", [Encoding.BAYER_RGGB, Encoding.RGB])
async def test_array_is_looked_at_anew_for_every_frame(encoding: Encoding) -> None:
    pixels = np.zeros((2, 2, 3), np.uint8)
    source = ArraySource(pixels, encoding)
    before = await source.frame()
    pixels[:] = 5
    assert (set(before.data), set((await source.frame()).data)) == ({0}, {5})


async def test_array_of_several_pictures_ends() -> None:
    source = ArraySource(np.stack([noise(4, 2, seed) for seed in range(3)]), RGB)
    assert [(await picture(source)).tolist() for _ in range(3)] == [noise(4, 2, s).tolist() for s in range(3)]
    with pytest.raises(SourceError, match="array ended after 3 frames"):
        await source.frame()


async def test_gray_array_becomes_rgb() -> None:
    got = await picture(ArraySource(np.array([[1, 2]], np.uint8), RGB))
    assert got.tolist() == [[[1] * 3, [2] * 3]]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 2, 3)),
        np.zeros((2, 2, 4), np.uint8),
        np.zeros(4, np.uint8),
        np.zeros((0, 2, 2, 3), np.uint8),
        np.zeros((1, 2, 3), np.uint8),
        np.zeros((1, 1, 2, 2, 3), np.uint8),
    ],
)
def test_array_that_is_no_picture_is_refused(array: npt.NDArray[Any]) -> None:
    with pytest.raises(SourceError, match="array"):
        ArraySource(array)


async def test_callback_may_give_bytes_or_frames_at_once_or_later() -> None:
    async def later() -> RawFrame:
        return RawFrame(2, 1, RGB, b"later!")

    async def bytes_later() -> bytes:
        return b"bytes!"

    sources = [CallbackSource(made, 2, 1, RGB) for made in (lambda: b"abcdef", later, bytes_later)]
    assert [(await source.frame()).data for source in sources] == [b"abcdef", b"later!", b"bytes!"]


async def test_callback_gives_samples() -> None:
    source = CallbackSource(lambda: b"1234", 4, 1, Encoding.SAMPLES)
    assert await source.frame() == RawFrame(4, 1, Encoding.SAMPLES, b"1234")


@pytest.mark.parametrize("made", [b"", b"12345", RawFrame(1, 2, RGB, bytes(6))])
async def test_callback_must_keep_to_its_size(made: bytes | RawFrame) -> None:
    source = CallbackSource(lambda: made, 2, 1, RGB)
    with pytest.raises(SourceError, match="where 6 bytes of rgb 2x1 was announced"):
        await source.frame()


async def test_what_a_callback_raises_goes_through() -> None:
    def failing() -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await CallbackSource(failing, 2, 1, RGB).frame()


# Recorded raw frames.


async def test_recording_is_played_frame_by_frame(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(bytes(range(12)))
    source = RawRecording(tmp_path / "raw", 2, 2, Encoding.BAYER_RGGB)
    assert [(await source.frame()).data for _ in range(3)] == [b"\0\1\2\3", b"\4\5\6\7", b"\10\11\12\13"]
    with pytest.raises(SourceError, match="raw ended after 3 frames"):
        await source.frame()


async def test_recording_in_a_loop_skips_over_its_end(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(bytes(range(12)))
    source = RawRecording(tmp_path / "raw", 2, 2, Encoding.BAYER_RGGB, loop=True)
    source.skip(1_000_001)
    assert (await source.frame()).data == bytes([8, 9, 10, 11])  # 1000001 = 3 * 333333 + 2


@pytest.mark.parametrize("size", [0, 1, 3, 5, 511, 513])
def test_recording_of_no_whole_frames_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "raw").write_bytes(bytes(size))
    with pytest.raises(SourceError, match=f"raw: {size} bytes are not whole frames of 4 bytes"):
        RawRecording(tmp_path / "raw", 2, 2, Encoding.BAYER_RGGB)


def test_recording_of_huge_frames_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="are 12884508675 bytes, above 67108864"):
        RawRecording(tmp_path / "raw", 65535, 65535, Encoding.RGB)


async def test_recording_that_was_cut_since_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_bytes(bytes(8))
    source = RawRecording(path, 2, 2, Encoding.BAYER_RGGB)
    path.write_bytes(bytes(3))
    with pytest.raises(SourceError, match="ends within frame 0"):
        await source.frame()
    path.unlink()
    with pytest.raises(SourceError, match="raw: No such file"):
        await source.frame()


# Video and cameras.


@pytest.mark.skipif(importlib.util.find_spec("cv2") is not None, reason="OpenCV is installed")
def test_video_without_opencv_names_the_extra(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"pip install .*\[camera\]"):
        VideoSource(tmp_path / "clip.avi")
    with pytest.raises(SourceError, match=r"^webcam 0: video needs OpenCV \(.*cv2.*\): pip install "):
        open_webcam(0)


LEVELS = [10, 60, 110, 160, 210]


def clip(path: Path) -> Path:
    """A video of flat gray frames, by OpenCV."""
    cv2 = importlib.import_module("cv2")
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 25, (64, 48))
    for level in LEVELS:
        writer.write(np.full((48, 64, 3), (level, level, 0), np.uint8))  # blue, green, red
    writer.release()
    return path


def near(frame: RawFrame) -> tuple[int, int]:
    """Red, and the level of green."""
    pixel = np.frombuffer(frame.data, np.uint8).reshape(frame.height, frame.width, 3)[1, 1]
    return int(pixel[0]) // 10, min(LEVELS, key=lambda level: abs(level - int(pixel[1])))


@opencv
async def test_video_plays_in_order_and_ends(tmp_path: Path) -> None:
    source = VideoSource(clip(tmp_path / "clip.avi"), encoding=RGB)
    assert (source.width, source.height) == (64, 48)
    assert [near(await source.frame()) for _ in LEVELS] == [(0, level) for level in LEVELS]
    with pytest.raises(SourceError, match=r"clip\.avi ended after 5 frames"):
        await source.frame()


@opencv
async def test_video_loops_and_skips(tmp_path: Path) -> None:
    source = VideoSource(clip(tmp_path / "clip.avi"), (8, 6), RGB, loop=True)
    seen = [near(await source.frame())[1]]
    source.skip(2)
    seen += [near(await source.frame())[1] for _ in range(3)]
    assert seen == [10, 160, 210, 10]


@opencv
@pytest.mark.parametrize("content", [b"", b"no video", bytes(4096)])
def test_file_that_is_no_video_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clip.avi").write_bytes(content)
    with pytest.raises(SourceError, match=r"clip\.avi"):
        VideoSource(tmp_path / "clip.avi")


@opencv
def test_missing_video_and_camera_are_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"frame%03d\.png: No such file"):
        VideoSource(tmp_path / "frame%03d.png")
    with pytest.raises(SourceError, match="webcam 99: no such camera"):
        open_webcam(99)


@opencv
async def test_camera_gives_what_its_capture_sees_until_it_is_gone(tmp_path: Path) -> None:
    cv2 = importlib.import_module("cv2")
    source = WebcamSource(cv2.VideoCapture(str(clip(tmp_path / "clip.avi"))), "webcam 0", (4, 4), RGB)
    assert [near(await source.frame())[1] for _ in LEVELS] == LEVELS
    with pytest.raises(SourceError, match="webcam 0: the camera has no picture"):
        await source.frame()
