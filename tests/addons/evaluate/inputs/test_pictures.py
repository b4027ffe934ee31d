"""Pictures: without settings as the host library makes them, and what each key of the settings changes."""

import io
from collections.abc import Iterator

import cv2
import numpy as np
import pytest
from PIL import Image

from aisrv.addons.evaluate.errors import InputError
from aisrv.addons.evaluate.inputs.pictures import bilinear, decoded, nearest
from aisrv.addons.evaluate.inputs.preparation import Preparation
from aisrv.addons.evaluate.inputs.settings import InputSettings
from host_tools.tensors.images import image_tensor
from host_tools.tensors.tensor_spec import TensorSpec

SPEC = TensorSpec((1, 12, 16, 3), "int8", 1 / 255, -128)


def picture(mode: str = "RGB", form: str = "PNG", size: tuple[int, int] = (41, 30)) -> bytes:
    channels = {"L": 1, "RGB": 3, "RGBA": 4}[mode]
    pixels = np.random.default_rng(3).integers(0, 256, (size[1], size[0], channels), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    content = io.BytesIO()
    Image.fromarray(pixels.squeeze(), mode).save(content, form, exif=exif)
    return content.getvalue()


def row(data: bytes, settings: InputSettings, spec: TensorSpec = SPEC) -> bytes:
    return Preparation((spec,), (settings,)).file_row(data)


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        TensorSpec((1, 12, 16, 1), "uint8", 2 / 255, 128),
        TensorSpec((1, 12, 16, 3), "float32"),
        TensorSpec((12, 16), "int8", 0.5, 3),
        TensorSpec((1, 9, 9, 4), "int8"),
    ],
)
def test_without_settings_rows_are_the_host_librarys_tensors(mode: str, spec: TensorSpec) -> None:
    data = picture(mode)
    expected = image_tensor(Image.open(io.BytesIO(data)), spec)
    assert row(data, InputSettings(kind="image"), spec) == expected


CHANGES = {
    "color": ("bgr", "gray"),
    "background": ((255.0,), (1.0, 200.0, 3.0)),
    "exif": (False,),
    "invert": (True,),
    "crop": ("center", "center:0.5", (0.0, 0.0, 0.5, 0.5)),
    "fit": ("cover", "contain"),
    "filter": ("nearest", "box", "bicubic", "lanczos"),
    "antialias": (False,),
    "range": ("-1..1", "0..255"),
    "draft": (True,),
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in CHANGES.items() for value in values]
)
def test_each_key_changes_the_tensor(key: str, value: object) -> None:
    data = {
        "background": picture("RGBA"),
        "draft": picture(form="JPEG", size=(400, 300)),
    }.get(key, picture())
    plain = row(data, InputSettings(kind="image"))
    changed = row(data, InputSettings(kind="image", **{key: value}))  # type: ignore[arg-type]
    assert len(changed) == len(plain)
    assert changed != plain


