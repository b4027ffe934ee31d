"""Readers of data sets, pictures, sounds, sources of sensors, stimuli and settings, with files of each."""

import gzip
import importlib
import io
import struct
import tempfile
import wave
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import trio
from PIL import Image, features

from aisrv import digits
from aisrv.addons.evaluate.data.opening import open_data
from aisrv.addons.evaluate.errors import EvaluateError, InputError
from aisrv.addons.evaluate.inputs.pictures import decoded
from aisrv.addons.evaluate.inputs.settings import InputSettings, read_settings
from aisrv.addons.evaluate.inputs.sounds import read_wav
from aisrv.addons.evaluate.sweep.settings import load_sweep
from aisrv.addons.pins.peripherals import i2s_format
from aisrv.addons.pins.peripherals.stimulus import StimulusError, read_stimulus
from aisrv.addons.predict.profile import ProfileError, load_suite
from aisrv.board import BoardFileError
from aisrv.board.xscope_file import read_xscope
from aisrv.model.custom_options import CustomOptions
from aisrv.model.labels import labels_in, labels_of
from aisrv.monitor.trace.reading import TraceError, TraceReader
from aisrv.monitor.trace.sinks import FileSink
from aisrv.sensors.image.frame import SourceError
from aisrv.sensors.sources.images import FORMATS as SOURCE_FORMATS
from aisrv.sensors.sources.opening import open_source
from aisrv.values.untrusted_picture import FORMATS
from host_tools.errors import TensorError
from host_tools.tensors.files import read_tensor
from host_tools.tensors.tensor_spec import TensorSpec
from tests.board.test_xscope_file import CONFIG
from tests.monitor.trace.test_sinks import fill
from tests.soak.reader import Reader

Read = Callable[[Path], object]


def _by_name(ending: str, read: Read) -> Callable[[bytes, Path], object]:
    """Let a reader of paths read bytes, as a file of that ending."""

    def reader(data: bytes, folder: Path) -> object:
        path = folder / f"file{ending}"
        path.write_bytes(data)
        (folder / "1.PNG").write_bytes(b"")
        return read(path)

    return reader


def _data(path: Path) -> None:
    data, _ = open_data(str(path), path.with_name("labels") if path.suffix == ".idx" else None)
    assert len(data.labels) == len(data)
    for array in data.arrays:
        assert len(array) == len(data)
    "".join((*data.names, data.uri)).encode()


def _idx(data: bytes, folder: Path) -> None:
    (folder / "labels").write_bytes(struct.pack(">HBBI", 0, 8, 1, 6) + bytes(6))
    _by_name(".idx", _data)(data, folder)


def _archives() -> list[bytes]:
    x, y = np.arange(60, dtype=np.int8).reshape(5, 3, 4), np.arange(5)
    found = []
    for save in (np.savez, np.savez_compressed):
        for more in ({}, {"recording": np.zeros(5, np.int64)}):
            file = io.BytesIO()
            save(file, x=x, y=y, **more)
            found.append(file.getvalue())
    return found


