"""What a file may cost: memory and time of each reader, with files that ask for more than there is.

A reader holds at most 256 MiB beyond what it returns, and takes at most a second of CPU before its first
example or its error.
"""

import json
import re
import struct
import subprocess
import sys
import wave
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from aisrv.addons.evaluate.data.opening import open_data
from aisrv.addons.evaluate.errors import DataError
from aisrv.values.untrusted_picture import LARGEST_PIXELS
from phy.usb.taps.capture_reader import LARGEST_CAPTURE, MOST_BLOCKS
from phy.usb.taps.usbmon import EventType, UsbmonHeader

MIB: Final = 1 << 20
HELD: Final = 256
"""MiB that a reader may hold beyond what it returns."""
SECONDS: Final = 1.0

MEASURE: Final = """
import json, os, resource, sys, time
from pathlib import Path
path = Path(sys.argv[1])
{imports}
def status(name):
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines[name].split()[0]) / 1024
Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
before, began = status("VmRSS"), time.process_time()
try:
    found = {call}
    said = "read"
except Exception as error:
    found, said = None, f"{{type(error).__name__}}: {{error}}"
cpu = time.process_time() - began
print(json.dumps(dict(peak=status("VmHWM") - before, kept=status("VmRSS") - before, cpu=cpu, said=said)))
"""


class Cost(NamedTuple):
    """What reading a file took."""

    held: float
    """MiB at the peak that were not there before, and are not in what it returned."""
    cpu: float
    """Seconds."""
    said: str
    """The error, or that it was read."""


def cost(path: Path, imports: str, call: str) -> Cost:
    """Read a file in a process of its own."""
    code = MEASURE.format(imports=imports, call=call)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    found = json.loads(done.stdout)
    return Cost(found["peak"] - max(0, found["kept"]), found["cpu"], found["said"])


DATA: Final = ("from aisrv.addons.evaluate.data.opening import open_data", "open_data(str(path))")
WARM: Final = "; import pyarrow.parquet, PIL.Image, zipfile, numpy.lib.format"


def data_cost(path: Path) -> Cost:
    return cost(path, DATA[0] + WARM, DATA[1])


# Data sets.


def thirty_million_rows(path: Path) -> None:
    numbers = pa.DictionaryArray.from_arrays(pa.array(np.zeros(30_000_000, np.int8)), pa.array(["1.png"]))
    pq.write_table(pa.table({"path": numbers, "label": numbers}), path)


def one_value_a_thousand_times(path: Path) -> None:
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array([bytes(8_000_000)]))
    pq.write_table(pa.table({"image": rows, "label": [1] * 1000}), path, compression="zstd")