def test_pad_mean_and_layout_change_the_tensor() -> None:
    data = picture()
    whole = InputSettings(kind="image", fit="contain")
    assert row(data, whole) != row(data, InputSettings(kind="image", fit="contain", pad=200.0))
    plain = np.frombuffer(row(data, InputSettings(kind="image", range="0..1")), np.int8).reshape(12, 16, 3)
    shifted = row(data, InputSettings(kind="image", mean=(0.0, 0.0, 255.0), std=(255.0, 510.0, 255.0)))
    channels = np.frombuffer(shifted, np.int8).reshape(12, 16, 3)
    assert np.array_equal(channels[..., 0], plain[..., 0])
    whole = plain[..., 1] % 2 == 0  # others are half of a step, which single precision rounds either way
    assert np.array_equal(channels[..., 1][whole], plain[..., 1][whole] // 2 - 64)
    assert (channels[..., 2] == -128).all()
    first = TensorSpec((1, 3, 12, 16), "int8", 1 / 255, -128)
    turned = np.frombuffer(row(data, InputSettings(kind="image", layout="nchw"), first), np.int8)
    assert np.array_equal(turned.reshape(3, 12, 16).transpose(1, 2, 0), plain)


def test_gray_for_three_channels_repeats_one() -> None:
    found = np.frombuffer(row(picture(), InputSettings(kind="image", color="gray")), np.int8).reshape(-1, 3)
    assert (found == found[:, :1]).all()


def test_a_border_around_a_whole_picture() -> None:
    content = io.BytesIO()
    Image.new("L", (40, 20), 255).save(content, "PNG")
    settings = InputSettings(kind="image", fit="contain", pad=7.0)
    pixels = decoded(content.getvalue(), settings, (8, 8, 1))[..., 0]
    assert pixels.tolist() == [[7] * 8] * 2 + [[255] * 8] * 4 + [[7] * 8] * 2


@pytest.fixture(params=[True, False], ids=["with IPP", "without IPP"])
def opencv(request: pytest.FixtureRequest) -> Iterator[None]:
    """OpenCV with Intel's library and without: it has two ways to resize floats."""
    before = cv2.ipp.useIPP()
    cv2.ipp.setUseIPP(request.param)
    yield
    cv2.ipp.setUseIPP(before)


@pytest.mark.usefixtures("opencv")
def test_bilinear_without_antialias_is_opencvs_on_floats() -> None:
    random = np.random.default_rng(0)
    sizes = [*random.integers(1, 70, (200, 4)).tolist(), (480, 640, 96, 96), (96, 96, 223, 331)]
    for height, width, high, wide in sizes:
        pixels = random.random((height, width, 3), np.float32)
        expected = cv2.resize(pixels, (wide, high), interpolation=cv2.INTER_LINEAR)
        found = bilinear(pixels, high, wide)
        assert np.abs(found - expected.reshape(high, wide, 3)).max() < 1e-4


def test_nearest_without_antialias_takes_the_pixel_at_each_center() -> None:
    pixels = np.arange(6, dtype=np.uint8).reshape(1, 6, 1)
    assert nearest(pixels, 1, 3).ravel().tolist() == [1, 3, 5]
    assert nearest(pixels, 2, 12)[1].ravel().tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


@pytest.mark.parametrize("data", [b"", b"text", picture()[:200], picture("L")[:60]])
def test_what_is_no_picture(data: bytes) -> None:
    with pytest.raises(InputError, match="not a picture that can be read"):
        row(data, InputSettings(kind="image"))


def test_pictures_in_arrays_are_as_those_in_files() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (3, 30, 41), np.uint8)
    spec = TensorSpec((1, 8, 8, 1), "int8", 1 / 255, -128)
    preparation = Preparation((spec,), (InputSettings(kind="image"),))
    rows = preparation.array_rows((pixels,))
    for image, found in zip(pixels, rows, strict=True):
        assert found.tobytes() == image_tensor(Image.fromarray(image), spec)


def test_a_mean_counts_for_real_numbers_of_a_tensor_without_a_scale() -> None:
    spec, settings = TensorSpec((1, 2), "float32"), InputSettings(kind="array", mean=(-128.0,), std=(240.0,))
    rows = Preparation([spec], [settings]).array_rows([np.array([[-128, 112]], np.int8)])
    assert rows.view("<f4").tolist() == [[0.0, 1.0]]


def test_real_numbers_are_quantized_and_raw_bytes_stay() -> None:
    spec = TensorSpec((1, 4), "int8", 0.5, 10)
    real = np.array([[0.0, 1.0, -2.0, 100.0]])
    rows = Preparation((spec,), (InputSettings(kind="array"),)).array_rows((real,))
    assert rows.view(np.int8).tolist() == [[10, 12, 6, 127]]
    raw = np.array([[1, -2, 3, -4]], np.int8)
    assert np.array_equal(
        Preparation((spec,), (InputSettings(kind="raw"),)).array_rows((raw,)).view(np.int8), raw
    )
    with pytest.raises(InputError, match=r"examples have the shape \[3\], the tensor is int8\[1, 4\]"):
        Preparation((spec,), (InputSettings(kind="array"),)).array_rows((real[:, :3],))
