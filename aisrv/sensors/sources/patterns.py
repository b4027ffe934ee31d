"""Test patterns: pictures that need no file and are the same everywhere."""

import enum
from typing import TYPE_CHECKING, Final

from aisrv.sensors.image.frame import Encoding
from aisrv.sensors.registers import COLOR_BARS
from aisrv.sensors.sources.numbered import NumberedSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisrv.sensors.image.resample import Bytes

    Painter = Callable[[int, int, int, int], Bytes]

WIDTH: Final = 640
HEIGHT: Final = 480
SQUARES: Final = 8
"""Squares of the checker on the shorter side; the moving square is a quarter of that side."""
STEP: Final = 4
"""Pixels by which the moving square goes right in a frame."""


class Pattern(enum.Enum):
    """Name of a pattern."""

    BARS = "bars"
    """Eight upright bars of equal width."""
    GRADIENT = "gradient"
    """Red rises from left to right, green from top to bottom; blue is 128."""
    CHECKER = "checker"
    """White and black squares, white first."""
    MOVING = "moving"
    """A white square on black that goes right and comes back in on the left."""
    NOISE = "noise"
    """Random bytes, set by the seed and the number of the frame."""


class PatternSource(NumberedSource):
    """A pattern, repeated without end."""

    def __init__(
        self,
        pattern: Pattern,
        width: int = WIDTH,
        height: int = HEIGHT,
        encoding: Encoding = Encoding.BAYER_RGGB,
        seed: int = 0,
    ) -> None:
        super().__init__(f"pattern {pattern.value}", width, height, encoding, None)
        self._pattern = pattern
        self._seed = seed
        self._still: bytes | None = None

    def _data(self, number: int) -> bytes:
        if self._still is not None:
            return self._still
        from aisrv.sensors.sources.pictures import encode

        picture = _PAINTERS[self._pattern](self._width, self._height, number, self._seed)
        data = encode(picture, self._encoding)
        if self._pattern not in _CHANGING:
            self._still = data
        return data


def _bars(width: int, height: int, number: int, seed: int) -> "Bytes":  # noqa: ARG001 - one row of a table
    import numpy as np

    colors = np.array(COLOR_BARS, np.uint8)
    return np.broadcast_to(colors[np.arange(width) * len(COLOR_BARS) // width], (height, width, 3))


def _gradient(width: int, height: int, number: int, seed: int) -> "Bytes":  # noqa: ARG001 - one row of a table
    import numpy as np

    picture = np.full((height, width, 3), 128, np.uint8)
    picture[:, :, 0] = np.arange(width) * 255 // max(width - 1, 1)
    picture[:, :, 1] = (np.arange(height) * 255 // max(height - 1, 1))[:, None]
    return picture


def _checker(width: int, height: int, number: int, seed: int) -> "Bytes":  # noqa: ARG001 - one row of a table
    import numpy as np

    side = max(min(width, height) // SQUARES, 1)
    dark = (np.arange(width) // side + np.arange(height)[:, None] // side) % 2
    return np.repeat(np.where(dark, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


def _moving(width: int, height: int, number: int, seed: int) -> "Bytes":  # noqa: ARG001 - one row of a table
    import numpy as np

    side = max(min(width, height) // 4, 1)
    top = (height - side) // 2
    picture = np.zeros((height, width, 3), np.uint8)
    picture[top : top + side, (np.arange(side) + number * STEP) % width] = 255
    return picture


def _noise(width: int, height: int, number: int, seed: int) -> "Bytes":
    import hashlib

    import numpy as np

    # a hash, since the streams of NumPy's generators may differ from version to version
    data = hashlib.shake_128(f"{seed}:{number}".encode()).digest(width * height * 3)
    return np.frombuffer(data, np.uint8).reshape(height, width, 3)


_PAINTERS: "Final[dict[Pattern, Painter]]" = {
    Pattern.BARS: _bars,
    Pattern.GRADIENT: _gradient,
    Pattern.CHECKER: _checker,
    Pattern.MOVING: _moving,
    Pattern.NOISE: _noise,
}
_CHANGING: Final = (Pattern.MOVING, Pattern.NOISE)
