"""Binary messages of pictures: header, size, and pixels worked out by hand."""

import pytest

from aisrv.addons.web.pictures import LARGEST_TENSOR, is_picture, tensor_picture
from aisrv.model import Tensor, TensorType


def tensor(shape: tuple[int, ...], kind: TensorType = TensorType.INT8) -> Tensor:
    return Tensor("input", shape, kind)


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
