"""Sources of numbered frames: bases, with an end, a loop and skipping, and raw frames of a file.

A raw file has its frames one after the other with nothing between them.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from aisrv.sensors.image.frame import Encoding, FrameError, RawFrame, SourceError, frame_size
from aisrv.sensors.sources.files import file_size, open_file
from aisrv.xcore.runtime import let_others_run

LARGEST_FRAME: Final = 64 << 20
"""Limit of a frame's bytes: files name sizes, and must not choose how much memory that takes."""


def checked_frame_size(name: str, width: int, height: int, encoding: Encoding) -> int:
    """Return the bytes of a frame of the source `name`; SourceError if it is impossible or too large."""
    try:
        size = frame_size(width, height, encoding)
    except FrameError as error:
        raise SourceError(f"{name}: {error}") from None
    if size > LARGEST_FRAME:
        raise SourceError(f"{name}: {width}x{height} are {size} bytes, above {LARGEST_FRAME}")
    return size


class FixedSizeSource:
    """Base of sources whose frames have one size and encoding."""

    def __init__(self, width: int, height: int, encoding: Encoding) -> None:
        self._width = width
        self._height = height
        self._encoding = encoding

    @property
    def width(self) -> int:
        """Pixels of a row; bytes of a row of samples."""
        return self._width

    @property
    def height(self) -> int:
        return self._height

    @property
    def encoding(self) -> Encoding:
        return self._encoding


class NumberedSource(FixedSizeSource, ABC):
    """Base of sources with `count` frames, or endless ones if that is None.

    After the last frame it begins again with `loop`, and raises SourceError without. A frame that cannot be
    read raises SourceError once; the next call goes on with the next frame.
    """

    def __init__(
        self, name: str, width: int, height: int, encoding: Encoding, count: int | None, loop: bool = False
    ) -> None:
        self.name: Final = name
        self.frame_size: Final = checked_frame_size(name, width, height, encoding)
        super().__init__(width, height, encoding)
        self._count = count
        self._loop = loop
        self._next = 0

    async def frame(self) -> RawFrame:
        """Take the next frame. Raises SourceError after the last, and for a frame that cannot be read."""
        await let_others_run()
        number = self._next
        if self._count is not None and number >= self._count:
            if not self._loop:
                raise SourceError(
                    f"{self.name} ended after {self._count} frames; with the option loop it begins again"
                )
            number %= self._count
        self._next += 1
        return RawFrame(self._width, self._height, self._encoding, self._data(number))

    def skip(self, count: int) -> None:
        """Skip the next `count` frames."""
        self._next += count

    @abstractmethod
    def _data(self, number: int) -> bytes:
        """Compute or read the bytes of a frame. Raises SourceError."""


class RawRecording(NumberedSource):
    """Raw frames of a file, once or in a loop; each is read when it is asked for."""

    def __init__(self, path: Path, width: int, height: int, encoding: Encoding, loop: bool = False) -> None:
        size = checked_frame_size(str(path), width, height, encoding)
        length = file_size(path)
        count, left = divmod(length, size)
        if left or not count:
            raise SourceError(
                f"{path}: {length} bytes are not whole frames of {size} bytes"
                f" ({width}x{height} {encoding.value})"
            )
        super().__init__(str(path), width, height, encoding, count, loop)
        self._path = path

    def _data(self, number: int) -> bytes:
        try:
            with open_file(self._path) as file:
                file.seek(number * self.frame_size)
                data = file.read(self.frame_size)
        except OSError as error:
            raise SourceError(f"{self._path}: {error.strerror}") from None
        if len(data) != self.frame_size:
            raise SourceError(f"{self._path}: ends within frame {number}; it was cut since it was opened")
        return data
