"""The digits network as shipped: its answers and its files."""

import struct
import sys

import numpy as np
import pytest
import tflite

from aisrv import digits
from tests.support.models.networks import cut_in_two, read, run
from tests.support.programs import run_process


def answers(model: bytes) -> list[list[bytes]]:
    return [run(model, digit.image) for digit in digits.test_images()]


@pytest.fixture(scope="module")
def scores() -> list[bytes]:
    return [output for (output,) in answers(digits.model_bytes())]


def test_at_least_985_of_1000_test_images_are_right(scores: list[bytes]) -> None:
    classes = [np.frombuffer(each, np.int8).argmax() for each in scores]
    labels = [digit.label for digit in digits.test_images()]
    right = sum(int(found == label) for found, label in zip(classes, labels, strict=True))
    assert right / len(labels) >= 0.985


def test_the_network_in_floats_has_the_trained_probabilities() -> None:
    images = np.array([list(digits.pixels_of(digit.image)) for digit in digits.test_images()])
    outputs = [
        run(digits.float_model_bytes(), (each / digits.INK).astype("<f4").tobytes()) for each in images
    ]
    scores = np.array([np.frombuffer(output, "<f4") for (output,) in outputs])
    labels = np.array([digit.label for digit in digits.test_images()])
    assert np.allclose(scores.sum(axis=1), 1, atol=1e-5)
    assert (scores.argmax(axis=1) == labels).sum() == 395  # as `train` prints: 99.50 %


def test_scores_are_int8_probabilities(scores: list[bytes]) -> None:
    sums = [(np.frombuffer(each, np.int8).astype(int) + 128).sum() for each in scores]
    assert {len(each) for each in scores} == {digits.CLASSES}
    assert min(sums) >= 256 - 5
    assert max(sums) <= 256 + 5


def test_two_outputs_are_the_scores_and_the_features(scores: list[bytes]) -> None:
    first_part, _ = cut_in_two()
    features = [output for (output,) in answers(first_part)]
    both = answers(digits.two_output_model_bytes())
    assert [output[0] for output in both] == scores
    assert [output[1] for output in both] == features
    assert {len(each) for each in features} == {digits.FEATURES}


@pytest.mark.parametrize("at", ["pool1", "features", "logits"])
def test_the_parts_of_the_cut_network_make_the_whole(scores: list[bytes], at: str) -> None:
    first, second = cut_in_two(at=at)
    assert [run(second, *run(first, digit.image))[0] for digit in digits.test_images()] == scores


@pytest.mark.parametrize("model", [digits.model_bytes(), digits.two_output_model_bytes()])
def test_every_buffer_of_the_models_is_aligned_to_16(model: bytes) -> None:
    root = tflite.Model.GetRootAs(model, 0)
    buffers = [root.Buffers(i) for i in range(root.BuffersLength())]
    offsets = [each._tab.Vector(each._tab.Offset(4)) for each in buffers if each.DataLength()]
    assert len(offsets) == 6
    assert [offset % 16 for offset in offsets] == [0] * 6


def test_the_network_is_the_documented_one() -> None:
    model = read(digits.model_bytes())
    shapes = {tensor.name: tensor.shape for tensor in model.tensors}
    operator_names = {code: name for name, code in vars(tflite.BuiltinOperator).items()}
    assert [(operator_names[op.code], shapes[op.outputs[0]]) for op in model.operators] == [
        ("CONV_2D", (1, 8, 8, 16)),
        ("MAX_POOL_2D", (1, 4, 4, 16)),
        ("CONV_2D", (1, 4, 4, 32)),
        ("MAX_POOL_2D", (1, 2, 2, 32)),
        ("FULLY_CONNECTED", (1, 10)),
        ("SOFTMAX", (1, 10)),
    ]


def test_convolutions_are_quantized_per_channel_and_the_fully_connected_layer_per_tensor() -> None:
    tensors = {tensor.name: tensor for tensor in read(digits.model_bytes()).tensors}
    counts = {}
    for name in ("image", "conv1_weights", "conv2_weights", "dense_weights", "classes"):
        quantization = tensors[name].quantization
        assert quantization is not None
        counts[name] = len(quantization.scales)
    assert counts == {
        "image": 1,
        "conv1_weights": 16,
        "conv2_weights": 32,
        "dense_weights": 1,
        "classes": 1,
    }


# The images.


def test_there_are_397_test_images_of_every_digit() -> None:
    images = digits.test_images()
    assert len(images) == 397
    assert {digit.label for digit in images} == set(range(10))
    assert {len(digit.image) for digit in images} == {64}


def test_pixels_become_int8_as_the_models_input_says() -> None:
    (image,) = (tensor for tensor in read(digits.model_bytes()).tensors if tensor.name == "image")
    assert image.quantization is not None
    (scale,), (zero_point,) = image.quantization.scales, image.quantization.zero_points
    expected = [round(pixel / 16 / scale) + zero_point for pixel in range(17)]
    assert list(struct.unpack("17b", digits.quantize_pixels(bytes(range(17))))) == expected


def test_an_eight_bit_picture_of_an_image_quantizes_to_the_same_bytes() -> None:
    scale = np.float32(1 / 240)
    gray = [round(pixel * 255 / 16) for pixel in range(17)]
    quantized = [round(float(np.float32(value) / np.float32(255) / scale)) - 128 for value in gray]
    assert struct.pack("17b", *quantized) == digits.quantize_pixels(bytes(range(17)))


def test_pixels_come_back_from_the_input() -> None:
    pixels = bytes(range(17))
    assert digits.pixels_of(digits.quantize_pixels(pixels)) == pixels


@pytest.mark.parametrize("pixel", [17, 255])
def test_a_pixel_out_of_range(pixel: int) -> None:
    with pytest.raises(ValueError, match=f"^pixel {pixel} is out of range: the digits' pixels are 0 to 16$"):
        digits.quantize_pixels(bytes([0, pixel]))


def test_bytes_that_are_no_input_have_no_pixels() -> None:
    with pytest.raises(ValueError, match=r"^byte 0x81 is not a quantized pixel: those are 15p - 128"):
        digits.pixels_of(b"\x80\x81")


def test_importing_the_package_loads_no_array_library() -> None:
    heavy = "{'numpy', 'tflite', 'sklearn', 'click'}"
    program = f"import sys, aisrv.digits; print(*sorted({heavy} & sys.modules.keys()))"
    loaded = run_process([sys.executable, "-c", program], check=True)
    assert loaded.stdout == "\n"
