"""WAV and CSV files as windows of samples."""

import struct
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.sensors.image.frame import Encoding, FrameSource, RawFrame, SourceError
from aisrv.sensors.sources.samples import SampleQuantization, SampleType, csv_source, wav_source
from tests.support.amounts import in_ci


def write_wav(path: Path, data: bytes, width: int = 2, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(16000)
        file.writeframes(data)
    return path


def write_csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


async def all_frames(source: FrameSource) -> list[bytes]:
    frames = []
    while True:
        try:
            frames.append((await source.frame()).data)
        except SourceError:
            return frames


# Windows.


@pytest.mark.parametrize(
    ("window", "hop", "expected"),
    [
        (4, None, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (4, 2, [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]]),
        (3, 5, [[0, 1, 2], [5, 6, 7]]),
        (10, None, [list(range(10))]),
        (1, 4, [[0], [4], [8]]),
    ],
)
async def test_windows_follow_each_other_by_the_hop(
    tmp_path: Path, window: int, hop: int | None, expected: list[list[int]]
) -> None:
    path = write_csv(tmp_path / "a.csv", "\n".join(map(str, range(10))))
    assert await all_frames(csv_source(path, window, hop)) == [bytes(row) for row in expected]


async def test_frame_has_a_row_for_each_sample(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", "1,-2\n3,-4\n5,-6\n")
    source = csv_source(path, 2, element=SampleType.INT16)
    assert (source.width, source.height, source.encoding) == (4, 2, Encoding.SAMPLES)
    assert await source.frame() == RawFrame(4, 2, Encoding.SAMPLES, struct.pack("<4h", 1, -2, 3, -4))


async def test_windows_begin_again_in_a_loop(tmp_path: Path) -> None:
    source = csv_source(write_csv(tmp_path / "a.csv", "1\n2\n3\n"), 2, loop=True, hop=1)
    assert [(await source.frame()).data for _ in range(3)] == [b"\1\2", b"\2\3", b"\1\2"]


@pytest.mark.parametrize(
    ("window", "hop", "message"),
    [
        (4, 1, "3 samples, fewer than the 4 of a window"),
        (0, 1, "a window of 0 samples every 1: both are 1 or more"),
        (1, 0, "a window of 1 samples every 0: both are 1 or more"),
    ],
)
def test_impossible_windows_are_refused(tmp_path: Path, window: int, hop: int, message: str) -> None:
    with pytest.raises(SourceError, match=f"a.csv: {message}"):
        csv_source(write_csv(tmp_path / "a.csv", "1\n2\n3\n"), window, hop)


# Quantization.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, -3),
        (0.25, -2),  # half a step: away from 0
        (-0.25, -4),
        (0.24, -3),
        (0.75, -1),
        (65.0, 127),
        (65.25, 127),
        (-62.5, -128),
        (-1e308, -128),
        (1e308, 127),
    ],
)
def test_quantization_rounds_and_saturates(value: float, expected: int) -> None:
    assert SampleQuantization(0.5, -3)(np.array([value]), SampleType.INT8).tolist() == [expected]


def test_quantization_to_int16_saturates_there() -> None:
    values = np.array([0.5, 1.0, -1.0, -2.0])
    assert SampleQuantization(1 / 32768)(values, SampleType.INT16).tolist() == [16384, 32767, -32768, -32768]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scale_must_be_above_zero(scale: float) -> None:
    with pytest.raises(SourceError, match="a scale of"):
        SampleQuantization(scale)


# WAV.


@pytest.mark.parametrize(
    ("width", "data", "int8", "int16"),
    [
        (1, bytes([0, 127, 128, 255]), [-128, -1, 0, 127], [-32768, -256, 0, 32512]),
        (2, struct.pack("<4h", -32768, -1, 256, 32767), [-128, -1, 1, 127], [-32768, -1, 256, 32767]),
        (
            3,
            b"\x00\x00\x80\xff\xff\xff\x00\x00\x01\xff\xff\x7f",
            [-128, -1, 1, 127],
            [-32768, -1, 256, 32767],
        ),
        (
            4,
            struct.pack("<4i", -(1 << 31), -1, 1 << 24, (1 << 31) - 1),
            [-128, -1, 1, 127],
            [-32768, -1, 256, 32767],
        ),
    ],
)
async def test_raw_elements_are_the_highest_bits(
    tmp_path: Path, width: int, data: bytes, int8: list[int], int16: list[int]
) -> None:
    path = write_wav(tmp_path / "a.wav", data, width)
    assert (await wav_source(path, 4).frame()).data == struct.pack("4b", *int8)
    assert (await wav_source(path, 4, element=SampleType.INT16).frame()).data == struct.pack("<4h", *int16)


