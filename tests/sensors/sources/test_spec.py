"""Sources by their text."""

import subprocess
import sys
import wave
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from aisrv.sensors.image.frame import Encoding, RawFrame, SourceError
from aisrv.sensors.sources import opening
from aisrv.sensors.sources.opening import open_source
from aisrv.sensors.sources.pacing import PacedSource
from aisrv.sensors.sources.spec import SCHEMES, SourceSpec, SourceSpecError
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("text", "scheme", "place", "options"),
    [
        ("pattern:bars", "pattern", "bars", {}),
        ("image:cat.png", "image", "cat.png", {}),
        ("image:a:b.png:size=3x4", "image", "a:b.png", {"size": "3x4"}),
        ("folder:frames/:loop:rate=30", "folder", "frames/", {"loop": "", "rate": "30"}),
        ("folder:loop", "folder", "loop", {}),
        ("folder:loop:loop", "folder", "loop", {"loop": ""}),
        ("folder:a=b", "folder", "a=b", {}),
        ("video:clip.mp4:encoding=yuv", "video", "clip.mp4", {"encoding": "yuv"}),
        ("webcam:0", "webcam", "0", {}),
        ("raw:x/f.bin:640x480:bayer:loop", "raw", "x/f.bin:640x480:bayer", {"loop": ""}),
        ("wav:a.wav:window=16:scale=1/128", "wav", "a.wav", {"window": "16", "scale": "1/128"}),
        ("csv:a.csv:window=16:type=int16", "csv", "a.csv", {"window": "16", "type": "int16"}),
    ],
)
def test_text_is_taken_apart_and_put_together(
    text: str, scheme: str, place: str, options: dict[str, str]
) -> None:
    spec = SourceSpec.from_text(text)
    assert (spec.scheme, spec.place, spec.options) == (scheme, place, options)
    assert str(spec) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a source: it begins with one of pattern, image, folder"),
        ("bars", "'bars' is not a source"),
        ("film:bars", "no source is called 'film': there are pattern, image"),
        ("image:", "image: what follows the colon is missing"),
        (
            "pattern:stripes",
            "no pattern is called 'stripes': there are bars, gradient, checker, moving, noise",
        ),
        ("image:a.png:color=red", "image has no option 'color': it has size, encoding, rate, late"),
        ("image:a.png:loop", "image has no option 'loop'"),
        ("pattern:bars:seed=-1", "seed='-1' is wrong: expected a number of 0 or more"),
        ("pattern:noise:seed=1:seed=2", "option 'seed' is given twice"),
        ("pattern:bars:size=8", "size='8' is wrong: expected WIDTHxHEIGHT"),
        ("pattern:bars:size=8x0", "size='8x0' is wrong"),
        ("pattern:bars:size=8x8x8", "size='8x8x8' is wrong"),
        ("pattern:bars:size=8x99999999999", "size='8x99999999999' is wrong"),
        ("pattern:bars:encoding=samples", "encoding='samples' is wrong: expected bayer, yuv or rgb"),
        ("pattern:bars:rate=0", "rate='0' is wrong"),
        ("pattern:bars:rate=-1", "rate='-1' is wrong"),
        ("pattern:bars:rate=1/0", "rate='1/0' is wrong"),
        ("pattern:bars:rate=nan", "rate='nan' is wrong"),
        ("pattern:bars:rate=1e999999999", "rate='1e999999999' is wrong"),
        ("pattern:bars:rate=" + "9" * 33, "is wrong: expected frames a second"),
        ("pattern:bars:late=drop", "pattern: the option late is without a rate"),
        ("pattern:bars:rate=1:late=never", "late='never' is wrong: expected drop or keep"),
        ("folder:a:loop=yes", "loop='yes' is wrong: expected nothing after it"),
        ("webcam:front", "webcam: 'front' is not a number"),
        ("webcam:-1", "webcam: '-1' is not a number"),
        ("webcam:²", "webcam: '²' is not a number"),
        ("raw:f.bin", "raw: 'f.bin' is not FILE:WIDTHxHEIGHT:ENCODING, with one of bayer, yuv, rgb, samples"),
        ("raw:f.bin:8x8", "raw: 'f.bin:8x8' is not FILE"),
        ("raw:f.bin:8x8:jpeg", "raw: 'f.bin:8x8:jpeg' is not FILE"),
        ("raw::8x8:rgb", "raw: ':8x8:rgb' is not FILE"),
        ("wav:a.wav", "wav: the option window is missing"),
        ("csv:a.csv:window=0", "window='0' is wrong: expected samples, 1 or more"),
        ("csv:a.csv:window=1:zero=3", "csv: the option zero is without a scale"),
        ("csv:a.csv:window=1:scale=0", "scale='0' is wrong"),
        ("csv:a.csv:window=1:type=float", "type='float' is wrong: expected int8 or int16"),
    ],
)
def test_wrong_text_is_refused_and_named(text: str, message: str) -> None:
    with pytest.raises(SourceSpecError) as raised:
        SourceSpec.from_text(text)
    assert message in str(raised.value)