def _parquet(table: "pa.Table", **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def _tables() -> list[bytes]:
    names = pa.table({"path": ["1.PNG"] * 40, "label": ["cat", "dog"] * 20})
    pictures = pa.table({"image": [bytes([each]) * 90 for each in range(20)], "label": list(range(20))})
    structs = pa.table({"image": [{"bytes": b"a" * 9, "path": "x"}] * 6, "label": [True, False] * 3})
    return [
        _parquet(names),
        _parquet(names, use_dictionary=False, compression="zstd", data_page_version="2.0"),
        _parquet(pictures, row_group_size=5),
        _parquet(pictures, use_dictionary=False, column_encoding={"image": "DELTA_BYTE_ARRAY"}),
        _parquet(structs),
    ]


def _pictures(suffix: str) -> list[bytes]:
    pixels = np.arange(20 * 16 * 3, dtype=np.uint8).reshape(20, 16, 3)
    exif = Image.Exif()
    exif[0x0112] = 6
    found = []
    for mode in ("RGB", "L", "RGBA", "P"):
        more: dict[str, Any] = {"transparency": 3} if mode == "P" else {}
        file = io.BytesIO()
        kind = FORMATS[suffix]
        if kind in ("JPEG", "PPM", "BMP") and mode not in ("RGB", "L"):
            continue
        if kind in ("JPEG", "TIFF", "PNG"):
            more = more | {"exif": exif}
        if kind == "JPEG":
            more = more | {"progressive": mode == "L"}
        Image.fromarray(pixels).convert(mode).save(file, kind, **more)
        found.append(file.getvalue())
    return found


def _sounds(*forms: tuple[int, int]) -> list[bytes]:
    """Return WAV files of these bytes a sample and channels."""
    found = []
    for width, channels in forms:
        file = io.BytesIO()
        with wave.open(file, "wb") as sound:
            sound.setnchannels(channels)
            sound.setsampwidth(width)
            sound.setframerate(16000)
            sound.writeframes(bytes(range(240)))
        found.append(file.getvalue())
    return found


def _source(text: str, path: Path) -> None:
    """Open a source of a file, and take its first two frames."""
    source = open_source(text.format(path.name), path.parent)
    for _ in range(2):
        trio.run(source.frame)


def _folder(data: bytes, folder: Path) -> None:
    place = folder / "pictures"
    place.mkdir(exist_ok=True)
    (place / "1.png").write_bytes(data)
    _source("folder:{}:size=8x8:loop", place)


def _stimulus(path: Path) -> None:
    read_stimulus(path, names=("scl",))


def _picture(data: bytes, _folder: Path) -> None:
    for channels in (1, 3, 4):
        decoded(data, InputSettings(), (8, 8, channels))


def _trace(path: Path) -> None:
    list(TraceReader(path).slices())


def _options() -> list[bytes]:
    from flatbuffers import flexbuffers

    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("t")
        builder.Int(3)
        builder.Key("mp")
        with builder.Vector():
            builder.Blob(bytes(range(60)))
            builder.String("text")
        builder.Key("sizes")
        with builder.TypedVector():
            for each in (1, 20, 300):
                builder.Int(each)
    return [bytes(builder.Finish())]


def _custom_options(data: bytes, _folder: Path) -> None:
    options = CustomOptions.from_bytes(data)
    for name in (*options.names, "t"):
        for read in (options.data, options.first_data, options.integer, options.integers):
            try:
                read(name)
            except ValueError:
                continue


def _labels(data: bytes, _folder: Path) -> None:
    assert "".join((*labels_of(data), *labels_in(data))).isprintable()


_IDX: Final = struct.pack(">HBB3I", 0, 8, 3, 6, 2, 2) + bytes(24)

SPEC: Final = TensorSpec((1, 8, 8, 3), "int8", 1 / 255, -128)
NUMBERS: Final = TensorSpec((4, 3), "int8", 1 / 255, -128)


def _npy() -> list[bytes]:
    found = []
    for array in (np.zeros((4, 3), np.int8), np.ones((4, 3), np.float32), np.zeros((3, 4)).T):
        file = io.BytesIO()
        np.save(file, array)
        found.append(file.getvalue())
    return found


def _trace_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        with FileSink(path) as sink:
            fill(sink, 20)
        return path.read_bytes()


def _video(codec: str, ending: str) -> list[bytes]:
    """Return a short video; none where OpenCV is missing."""
    try:
        cv2 = importlib.import_module("cv2")
    except ImportError:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"video{ending}"
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*codec), 10, (32, 24))
        for level in range(5):
            writer.write(np.full((24, 32, 3), level * 40, np.uint8))
        writer.release()
        return [path.read_bytes()]


SAMPLES: Final = b"time,x,y\n0.5,-1,2\n1.5,3e2,4\n\n2,1,0\n0,0,0\n"
VCD: Final = (
    b"$timescale 10 ns $end\n$scope module top $end\n$var wire 1 ! scl $end\n$var wire 1 # sda $end\n"
    b"$upscope $end\n$enddefinitions $end\n#0\n1!\n1#\n#100\n0!\nx#\n#101\nz!\n"
)
LEVELS: Final = b"time,scl,sda\n0,1,1\n1e-6,0,1\n2e-6,x,z\n"
SWEEP: Final = b"""models = ["digits.tflite", {path = "digits.tflite", name = "again"}]
boards = ["single"]

[axes]
clock = [600, 800]

[data]
path = "digits"
limit = 40
max_memory = "1G"

[want]
rate = 30
"""
SUITE: Final = b"""models = ["digits.tflite"]
[defaults]
clock = 600
[[configurations]]
name = "slow"
arena = "64K"
"""
INPUTS: Final = b"""[inputs.0]
kind = "image"
color = "bgr"
mean = [103.9, 116.8, 123.7]
std = [1.0, 1.0, 1.0]
crop = "center:0.875"
"""