def one_value_of_a_page(path: Path) -> None:
    table = pa.table({"image": [bytes(120 * MIB)], "label": [1]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)


def values_of_those_before(path: Path) -> None:
    rows = [bytes(4_000_000)] * 20
    options = {"use_dictionary": False, "column_encoding": {"image": "DELTA_BYTE_ARRAY"}}
    pq.write_table(pa.table({"image": rows, "label": ["1"] * 20}), path, compression="zstd", **options)


def many_pages(path: Path) -> None:
    names = pa.table({"path": ["1.png"] * 60_000, "label": ["a"] * 60_000})
    pq.write_table(
        names, path, use_dictionary=False, data_page_size=1, write_batch_size=1, max_rows_per_page=1
    )


def large_footer(path: Path) -> None:
    pq.write_table(pa.table({"path": ["1.png"], "label": ["a"]}, metadata={"a": "b" * 3 * MIB}), path)


def npy_header(shape: tuple[int, ...], descr: str) -> bytes:
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(10 + len(head) + 1) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head


def archive_of_zeros(path: Path, size: int, told: int | None = None) -> None:
    """Write an archive whose `x` has so many zeros, and whose directory may tell another number."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as member:
            member.write(npy_header((size,), "|u1"))
            for start in range(0, size, MIB):
                member.write(bytes(min(MIB, size - start)))
        archive.writestr("y.npy", npy_header((size,), "|u1") + bytes(min(size, MIB)))
        if told is not None:
            for each in archive.infolist():
                each.file_size = told


def packed_otherwise(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("x.npy", npy_header((60 * MIB,), "|u1") + bytes(60 * MIB))
        archive.writestr("y.npy", npy_header((60 * MIB,), "|u1"))


def many_members(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(30_000):
            archive.writestr(f"{number}.npy", b"")


def labels_of_no_bytes(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("x", "y"):
            archive.writestr(f"{name}.npy", npy_header((10**12,), "|S0"))


def packed_images(path: Path) -> None:
    path.with_name("labels-idx1-ubyte").write_bytes(struct.pack(">HBBI", 0, 8, 1, 1) + b"\0")
    head = struct.pack(">HBB3I", 0, 8, 3, 1, 60_000, 65_000)
    pack = zlib.compressobj(9, wbits=31)
    path.write_bytes(pack.compress(head) + pack.compress(bytes(4 * MIB)) + pack.flush())


def endless_row(path: Path) -> None:
    path.write_bytes(b"path,label\n" + b"a," * (40 * MIB))


HOSTILE: Final[dict[str, tuple[str, Callable[[Path], None], str]]] = {
    "thirty million rows": ("t.parquet", thirty_million_rows, "it takes 15,360,000,000 bytes of memory"),
    "a value a thousand times": ("t.parquet", one_value_a_thousand_times, "read"),
    "a value of a page": ("t.parquet", one_value_of_a_page, "its pages take [0-9,]+ bytes"),
    "values of those before": ("t.parquet", values_of_those_before, "read|its pages take"),
    "many pages": ("t.parquet", many_pages, "more than 20,000 pages"),
    "a large footer": ("t.parquet", large_footer, "its footer has [0-9,]+ bytes, at most 1,048,576"),
    "zeros that are told": (
        "t.npz",
        lambda path: archive_of_zeros(path, 4 * MIB, 3_600_000_000),
        "it takes 7,200,000,000 bytes of memory",
    ),
    "another way of packing": ("t.npz", packed_otherwise, "packed in a way that is not read"),
    "many members": ("t.npz", many_members, "bytes in one go"),
    "labels of no bytes": ("t.npz", labels_of_no_bytes, "not numbers"),
    "packed images": ("images-idx3-ubyte", packed_images, "it takes 3,900,000,016 bytes of memory"),
    "an endless row": ("t.csv", endless_row, "a row of more than 1,048,576 characters"),
}


SLOW_TO_WRITE: Final = ("many pages", "values of those before", "many members")


def _small_share(name: str) -> object:
    marks = [pytest.mark.long("the file takes seconds to write")] if name in SLOW_TO_WRITE else []
    return pytest.param(name, id=name, marks=marks)


@pytest.mark.parametrize("name", [_small_share(name) for name in HOSTILE])
def test_hostile_data_are_refused_before_they_cost(name: str, tmp_path: Path) -> None:
    file, write, said = HOSTILE[name]
    write(tmp_path / file)
    found = data_cost(tmp_path / file)
    assert found.held < HELD, found
    assert found.cpu < SECONDS, found
    assert re.search(said, found.said), found


@pytest.mark.parametrize(
    ("file", "write"),
    [
        ("t.npz", lambda path: archive_of_zeros(path, 4 * MIB)),
        ("t.npz", lambda path: archive_of_zeros(path, 4 * MIB, 4096)),
    ],
)
def test_archives_take_what_they_are_given(file: str, write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / file)
    with pytest.raises(DataError):
        open_data(str(tmp_path / file), largest=2 * MIB)


def test_more_memory_is_given_where_it_is_asked_for(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "t.npz", x=np.zeros((MIB, 4), np.int8), y=np.zeros(MIB, np.int8))
    with pytest.raises(DataError, match=r"it takes 5,\d+,\d+ bytes of memory or more, at most 4,194,304"):
        open_data(str(tmp_path / "t.npz"), largest=4 * MIB)
    assert len(open_data(str(tmp_path / "t.npz"), largest=64 * MIB)[0]) == MIB


# Parts of runs.

PART_ROWS: Final = 1000


def part(reasons: "pa.Array", outputs: "pa.Array | None" = None) -> "pa.Table":
    """Return a part of examples of an output of two numbers."""
    numbers = np.zeros(2 * PART_ROWS, np.int8)
    zeros = pa.array(np.zeros(PART_ROWS, np.int32))
    return pa.table(
        {
            "index": pa.array(np.arange(PART_ROWS)),
            "label": zeros,
            "predicted": zeros,
            "failed": reasons,
            "output0": outputs or pa.FixedSizeListArray.from_arrays(pa.array(numbers), 2),
        }
    )


def one_reason() -> "pa.Table":
    return part(pa.array(["a" * 400_000] * PART_ROWS))


def long_reasons() -> "pa.Table":
    return part(pa.array(["a" * 30 * MIB] * 8 + [None] * (PART_ROWS - 8)))


def many_outputs() -> "pa.Table":
    values = pa.array(np.zeros(100_000_000, np.int8))
    ends = pa.array([0] + [100_000_000] * PART_ROWS, pa.int32())
    return part(pa.nulls(PART_ROWS, pa.string()), pa.ListArray.from_arrays(ends, values))


PARTS: Final[dict[str, tuple[Callable[[], "pa.Table"], dict[str, Any], str]]] = {
    "a reason of all": (one_reason, {}, "its classes are not those"),
    "long reasons": (long_reasons, {"use_dictionary": False}, "its pages take"),
    "outputs of others": (many_outputs, {}, "output0.list.element has [0-9,]+ values of 1,000 examples"),
    "reasons by what differs": (
        lambda: part(pa.array(["a" * 200] * PART_ROWS)),
        {"use_dictionary": False, "column_encoding": {"failed": "DELTA_BYTE_ARRAY"}},
        "its values are encoded by what differs",
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "a reason of all" else pytest.mark.long("large files"))
        for name in PARTS
    ],
)
def test_parts_of_runs_are_read_within_the_budget(name: str, tmp_path: Path) -> None:
    make, options, said = PARTS[name]
    path = tmp_path / "part.parquet"
    pq.write_table(make(), path, compression="zstd", **options)
    imports = (
        "import pyarrow.parquet; from aisrv.addons.evaluate.folder.part_format import PartFormat\n"
        "from host_tools.tensors.tensor_spec import TensorSpec"
    )
    form = "PartFormat((TensorSpec((1, 2), 'int8', 1.0, 0),), 'classes', False)"
    found = cost(path, imports, f"{form}.from_bytes(path.read_bytes(), 0, {PART_ROWS})")
    assert re.search(said, found.said), found
    assert found.held < HELD, found
    assert found.cpu < SECONDS, found


# Pictures.

WIDE: Final = 6000
PICTURES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "jpg": ("RGB", {"quality": 30}),
    "progressive.jpg": ("RGB", {"quality": 30, "progressive": True, "subsampling": 0}),
    "turned.jpg": ("RGB", {"quality": 30}),
    "png": ("RGB", {"compress_level": 1}),
    "alpha.png": ("RGBA", {"compress_level": 1}),
    "bmp": ("RGB", {}),
    "gif": ("P", {}),
    "tif": ("RGB", {"compression": "tiff_adobe_deflate"}),
    "webp": ("RGB", {"method": 0}),
}


@pytest.mark.long("pictures of 24 megapixels are written first")
@pytest.mark.parametrize("name", PICTURES)
def test_the_largest_pictures_are_read_within_the_budget(name: str, tmp_path: Path) -> None:
    mode, options = PICTURES[name]
    exif = Image.Exif()
    exif[0x0112] = 6 if name.startswith("turned") else 1
    more: dict[str, Any] = {"exif": exif} if name.endswith("jpg") else {}
    height = LARGEST_PIXELS // WIDE // (2 if name == "webp" else 1)
    rows = np.arange(height, dtype=np.uint8)[:, None, None]
    pixels = np.broadcast_to(rows, (height, WIDE, 4 if mode == "RGBA" else 3))
    path = tmp_path / f"picture.{name.rpartition('.')[2]}"
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.convert(mode).save(path, **options, **more)
    imports = (
        "from aisrv.addons.evaluate.inputs.pictures import decoded; import PIL.Image; PIL.Image.init()\n"
        "from aisrv.addons.evaluate.inputs.settings import InputSettings"
    )
    found = cost(path, imports, "decoded(path.read_bytes(), InputSettings(), (96, 96, 3))")
    assert found.said == "read"
    assert found.held < HELD, found
    assert found.cpu < SECONDS, found


# Sensors.


def long_sound(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(16000)
        file.writeframes(bytes(60 * MIB))


SOURCES: Final[dict[str, Callable[[Path], object]]] = {
    "wav:{}:window=1600:type=int16": long_sound,
    "csv:{}:window=128:scale=1/4": lambda path: path.write_bytes(b"1\n" * (4 * MIB)),
}


@pytest.mark.long("large files, and Python's own time to start")
@pytest.mark.parametrize("text", SOURCES)
def test_sources_are_opened_within_the_budget(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    SOURCES[text](path)
    imports = "import numpy, trio; from aisrv.sensors.sources.opening import open_source"
    found = cost(path, imports, f"trio.run(open_source({text!r}.format(path)).frame)")
    assert found.held < HELD, found
    assert found.cpu < SECONDS, found


# Stimuli.

VCD_HEAD: Final = (
    b"$timescale 10 ns $end $scope module top $end $var wire 1 ! scl $end $enddefinitions $end\n"
)
LARGEST_STIMULUS: Final = 8 * MIB


def _repeated(piece: bytes, head: bytes = VCD_HEAD) -> bytes:
    return head + piece * ((LARGEST_STIMULUS - len(head)) // len(piece))


STIMULI: Final[dict[str, tuple[str, Callable[[], bytes], str]]] = {
    "changes at one time": (".vcd", lambda: _repeated(b"1!\n0!\n"), "read"),
    "changes of others": (".vcd", lambda: _repeated(b'1"\nb1 #\n'), "read"),
    "times without changes": (".vcd", lambda: _repeated(b"#1\n"), "read"),
    "times that repeat": (".vcd", lambda: _repeated(b"#1\n1!\n"), "at more than 1,048,576 times"),
    "comments": (".vcd", lambda: _repeated(b"$comment a $end\n"), "read"),
    "a comment without an end": (".vcd", lambda: _repeated(b"$comment a "), "no change of a signal"),
    "spaces": (".vcd", lambda: _repeated(b" "), "read"),
    "declarations": (".vcd", lambda: _repeated(b"$var wire 1 ! a $end\n", b""), "at most 1,048,576 are read"),
    "long names": (
        ".vcd",
        lambda: (
            b"$scope module " + b"a" * (MIB // 2) + b" $end " + b"$var wire 1 ! a $end " * 9999 + VCD_HEAD
        ),
        "the names of its signals are too long",
    ),
    "columns": (".csv", lambda: _repeated(b",a", b"time"), "columns, at most 1,024 are read"),
    "lines": (".csv", lambda: _repeated(b"0,1\n", b"time,scl\n"), "more than 262,144 lines"),
}


@pytest.mark.parametrize("name", STIMULI)
def test_stimuli_are_read_within_the_budget(name: str, tmp_path: Path) -> None:
    ending, content, said = STIMULI[name]
    path = tmp_path / f"stimulus{ending}"
    path.write_bytes(content())
    imports = "from aisrv.addons.pins.peripherals.stimulus import read_stimulus"
    found = cost(path, imports, "read_stimulus(path, names=('scl',))")
    assert re.search(said, found.said), found
    assert found.held < HELD, found
    assert found.cpu < (2 * SECONDS if name == "times that repeat" else SECONDS), found


# Captures.


def event(data: bytes) -> bytes:
    """Return a packet of a pcap file, in which the host sends data."""
    header = UsbmonHeader(1, EventType.SUBMIT, 3, 1, 4, 1, b"-", b"\0", 0, 0, 0, len(data), len(data), b"", 0)
    packet = bytes(header) + data
    return struct.pack("<8xII", len(packet), len(packet)) + packet


def sparse_packet(path: Path) -> None:
    with path.open("wb") as file:
        file.write(PCAP_HEAD + struct.pack("<8xII", 900 * MIB, 900 * MIB))
        file.truncate(LARGEST_CAPTURE)


PCAP_HEAD: Final = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, 220)
CAPTURES: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "many packets": (
        lambda path: path.write_bytes(PCAP_HEAD + event(b"") * (MOST_BLOCKS + 1)),
        "more than 262,144 packets",
    ),
    "large packets": (lambda path: path.write_bytes(PCAP_HEAD + event(bytes(16 * MIB)) * 20), "read"),
    "a packet that is too large": (sparse_packet, "has 943,718,400 bytes, at most 33,554,432 are read"),
}


@pytest.mark.long("large files")
@pytest.mark.parametrize("name", CAPTURES)
def test_captures_are_read_within_the_budget(name: str, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    write, said = CAPTURES[name]
    write(path)
    imports = "from phy.usb.taps.capture_reader import read_capture"
    found = cost(path, imports, "read_capture(path.open('rb'))")
    assert re.search(said, found.said), found
    assert found.held < HELD, found
    assert found.cpu < (2 * SECONDS if name == "many packets" else SECONDS), found


@pytest.mark.long("half a second of CPU")
def test_a_graph_is_read_within_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_bytes(b"a\n" * (1 << 18))
    found = cost(path, "from aisrv.addons.graph.compiler.compile import load_graph", "load_graph(path)")
    assert found.said.startswith("TextError"), found
    assert found.held < HELD, found
    assert found.cpu < 2 * SECONDS, found