@given(st.one_of(st.text(), st.builds("{}:{}".format, st.sampled_from(sorted(SCHEMES)), st.text())))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        spec = SourceSpec.from_text(text)
    except SourceSpecError:
        return
    assert SourceSpec.from_text(str(spec)) == spec


def test_checking_texts_and_regions_loads_neither_numpy_nor_trio() -> None:
    code = (
        "import sys, aisrv.sensors.image.image_path; from aisrv.sensors.sources.spec import SourceSpec;"
        " SourceSpec.from_text('webcam:0'); sys.exit('numpy' in sys.modules or 'trio' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# What the texts open.


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_guide_names_each_source(scheme: str) -> None:
    assert f"| `{scheme}:" in (ROOT / "docs/guides/sensors.md").read_text(encoding="utf-8")


def test_every_source_can_be_opened() -> None:
    assert opening._OPENERS.keys() == SCHEMES.keys()


async def test_pattern_is_opened_with_its_options() -> None:
    source = open_source("pattern:noise:seed=3:size=8x6:encoding=yuv")
    frame = await source.frame()
    assert (frame.width, frame.height, frame.encoding) == (8, 6, Encoding.YUV422)
    assert frame == await open_source("pattern:noise:seed=3:size=8x6:encoding=yuv").frame()
    assert frame != await open_source("pattern:noise:seed=4:size=8x6:encoding=yuv").frame()


def test_pattern_is_a_bayer_sensor_of_vga_without_options() -> None:
    source = open_source("pattern:bars")
    assert (source.width, source.height, source.encoding) == (640, 480, Encoding.BAYER_RGGB)


def test_rate_makes_a_paced_source() -> None:
    source = open_source("pattern:bars:rate=30000/1001:late=keep")
    assert isinstance(source, PacedSource)
    assert source.due(30000) == 1001 * 100_000_000
    assert SourceSpec.from_text("pattern:bars:rate=12.5").value("rate") == Fraction(25, 2)


def test_rate_beyond_all_clocks_is_refused() -> None:
    with pytest.raises(SourceError, match="a rate of 1000001 frames a second"):
        open_source("pattern:bars:rate=1000001")


async def test_paths_are_below_the_base(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    Image.fromarray(np.full((2, 2, 3), 7, np.uint8)).save(tmp_path / "folder" / "a.png")
    (tmp_path / "f.bin").write_bytes(b"raw!")
    for text in ("image:folder/a.png:encoding=rgb", "folder:folder:encoding=rgb"):
        assert await open_source(text, tmp_path).frame() == RawFrame(2, 2, Encoding.RGB, bytes([7] * 12))
    raw = open_source("raw:f.bin:2x2:bayer:loop", tmp_path)
    assert [(await raw.frame()).data for _ in range(2)] == [b"raw!"] * 2


async def test_samples_are_opened_with_their_options(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0.5\n-0.5\n1\n")
    source = open_source("csv:a.csv:window=2:hop=1:scale=1/4:zero=-1:type=int16:loop", tmp_path)
    assert [(await source.frame()).data.hex() for _ in range(3)] == ["0100fdff", "fdff0300", "0100fdff"]
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(b"\0\1\0\2")
    assert (await open_source("wav:a.wav:window=2", tmp_path).frame()).data == b"\1\2"


@pytest.mark.parametrize(
    "text", ["image:no.png", "folder:no", "raw:no:2x2:rgb", "wav:no:window=1", "csv:no:window=1"]
)
def test_missing_files_are_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceError, match=f"{tmp_path}/no"):
        open_source(text, tmp_path)
