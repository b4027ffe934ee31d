"""Files to tensor bytes: quantization as the interpreter does it, arrays, images, raw bytes."""

import io
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image
from tflite import BuiltinOperator

from aisrv import digits
from aisrv.model.values import Quantization, Tensor, TensorType
from aisrv.model.writer import Network, NetworkOperator
from host_tools.errors import TensorError
from host_tools.tensors.files import read_model_file, read_tensor, write_file, write_tensor
from host_tools.tensors.images import pixels_to_elements
from host_tools.tensors.tensor_spec import TensorSpec
from tests.support.models.networks import run

TWO_BY_TWO = TensorSpec((1, 2, 2, 1), "int8", 1 / 255, -128)
ALL_PIXELS = np.arange(256, dtype=np.uint8)


def quantized_by_the_interpreter(
    real: npt.NDArray[np.float32], scale: float, zero_point: int, kind: TensorType
) -> bytes:
    shape = (1, real.size)
    tensors = (
        Tensor("real", shape, TensorType.FLOAT32),
        Tensor("integer", shape, kind, Quantization.per_tensor(scale, zero_point)),
    )
    operators = (NetworkOperator(BuiltinOperator.QUANTIZE, ("real",), ("integer",)),)
    return run(bytes(Network(tensors, operators, ("real",), ("integer",))), real.tobytes())[0]


# Quantization


@pytest.mark.parametrize(
    ("scale", "zero_point", "dtype", "kind"),
    [
        (1 / 255, -128, "int8", TensorType.INT8),
        (2 / 255, -1, "int8", TensorType.INT8),
        (1.0, 0, "int8", TensorType.INT8),
        (0.5, 3, "int8", TensorType.INT8),
        (0.0186584, -14, "int8", TensorType.INT8),
        (1 / 255, 0, "uint8", TensorType.UINT8),
        (1 / 4096, 0, "int16", TensorType.INT16),
    ],
)
def test_quantized_as_the_interpreter_does(
    scale: float, zero_point: int, dtype: str, kind: TensorType
) -> None:
    scale = float(np.float32(scale))
    steps = np.concatenate([np.arange(-300, 300) / 2, [1e6, -1e6, 0.49999997, -0.49999997]])
    real = (steps * scale).astype(np.float32)
    spec = TensorSpec((1, real.size), dtype, scale, zero_point)
    assert spec.quantize(real).tobytes() == quantized_by_the_interpreter(real, scale, zero_point, kind)


def test_halves_are_rounded_away_from_zero() -> None:
    spec = TensorSpec((4,), "int8", 1.0, 0)
    assert spec.quantize(np.array([0.5, -0.5, 1.5, 2.5])).tolist() == [1, -1, 2, 3]


@given(
    arrays.arrays(np.float32, (1, 8), elements=st.floats(-400, 400, width=32)),
    st.sampled_from([1 / 255, 2 / 255, 1.0, 3.0]),
    st.integers(-128, 127),
)
def test_values_undo_quantization_within_half_a_step(
    real: npt.NDArray[np.float32], scale: float, zero_point: int
) -> None:
    spec = TensorSpec((1, 8), "int8", scale, zero_point)
    lowest, highest = (-128 - zero_point) * scale, (127 - zero_point) * scale
    values = spec.values(spec.quantize(real).tobytes())
    assert np.abs(values - np.clip(real, lowest, highest)).max() <= scale * 0.50001


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_integer(value: float) -> None:
    with pytest.raises(TensorError, match="not finite"):
        TWO_BY_TWO.quantize(np.array([value]))


def test_real_numbers_need_a_quantization() -> None:
    with pytest.raises(TensorError, match=r"int8\[4\] without quantization"):
        TensorSpec((4,)).quantize(np.zeros(4))


# What is known of a tensor


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1x96x96x3", TensorSpec((1, 96, 96, 3), "int8")),
        ("8", TensorSpec((8,), "int8")),
        ("1x10:float32", TensorSpec((1, 10), "float32")),
    ],
)
def test_a_shape_as_text(text: str, expected: TensorSpec) -> None:
    assert TensorSpec.parse(text) == expected