async def test_quantized_samples_are_real_values_below_one(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "a.wav", struct.pack("<4h", -32768, 16384, 0, 32767))
    source = wav_source(path, 4, quantization=SampleQuantization(1 / 64, 5))
    assert (await source.frame()).data == struct.pack("4b", -59, 37, 5, 69)


async def test_channels_stay_side_by_side(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "a.wav", struct.pack("<4h", 256, 512, 768, 1024), channels=2)
    assert await all_frames(wav_source(path, 1)) == [b"\1\2", b"\3\4"]


@pytest.mark.parametrize("content", [b"", b"RIFF", b"RIFF\0\0\0\0WAVE", bytes(512), b"RIFF\4\0\0\0AVI "])
def test_file_that_is_no_wav_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(SourceError, match=r"a\.wav: not a WAV file that can be read: ."):
        wav_source(tmp_path / "a.wav", 1)


@settings(max_examples=in_ci(300, every_day=60))
@given(
    cut=st.integers(0, 60),
    changes=st.lists(st.tuples(st.integers(0, 43), st.integers(0, 255)), max_size=5),
)
def test_damaged_wav_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, cut: int, changes: list[tuple[int, int]]
) -> None:
    path = write_wav(tmp_path_factory.getbasetemp() / "damaged.wav", bytes(range(64)))
    data = bytearray(path.read_bytes())
    for at, value in changes:
        data[at] = value
    path.write_bytes(data[: len(data) - cut])
    try:
        wav_source(path, 2)
    except SourceError as error:
        assert str(path) in str(error)  # noqa: PT017 - both outcomes are right


# CSV.


@pytest.mark.parametrize("text", ["x,y\n1,2\n3,4", "1,2\n3,4\n", "1, 2\r\n3, 4\r\n", '"1","2"\n\n3,4\n\n'])
async def test_header_blanks_and_quotes_do_not_matter(tmp_path: Path, text: str) -> None:
    assert (await csv_source(write_csv(tmp_path / "a.csv", text), 2).frame()).data == bytes([1, 2, 3, 4])


async def test_real_values_are_quantized(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", "0.5\n-1e3\n1e400\n"[:9])
    source = csv_source(path, 2, quantization=SampleQuantization(0.25, 1))
    assert (await source.frame()).data == struct.pack("2b", 3, -128)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no samples in it"),
        ("x,y\n", "no samples in it"),
        ("1,2\n3\n", "line 2: not 2 finite numbers: 3"),
        ("1\n2,3\n", "line 2: not 1 finite numbers: 2,3"),
        ("x\n1\ny\n", "line 3: not 1 finite numbers: y"),
        ("1\nnan\n", "line 2: not 1 finite numbers: nan"),
        ("1\n1e400\n", "line 2: not 1 finite numbers: 1e400"),
        ("x\n\n1\n128\n", "line 4: 128.0 is not an int8; give a scale"),
        ("-129\n", "line 1: -129.0 is not an int8; give a scale"),
        ("1\n1.5\n", "line 2: 1.5 is not an int8; give a scale"),
        ("1\n" + "2" * 200_000, "not a CSV file that can be read"),
    ],
)
def test_bad_csv_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SourceError, match=f"a.csv(, |: ){message}"):
        csv_source(write_csv(tmp_path / "a.csv", text), 1)


@pytest.mark.parametrize("content", [b"\xff\xfe1\n", b"1\n\x002\n"])
def test_csv_that_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(SourceError, match=r"a\.csv"):
        csv_source(tmp_path / "a.csv", 1)


@pytest.mark.parametrize("opener", [wav_source, csv_source])
def test_missing_and_huge_files_are_refused(tmp_path: Path, opener: type) -> None:
    with pytest.raises(SourceError, match="missing: No such file"):
        opener(tmp_path / "missing", 1)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(SourceError, match=r"huge: larger than \d+ bytes"):
        opener(tmp_path / "huge", 1)
