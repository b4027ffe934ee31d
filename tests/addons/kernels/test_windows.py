"""Windows along one dimension: their number, extent and padding."""

import pytest

from aisrv.addons.kernels.errors import InvalidShape
from aisrv.addons.kernels.windows import Window, window
from aisrv.model import Padding


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((5, 2, 1, 1, Padding.SAME), (5, 2, 0, 1)),  # the odd pixel comes after
        ((5, 3, 1, 1, Padding.SAME), (5, 3, 1, 1)),
        ((5, 3, 2, 1, Padding.SAME), (3, 3, 1, 1)),
        ((6, 3, 2, 1, Padding.SAME), (3, 3, 0, 1)),
        ((5, 4, 2, 3, Padding.SAME), (3, 10, 4, 5)),
        ((5, 1, 3, 1, Padding.SAME), (2, 1, 0, 0)),
        ((1, 4, 1, 1, Padding.SAME), (1, 4, 1, 2)),
        ((7, 3, 2, 1, Padding.VALID), (3, 3, 0, 0)),
        ((8, 3, 2, 1, Padding.VALID), (3, 3, 0, 0)),
        ((7, 3, 1, 3, Padding.VALID), (1, 7, 0, 0)),
    ],
)
def test_window(arguments: tuple[int, int, int, int, Padding], expected: tuple[int, int, int, int]) -> None:
    assert window(*arguments) == Window(*expected)


@pytest.mark.parametrize(("inputs", "stride"), [(6, 1), (6, 9), (1, 3)])
def test_window_that_does_not_fit(inputs: int, stride: int) -> None:
    with pytest.raises(InvalidShape, match=f"a window of 7 does not fit into {inputs} without padding"):
        window(inputs, 3, stride, 3, Padding.VALID)