def _data_reader(ending: str, originals: Sequence[bytes], *, is_text: bool = False) -> Reader:
    return Reader(originals, _by_name(ending, _data), EvaluateError, is_text)


def _source_reader(ending: str, text: str, originals: Sequence[bytes], *, is_text: bool = False) -> Reader:
    return Reader(originals, _by_name(ending, partial(_source, text)), SourceError, is_text)


def _picture_readers() -> dict[str, Reader]:
    """Three readers for each format; Pillow may lack WebP."""
    found = {}
    for suffix, kind in FORMATS.items():
        if kind == "WEBP" and not features.check("webp"):
            continue
        files = _pictures(suffix)
        found[f"{suffix} example"] = Reader(files, _picture, InputError)
        found[f"{suffix} tensor"] = Reader(
            files, _by_name(suffix, lambda path: read_tensor(path, SPEC)), TensorError
        )
        if suffix in SOURCE_FORMATS:
            found[f"{suffix} source"] = _source_reader(suffix, "image:{}:size=8x8:encoding=rgb", files)
    return found


DATA_READERS: Final[dict[str, Reader]] = {
    "csv data": _data_reader(".csv", [b"path,label\n1.PNG,cat\n1.PNG,dog\n"], is_text=True),
    "parquet data": _data_reader(".parquet", _tables()),
    "npz data": _data_reader(".npz", _archives()),
    "idx data": Reader([_IDX, gzip.compress(_IDX)], _idx, EvaluateError),
    "labels": Reader([digits.model_bytes(), b"cat\ndog\n"], _labels, ValueError),
    "custom options": Reader(_options(), _custom_options, ValueError),
    "npy": Reader(_npy(), _by_name(".npy", lambda path: read_tensor(path, NUMBERS)), TensorError),
    "wav example": Reader(_sounds((2, 1), (2, 2)), lambda data, _: read_wav(data), InputError),
    "wav source": _source_reader(
        ".wav", "wav:{}:window=4:scale=1/128", _sounds((1, 1), (2, 2), (3, 1), (4, 1))
    ),
    "wav stimulus": Reader(
        _sounds((2, 1), (3, 2), (4, 2)), _by_name(".wav", i2s_format.read_wav), i2s_format.SoundError
    ),
    "csv source": _source_reader(
        ".csv", "csv:{}:window=2:scale=1/4", [SAMPLES, b"1\n2\n3\n4\n"], is_text=True
    ),
    "raw source": _source_reader(".bin", "raw:{}:8x4:rgb", [bytes(192)]),
    "folder source": Reader(_pictures(".png"), _folder, SourceError),
    "vcd stimulus": Reader([VCD], _by_name(".vcd", _stimulus), StimulusError, is_text=True),
    "csv stimulus": Reader([LEVELS], _by_name(".csv", _stimulus), StimulusError, is_text=True),
    "trace": Reader([_trace_file()], _by_name(".trace", _trace), TraceError),
    "xscope": Reader([CONFIG], _by_name(".xscope", read_xscope), BoardFileError, is_text=True),
    "suite": Reader([SUITE], _by_name(".toml", load_suite), ProfileError, is_text=True),
    "sweep": Reader([SWEEP], _by_name(".toml", load_sweep), EvaluateError, is_text=True),
    "inputs": Reader(
        [INPUTS], _by_name(".toml", lambda path: read_settings(path, ("x",))), InputError, is_text=True
    ),
    **_picture_readers(),
}
for _codec, _ending in (("MJPG", ".avi"), ("mp4v", ".mp4")):
    if _files := _video(_codec, _ending):
        DATA_READERS[f"{_ending} source"] = _source_reader(_ending, "video:{}:size=8x8", _files)
