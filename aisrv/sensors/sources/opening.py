"""Opening the source that a text names; each kind imports only what it needs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aisrv.sensors.image.frame import Encoding, FrameSource
from aisrv.sensors.sources.spec import SourceSpec, raw_place

if TYPE_CHECKING:
    from aisrv.sensors.sources.samples import SampleSource


def open_source(spec: SourceSpec | str, base: Path = Path()) -> FrameSource:
    """Open a source; relative paths are below `base`. Raises SourceError, SourceSpecError for wrong text."""
    if isinstance(spec, str):
        spec = SourceSpec.from_text(spec)
    source = _OPENERS[spec.scheme](spec, base)
    if (rate := spec.value("rate")) is None:
        return source
    from aisrv.sensors.sources.pacing import LatePolicy, PacedSource

    return PacedSource(source, rate, LatePolicy(spec.value("late", "drop")))


def _picture_options(spec: SourceSpec) -> tuple[tuple[int, int] | None, Encoding]:
    return spec.value("size"), spec.value("encoding", Encoding.BAYER_RGGB)


def _open_pattern(spec: SourceSpec, base: Path) -> FrameSource:
    del base
    from aisrv.sensors.sources.patterns import HEIGHT, WIDTH, Pattern, PatternSource

    size, encoding = _picture_options(spec)
    return PatternSource(Pattern(spec.place), *(size or (WIDTH, HEIGHT)), encoding, spec.value("seed", 0))


def _open_image(spec: SourceSpec, base: Path) -> FrameSource:
    from aisrv.sensors.sources.images import ImageSource

    return ImageSource(base / spec.place, *_picture_options(spec))


def _open_folder(spec: SourceSpec, base: Path) -> FrameSource:
    from aisrv.sensors.sources.images import FolderSource

    return FolderSource(base / spec.place, *_picture_options(spec), spec.value("loop", False))


def _open_video(spec: SourceSpec, base: Path) -> FrameSource:
    from aisrv.sensors.sources.video import VideoSource

    return VideoSource(base / spec.place, *_picture_options(spec), spec.value("loop", False))


def _open_webcam(spec: SourceSpec, base: Path) -> FrameSource:
    del base
    from aisrv.sensors.sources.video import open_webcam

    return open_webcam(int(spec.place), *_picture_options(spec))


def _open_raw(spec: SourceSpec, base: Path) -> FrameSource:
    from aisrv.sensors.sources.numbered import RawRecording

    path, size, encoding = raw_place(spec)
    return RawRecording(base / path, *size, encoding, spec.value("loop", False))


def _open_wav(spec: SourceSpec, base: Path) -> FrameSource:
    from aisrv.sensors.sources.samples import wav_source

    return _open_samples(wav_source, spec, base)


def _open_csv(spec: SourceSpec, base: Path) -> FrameSource:
    from aisrv.sensors.sources.samples import csv_source

    return _open_samples(csv_source, spec, base)


def _open_samples(opener: "Callable[..., SampleSource]", spec: SourceSpec, base: Path) -> FrameSource:
    from aisrv.sensors.sources.samples import SampleQuantization, SampleType

    scale = spec.value("scale")
    return opener(
        base / spec.place,
        spec.value("window"),
        spec.value("hop"),
        quantization=None if scale is None else SampleQuantization(float(scale), spec.value("zero", 0)),
        element=SampleType[spec.value("type", "INT8")],
        loop=spec.value("loop", False),
    )


_OPENERS: Final[dict[str, Callable[[SourceSpec, Path], FrameSource]]] = {
    "pattern": _open_pattern,
    "image": _open_image,
    "folder": _open_folder,
    "video": _open_video,
    "webcam": _open_webcam,
    "raw": _open_raw,
    "wav": _open_wav,
    "csv": _open_csv,
}
