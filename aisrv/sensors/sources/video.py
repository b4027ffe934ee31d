"""Frames of a video file or of a camera of this computer, by OpenCV (extra `camera`).

A video's frame is decoded when it is asked for, at once: some milliseconds, and after a jump those of the
frames since the last key frame. A camera makes its reader wait for the next exposure, a thirtieth of a second
and longer in the dark: that alone happens in a thread of Trio's, as OpenCV has no way to wait that could be
cancelled.
"""

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from aisrv.sensors.image.frame import Encoding, RawFrame, SourceError
from aisrv.sensors.sources.files import file_size
from aisrv.sensors.sources.numbered import FixedSizeSource, NumberedSource, checked_frame_size
from aisrv.values.extras import import_failure
from aisrv.values.parser_errors import parser_errors
from aisrv.values.printable import printable

if TYPE_CHECKING:
    from aisrv.sensors.image.resample import Bytes
    from aisrv.sensors.sources.pictures import Size

MOST_FRAMES: Final = 1 << 31
_SILENT: Final = "-8"
"""What FFmpeg calls quiet: of a damaged file there is an error, and no lines beside it."""


def _opencv(name: str) -> Any:  # noqa: ANN401 - OpenCV has no types
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", _SILENT)
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")
    try:
        return importlib.import_module("cv2")
    except ImportError as error:
        raise SourceError(f"{name}: {import_failure('video needs OpenCV', error, 'camera')}") from None


def _size_of(capture: Any, name: str, size: "Size | None", encoding: Encoding) -> "Size":  # noqa: ANN401
    cv2 = _opencv(name)
    own = int(capture.get(cv2.CAP_PROP_FRAME_WIDTH)), int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT))
    checked_frame_size(name, *own, Encoding.RGB)
    checked_frame_size(name, *(size or own), encoding)
    return size or own


class _Pictures:
    """Takes pictures from a capture, scaled and encoded."""

    def __init__(self, capture: Any, name: str, size: "Size", encoding: Encoding) -> None:  # noqa: ANN401
        from aisrv.sensors.sources.pictures import Scaler

        self._capture = capture
        self._name = name
        self._encoding = encoding
        self._scaler = Scaler(size)

    def read(self) -> "Bytes | None":
        """Wait for a picture and decode it; None if there is none."""
        with parser_errors(self._name, SourceError):
            found, picture = self._capture.read()
        return picture if found else None

    def encode(self, picture: "Bytes") -> bytes:
        """Encode a picture as a frame; OpenCV has blue first."""
        from aisrv.sensors.sources.pictures import encode

        return encode(self._scaler(picture[:, :, ::-1]), self._encoding)


class VideoSource(NumberedSource):
    """A video file, once or in a loop; scaled if a size is given."""

    def __init__(
        self,
        path: Path,
        size: "Size | None" = None,
        encoding: Encoding = Encoding.BAYER_RGGB,
        loop: bool = False,
    ) -> None:
        name = printable(str(path))
        cv2 = _opencv(name)
        file_size(path)  # OpenCV would take what is not a file for an address or a pattern of names
        with parser_errors(f"{name}: not a video that OpenCV can read", SourceError):
            self._capture = cv2.VideoCapture(str(path.resolve()), cv2.CAP_FFMPEG)
            if not self._capture.isOpened():
                raise ValueError("of no format that it knows")
            count = int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT))
        if not 0 < count < MOST_FRAMES:
            raise SourceError(f"{name}: a video of {count} frames")
        size = _size_of(self._capture, name, size, encoding)
        super().__init__(str(path), *size, encoding, count, loop)
        self._seek_to = cv2.CAP_PROP_POS_FRAMES
        self._pictures = _Pictures(self._capture, str(path), size, encoding)
        self._position = 0

    def _data(self, number: int) -> bytes:
        if number != self._position:
            self._capture.set(self._seek_to, number)
        picture = self._pictures.read()
        self._position = number + 1
        if picture is None:
            raise SourceError(f"{self.name}: frame {number} of {self._count} cannot be decoded")
        return self._pictures.encode(picture)


class WebcamSource(FixedSizeSource):
    """Pictures of a camera; scaled if a size is given. `capture` is an open cv2.VideoCapture."""

    def __init__(
        self,
        capture: Any,  # noqa: ANN401
        name: str,
        size: "Size | None" = None,
        encoding: Encoding = Encoding.BAYER_RGGB,
    ) -> None:
        self._name = name
        super().__init__(*_size_of(capture, name, size, encoding), encoding)
        self._pictures = _Pictures(capture, name, (self._width, self._height), encoding)

    async def frame(self) -> RawFrame:
        """Wait for the next exposure, also if cancelled. Raises SourceError if the camera is gone."""
        picture = await trio.to_thread.run_sync(self._pictures.read)
        if picture is None:
            raise SourceError(f"{self._name}: the camera has no picture; is it still connected?")
        return RawFrame(self._width, self._height, self._encoding, self._pictures.encode(picture))


def open_webcam(
    number: int, size: "Size | None" = None, encoding: Encoding = Encoding.BAYER_RGGB
) -> WebcamSource:
    """Open a camera of this computer by its number. Raises SourceError."""
    name = f"webcam {number}"
    cv2 = _opencv(name)
    capture = cv2.VideoCapture(number)
    if not capture.isOpened():
        raise SourceError(f"{name}: no such camera, or another program uses it")
    capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)  # what it sees now, not what it saw
    return WebcamSource(capture, name, size, encoding)
