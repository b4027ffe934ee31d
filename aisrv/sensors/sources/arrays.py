"""Frames from a program: a NumPy array of pictures, or a function that is called for every frame."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aisrv.sensors.image.frame import Encoding, RawFrame, SourceError
from aisrv.sensors.sources.numbered import FixedSizeSource, NumberedSource, checked_frame_size
from aisrv.sensors.sources.pictures import encode
from aisrv.xcore.runtime import let_others_run

Made = RawFrame | bytes
Callback = Callable[[], Made | Awaitable[Made]]


class ArraySource(NumberedSource):
    """Pictures of an array of bytes: (height, width), (height, width, 3) or (count, height, width, 3).

    The array is not copied: what a test writes into it is seen by the next frame. A single picture is
    delivered again and again; several once, or in a `loop`.
    """

    def __init__(
        self, array: npt.NDArray[Any], encoding: Encoding = Encoding.BAYER_RGGB, loop: bool = False
    ) -> None:
        shape = array.shape
        if array.dtype != np.uint8 or len(shape) not in (2, 3, 4) or (len(shape) > 2 and shape[-1] != 3):
            raise SourceError(
                f"an array of {array.dtype} {shape}: pictures are uint8 (height, width), (height, width, 3)"
                " or (count, height, width, 3)"
            )
        if encoding is Encoding.SAMPLES:
            raise SourceError("an array of pictures has no encoding as samples; give those by a callback")
        several = len(shape) == 4
        if several and not shape[0]:
            raise SourceError("an array of 0 pictures")
        height, width = shape[1:3] if several else shape[:2]
        super().__init__("array", width, height, encoding, shape[0] if several else None, loop)
        self._array = array

    def _data(self, number: int) -> bytes:
        picture = self._array[number] if self._array.ndim == 4 else self._array
        if picture.ndim == 2:
            picture = np.repeat(picture[:, :, None], 3, axis=2)
        return encode(picture, self._encoding)


class CallbackSource(FixedSizeSource):
    """Frames that a function makes, sync or async: a RawFrame, or the bytes of one.

    Its errors go through to the caller; a frame of another size or encoding is a SourceError.
    """

    def __init__(self, callback: Callback, width: int, height: int, encoding: Encoding) -> None:
        self._size = checked_frame_size("callback", width, height, encoding)
        self._callback = callback
        super().__init__(width, height, encoding)

    async def frame(self) -> RawFrame:
        """Call the function for a frame. Raises SourceError, and what the function raises."""
        await let_others_run()
        called = self._callback()
        made = await called if inspect.isawaitable(called) else called
        frame = (
            made if isinstance(made, RawFrame) else RawFrame(self._width, self._height, self._encoding, made)
        )
        expected = (self._width, self._height, self._encoding, self._size)
        got = (frame.width, frame.height, frame.encoding, len(frame.data))
        if got != expected:
            raise SourceError(f"callback gave {_describe(*got)} where {_describe(*expected)} was announced")
        return frame


def _describe(width: int, height: int, encoding: Encoding, size: int) -> str:
    return f"{size} bytes of {encoding.value} {width}x{height}"
