"""Binary messages of pictures: header, size, and pixels worked out by hand."""

import pytest

from aisrv.model import Tensor, TensorType
from aisrv.sensors.image.frame import Encoding, RawFrame
from aisrv.web.pictures import LARGEST_TENSOR, frame_picture, is_picture, tensor_picture


def tensor(shape: tuple[int, ...], kind: TensorType = TensorType.INT8) -> Tensor:
    return Tensor("input", shape, kind)


@pytest.mark.parametrize(
    ("encoding", "data", "pixels"),
    [
        (Encoding.RGB, bytes(range(12)), bytes(range(12))),
        (
            Encoding.YUV422,
            bytes((10, 1, 20, 2, 30, 3, 40, 4)),
            bytes((10,) * 3 + (20,) * 3 + (30,) * 3 + (40,) * 3),
        ),
        (Encoding.BAYER_RGGB, bytes((200, 100, 101, 50)), bytes((200, 100, 50))),
    ],
)
def test_frames(encoding: Encoding, data: bytes, pixels: bytes) -> None:
    side = 1 if encoding is Encoding.BAYER_RGGB else 2
    header = bytes((1, 0, side, 0, side, 0, 0, 0))
    assert frame_picture(RawFrame(2, 2, encoding, data)) == header + pixels


def test_samples_are_no_picture() -> None:
    assert frame_picture(RawFrame(4, 1, Encoding.SAMPLES, bytes(4))) == b""


def test_a_large_frame_is_thinned_out() -> None:
    picture = frame_picture(RawFrame(640, 480, Encoding.RGB, bytes(640 * 480 * 3)))
    assert picture[:8] == bytes((1, 0, 160, 0, 120, 0, 0, 0))
    assert len(picture) == 8 + 160 * 120 * 3


def test_an_int8_tensor_is_gray_from_0_to_255() -> None:
    picture = tensor_picture(3, tensor((1, 1, 2, 1)), bytes((0x80, 0x7F)))
    assert picture == bytes((2, 3, 2, 0, 1, 0, 0, 0)) + bytes((0, 0, 0, 255, 255, 255))


@pytest.mark.parametrize(
    ("shape", "kind", "drawn"),
    [
        ((1, 8, 8, 1), TensorType.INT8, True),
        ((1, 8, 8, 3), TensorType.UINT8, True),
        ((1, 8, 8, 2), TensorType.INT8, False),
        ((2, 8, 8, 1), TensorType.INT8, False),
        ((1, 64), TensorType.INT8, False),
        ((1, 8, 8, 1), TensorType.FLOAT32, False),
        ((1, LARGEST_TENSOR, 1, 1), TensorType.INT8, True),
        ((1, LARGEST_TENSOR + 1, 1, 1), TensorType.INT8, False),
    ],
)
def test_which_inputs_are_drawn(shape: tuple[int, ...], kind: TensorType, drawn: bool) -> None:
    assert is_picture(tensor(shape, kind)) is drawn
