"""Raw frames from a file, one after the other with nothing between them."""

from pathlib import Path

from aisrv.sensors.image.frame import Encoding, SourceError
from aisrv.sensors.sources.files import file_size, open_file
from aisrv.sensors.sources.numbered import NumberedSource, checked_frame_size


class RawRecording(NumberedSource):
    """A file of frames, once or in a loop; each is read when it is asked for."""

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