@pytest.mark.parametrize("text", ["", "x", "1x", "1x-2", "1,2", "1x2:complex64", "1x2:int8:1", "¹x2"])
def test_a_shape_that_is_none(text: str) -> None:
    with pytest.raises(TensorError, match=r"is not a shape|is not one of the types"):
        TensorSpec.parse(text)


def test_the_digits_model_tells_its_input(tmp_path: Path) -> None:
    path = tmp_path / "digits.tflite"
    path.write_bytes(digits.model_bytes())
    spec = TensorSpec.of(read_model_file(path).input_tensors[0])
    assert (spec.shape, spec.dtype, spec.zero_point, spec.nbytes) == ((1, 8, 8, 1), "int8", -128, 64)
    assert spec.scale == pytest.approx(1 / 240)


@pytest.mark.parametrize("content", [b"", b"TFL3", b"\0\0\0\0TFL3", bytes(100)])
def test_a_model_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    with pytest.raises(TensorError, match=r"model\.tflite: "):
        read_model_file(path)


def test_a_model_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TensorError, match="No such file"):
        read_model_file(tmp_path / "none")


# Raw bytes


def test_raw_bytes_go_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "input.bin"
    path.write_bytes(b"\x01\x02\xfe\xff")
    assert read_tensor(path, TWO_BY_TWO) == b"\x01\x02\xfe\xff"
    assert read_tensor(path, length=4) == b"\x01\x02\xfe\xff"


@pytest.mark.parametrize("size", [0, 3, 5, 512])
def test_raw_bytes_of_the_wrong_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "input.bin"
    path.write_bytes(bytes(size))
    with pytest.raises(TensorError, match=rf"{size} bytes, the tensor has 4 \(int8\[1, 2, 2, 1\]\)"):
        read_tensor(path, TWO_BY_TWO)
    with pytest.raises(TensorError, match=f"{size} bytes, the tensor has 4$"):
        read_tensor(path, length=4)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TensorError, match=r"none\.bin: No such file"):
        read_tensor(tmp_path / "none.bin", TWO_BY_TWO)


# Arrays


def saved(tmp_path: Path, array: npt.NDArray[np.generic]) -> Path:
    path = tmp_path / "array.npy"
    np.save(path, array)
    return path


def test_an_array_of_the_tensors_type_goes_as_it_is(tmp_path: Path) -> None:
    array = np.array([[-128, -1], [0, 127]], np.int8)
    assert read_tensor(saved(tmp_path, array), TWO_BY_TWO) == b"\x80\xff\x00\x7f"


def test_an_array_in_another_order_in_memory(tmp_path: Path) -> None:
    array = np.asfortranarray(np.array([[[1, 2, 3], [4, 5, 6]]], np.int8))
    assert read_tensor(saved(tmp_path, array), TensorSpec((1, 2, 3))) == bytes([1, 2, 3, 4, 5, 6])


def test_big_endian_elements_become_little_endian(tmp_path: Path) -> None:
    path = saved(tmp_path, np.array([1, 0x0203], ">i2"))
    assert read_tensor(path, TensorSpec((2,), "int16")) == b"\x01\x00\x03\x02"
    assert read_tensor(path, length=4) == b"\x01\x00\x03\x02"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_array_of_real_numbers_is_quantized(tmp_path: Path, dtype: type) -> None:
    array: npt.NDArray[Any] = np.array([0, 1, 0.25, 2]).astype(dtype).reshape(1, 2, 2, 1)
    assert read_tensor(saved(tmp_path, array), TWO_BY_TWO) == bytes([0x80, 0x7F, 0xC0, 0x7F])


def test_an_array_for_a_real_tensor(tmp_path: Path) -> None:
    data = read_tensor(saved(tmp_path, np.array([1.5])), TensorSpec((1,), "float32"))
    assert data == b"\x00\x00\xc0\x3f"


@pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 2, 2), (2, 1), ()])
def test_an_array_of_another_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(TensorError, match=r"the tensor \[1, 2, 2, 1\]"):
        read_tensor(saved(tmp_path, np.zeros(shape, np.int8)), TWO_BY_TWO)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "bool", "int64"])
def test_an_array_of_other_integers(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(TensorError, match=f"the array is {dtype}, the tensor int8"):
        read_tensor(saved(tmp_path, np.zeros((2, 2), dtype)), TWO_BY_TWO)


@pytest.mark.parametrize("dtype", ["U3", "complex64", "datetime64[s]"])
def test_an_array_of_no_numbers(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(TensorError, match="not numbers"):
        read_tensor(saved(tmp_path, np.zeros((2, 2), dtype)), TWO_BY_TWO)


def test_real_numbers_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(TensorError, match="needs the model file"):
        read_tensor(saved(tmp_path, np.zeros(4)), length=4)


@pytest.mark.parametrize("cut", [0, 5, 6, 10, 60, -1])
def test_a_truncated_array(tmp_path: Path, cut: int) -> None:
    path = saved(tmp_path, np.zeros((2, 2), np.int8))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(TensorError, match=r"not a \.npy file of numbers"):
        read_tensor(path, TWO_BY_TWO)


def test_an_array_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(TensorError, match=r"not a \.npy file of numbers"):
        read_tensor(path, TWO_BY_TWO)


def test_an_array_whose_header_lies_about_its_size(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(  # type: ignore[no-untyped-call]
        content, {"descr": "|i1", "fortran_order": False, "shape": (1 << 60,)}
    )
    path = tmp_path / "array.npy"
    path.write_bytes(content.getvalue() + bytes(4))
    with pytest.raises(TensorError, match=r"not a \.npy file of numbers"):
        read_tensor(path, TWO_BY_TWO)


def test_an_array_takes_no_memory_for_elements_that_are_not_there(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(  # type: ignore[no-untyped-call]
        content, {"descr": "|i1", "fortran_order": False, "shape": (1 << 30,)}
    )
    path = tmp_path / "array.npy"
    path.write_bytes(content.getvalue() + bytes(4))
    tracemalloc.start()
    try:
        with pytest.raises(TensorError, match="4 bytes are fewer than"):
            read_tensor(path, TWO_BY_TWO)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_an_array_of_another_version_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, np.zeros(4, np.int8))
    content = bytearray(path.read_bytes())
    content[6] = 3
    path.write_bytes(content)
    with pytest.raises(TensorError, match=r"version 3\.0, which is not for numbers"):
        read_tensor(path, TWO_BY_TWO)


# Images


def picture(tmp_path: Path, pixels: object, mode: str | None = None, name: str = "image.png") -> Path:
    path = tmp_path / name
    image = Image.fromarray(np.array(pixels, np.uint8))
    (image.convert(mode) if mode else image).save(path)
    return path


def test_a_gray_image_of_the_tensors_size(tmp_path: Path) -> None:
    path = picture(tmp_path, [[0, 1], [128, 255]])
    assert read_tensor(path, TWO_BY_TWO) == bytes([0x80, 0x81, 0x00, 0x7F])


def test_invert_swaps_black_and_white(tmp_path: Path) -> None:
    path = picture(tmp_path, [[0, 1], [128, 255]])
    assert read_tensor(path, TWO_BY_TWO, invert=True) == bytes([0x7F, 0x7E, 0xFF, 0x80])


def test_a_color_image_keeps_its_channels(tmp_path: Path) -> None:
    path = picture(tmp_path, [[[255, 0, 128]]])
    assert read_tensor(path, TensorSpec((1, 1, 1, 3), "uint8")) == bytes([255, 0, 128])


def test_a_color_image_for_one_channel_becomes_gray(tmp_path: Path) -> None:
    path = picture(tmp_path, [[[255, 255, 255]]])
    assert read_tensor(path, TensorSpec((1, 1, 1), "uint8")) == bytes([255])


def test_a_gray_image_for_three_channels(tmp_path: Path) -> None:
    path = picture(tmp_path, [[7]])
    assert read_tensor(path, TensorSpec((1, 1, 1, 3), "uint8")) == bytes([7, 7, 7])


def test_an_image_is_resized_to_height_by_width(tmp_path: Path) -> None:
    path = picture(tmp_path, np.full((30, 50, 3), 9))
    assert read_tensor(path, TensorSpec((1, 4, 6, 3), "uint8")) == bytes([9]) * (4 * 6 * 3)
    halves = picture(tmp_path, np.repeat([[0] * 20 + [255] * 20], 10, axis=0))
    # A triangle of 10 pixels each way around pixel 15 has an eighth of its area beyond pixel 20.
    assert read_tensor(halves, TensorSpec((1, 2, 4, 1), "uint8")) == bytes([0, 32, 223, 255] * 2)


def test_an_image_is_turned_as_its_camera_held_it(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    image = Image.fromarray(np.array([[0, 255]], np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    image.save(path, exif=exif)
    assert read_tensor(path, TensorSpec((1, 1, 2, 1), "uint8")) == bytes([255, 0])


@pytest.mark.parametrize(
    "shape", [(4,), (1, 4), (2, 8, 8, 1), (1, 8, 8, 2), (1, 1, 8, 8, 1), (), (1, 0, 8, 1)]
)
def test_a_tensor_that_is_no_image(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(TensorError, match="is not an image of 1, 3 or 4 channels"):
        read_tensor(picture(tmp_path, [[0]]), TensorSpec(shape))


@pytest.mark.parametrize("shape", [(2, 2), (1, 2, 2), (2, 2, 1), (1, 2, 2, 1)])
def test_shapes_that_hold_a_gray_image(tmp_path: Path, shape: tuple[int, ...]) -> None:
    assert read_tensor(picture(tmp_path, [[1, 2], [3, 4]]), TensorSpec(shape, "uint8")) == bytes([1, 2, 3, 4])


def test_an_image_needs_a_shape(tmp_path: Path) -> None:
    with pytest.raises(TensorError, match="needs the model file or a shape"):
        read_tensor(picture(tmp_path, [[0]]), length=1)


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n", b"not an image", b"GIF89a"])
def test_a_file_that_is_no_image(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(content)
    with pytest.raises(TensorError, match="not a picture that can be read"):
        read_tensor(path, TWO_BY_TWO)


@pytest.mark.parametrize("side", [8193, 10_000, 60_000])
def test_an_image_of_too_many_pixels_is_refused_unread(side: int, tmp_path: Path) -> None:
    path = tmp_path / "image.ppm"
    path.write_bytes(b"P6 %d %d 255\n" % (side, side))
    with pytest.raises(TensorError, match=r"at most 24000000 are read|exceeds limit of \d+ pixels"):
        read_tensor(path, TWO_BY_TWO)


def test_a_truncated_image(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    path = picture(tmp_path, rng.integers(0, 256, (64, 64, 3)))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(TensorError, match="not a picture that can be read"):
        read_tensor(path, TWO_BY_TWO)


def test_an_image_of_16_bits(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    Image.fromarray(np.full((2, 2), 40_000, np.uint16)).save(path)
    with pytest.raises(TensorError, match="save it with 8 bits a channel"):
        read_tensor(path, TWO_BY_TWO)


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = picture(tmp_path, [[0]])
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(TensorError, match=r"needs Pillow \(.*PIL.*\): pip install .*\[images\]"):
        read_tensor(path, TWO_BY_TWO)


# What pixels stand for


@pytest.mark.parametrize(
    ("scale", "zero_point"), [(1 / 255, -128), (1.0, -128), (None, 0), (0.0186584, -14), (0.05, 0)]
)
def test_auto_is_pixel_minus_128_for_int8(scale: float | None, zero_point: int) -> None:
    spec = TensorSpec((256,), "int8", scale, zero_point)
    assert pixels_to_elements(ALL_PIXELS, spec).tolist() == list(range(-128, 128))


@pytest.mark.parametrize("scale_and_zero", [(2 / 255, -1), (2 / 255, 0), (1 / 128, 0), (1 / 127, 0)])
def test_auto_for_minus_one_to_one_is_at_most_a_step_from_it(scale_and_zero: tuple[float, int]) -> None:
    spec = TensorSpec((256,), "int8", *scale_and_zero)
    elements = pixels_to_elements(ALL_PIXELS, spec).astype(int)
    assert np.abs(elements - np.arange(-128, 128)).max() <= 1


def test_auto_is_the_pixel_for_uint8() -> None:
    assert pixels_to_elements(ALL_PIXELS, TensorSpec((256,), "uint8", 1 / 255, 0)).tolist() == list(
        range(256)
    )


def test_auto_goes_by_the_quantization_where_it_says_otherwise() -> None:
    spec = TensorSpec((3,), "int8", 1 / 240, -128)  # as the digits network: 0..1 takes 240 steps
    assert pixels_to_elements(np.array([0, 128, 255], np.uint8), spec).tolist() == [-128, -8, 112]


def test_auto_for_real_tensors_is_zero_to_one() -> None:
    elements = pixels_to_elements(np.array([0, 51, 255], np.uint8), TensorSpec((3,), "float32"))
    assert elements.tolist() == [0.0, pytest.approx(0.2), 1.0]


@pytest.mark.parametrize(
    ("value_range", "expected"),
    [("0..1", [0.0, 0.2, 1.0]), ("-1..1", [-1.0, -0.6, 1.0]), ("0..255", [0.0, 51.0, 255.0])],
)
def test_a_range_that_is_given(value_range: str, expected: list[float]) -> None:
    elements = pixels_to_elements(np.array([0, 51, 255], np.uint8), TensorSpec((3,), "float32"), value_range)
    assert elements.tolist() == pytest.approx(expected)


def test_a_range_clips_to_the_type() -> None:
    spec = TensorSpec((3,), "int8", 1 / 255, -128)
    assert pixels_to_elements(np.array([0, 128, 255], np.uint8), spec, "-1..1").tolist() == [-128, -127, 127]


def test_full_ignores_the_quantization() -> None:
    spec = TensorSpec((256,), "int8", 1 / 240, -128)
    assert pixels_to_elements(ALL_PIXELS, spec, "full").tolist() == list(range(-128, 128))


@pytest.mark.parametrize("dtype", ["int16", "float32", "int32"])
def test_only_bytes_have_a_full_range(dtype: str) -> None:
    with pytest.raises(TensorError, match="only int8 and uint8"):
        pixels_to_elements(ALL_PIXELS, TensorSpec((256,), dtype), "full")


# Files written


def test_raw_output(tmp_path: Path) -> None:
    write_tensor(tmp_path / "out.bin", b"\x01\xff")
    assert (tmp_path / "out.bin").read_bytes() == b"\x01\xff"


def test_npy_output_has_shape_and_type(tmp_path: Path) -> None:
    write_tensor(tmp_path / "out.npy", b"\x01\xff", TensorSpec((1, 2)))
    array = np.load(tmp_path / "out.npy")
    assert (array.dtype, array.tolist()) == (np.int8, [[1, -1]])


def test_npy_output_of_an_unknown_tensor_is_flat_bytes(tmp_path: Path) -> None:
    write_tensor(tmp_path / "out.npy", b"\x01\xff")
    array = np.load(tmp_path / "out.npy")
    assert (array.dtype, array.tolist()) == (np.uint8, [1, 255])


def test_npy_output_of_the_wrong_size(tmp_path: Path) -> None:
    with pytest.raises(TensorError, match="2 bytes, not 3"):
        write_tensor(tmp_path / "out.npy", b"\x01\xff\x00", TensorSpec((1, 2)))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TensorError, match="No such file or directory"):
        write_file(tmp_path / "none" / "out.bin", b"")
