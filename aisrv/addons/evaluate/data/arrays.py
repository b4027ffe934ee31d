"""Arrays of examples: `.npz` files of NumPy, IDX files as of MNIST, and the digits that aisrv brings.

The arrays of an `.npz` file that are stored as they are get mapped, not read: a run copies no byte of them.
So are IDX files. What is compressed is unpacked into memory, after what it says of its size was compared.
IDX: http://yann.lecun.com/exdb/mnist, section "The IDX file format": big-endian, two zero bytes, a type, the
number of dimensions and their extents as 32-bit words.
"""

import hashlib
import io
import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import numpy as np

from aisrv import digits
from aisrv.addons.evaluate.data.allowance import LABEL_BYTES, LARGEST_DATA, Allowance
from aisrv.addons.evaluate.data.content import mapped, opened_data
from aisrv.addons.evaluate.data.data_set import Array, DataSet
from aisrv.addons.evaluate.data.mapped_rows import MappedRows
from aisrv.addons.evaluate.data.urls import Url, is_file
from aisrv.addons.evaluate.errors import DataError
from aisrv.values.parser_errors import parser_errors
from aisrv.values.printable import printable, readable_name
from aisrv.values.untrusted_archive import PIECE, opened_archive, opened_member
from host_tools.tensors.npy import npy_header

IDX_TYPES: Final = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
"""Types of the elements of IDX files, by code."""

RECORDING: Final = "recording"

GZIP: Final = b"\x1f\x8b"
"""How a file begins that is compressed."""

_NUMBERS: Final = "biuf"
"""Kinds of NumPy's types that are numbers."""
_LONGEST_HEADER: Final = 1 << 16
_LONGEST_NAMES: Final = 300
_GZIP_BITS: Final = 31
"""How zlib is told of gzip's header and checksum."""
_IDX_HEADER: Final = 4 + 4 * 8
_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")


def read_npz(path: Path | Url, largest: int = LARGEST_DATA) -> DataSet:
    """Read an archive with `x`, or `x0`, `x1` and so on, or an array named as each input, and labels `y`.

    An array RECORDING says of each example which recording it is a window of. `largest` is what the data may
    take in memory, in bytes. Raises DataError, ExtraError.
    """
    shown = printable(str(path))
    allowed = Allowance(str(path), largest)
    with opened_data(path) as file:
        memory = mapped(file)
    with opened_archive(memory, f"{shown}: not an archive of arrays that can be read", DataError) as archive:
        members = {
            each.filename.removesuffix(".npy"): each
            for each in archive.infolist()
            if each.filename.endswith(".npy")
        }
        if "y" not in members or len(members) < 2:
            found = printable(", ".join(members), _LONGEST_NAMES) or "no array"
            raise DataError(f"{shown} has {found}; it must have examples x and labels y")
        allowed.check(sum(each.file_size for each in members.values() if each.compress_type))
        read = {name: _member(archive, memory, each, allowed) for name, each in members.items()}
        arrays = {name: array for name, (array, _) in read.items()}
        checks = [f"{name} {each.CRC:08x} {each.file_size}" for name, each in members.items()]
        labels = arrays.pop("y")
        allowed.take(labels.size * LABEL_BYTES)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    _check_lengths(shown, labels, arrays)
    recordings = arrays.pop(RECORDING, None)
    if recordings is not None:
        if recordings.ndim != 1 or not arrays:
            raise DataError(f"{shown}: {RECORDING} has one number for each example, beside x and y")
        recordings = np.unique(recordings, return_inverse=True)[1]
    names = tuple(sorted(arrays))
    lines = "\n".join(sorted(checks))
    is_single = len(names) == 1
    place = read[names[0]][1] if is_single else None
    return DataSet(
        readable_name(str(path)),
        "npz",
        labels,
        hashlib.sha256(lines.encode()).hexdigest(),
        tuple(arrays[name] for name in names),
        array_names=() if is_single else names,
        mapped=None if place is None or isinstance(path, Url) else MappedRows(path, place),
        recordings=recordings,
    )


def _member(
    archive: zipfile.ZipFile, memory: memoryview, member: zipfile.ZipInfo, allowed: Allowance
) -> tuple[Array, int | None]:
    """Map an array that is stored as it is, and say where; unpack one that is compressed.

    Raises ValueError, DataError.
    """
    if member.compress_type != zipfile.ZIP_STORED:
        with opened_member(archive, member) as file:
            return _unpacked_array(file, member, allowed), None
    signature, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack_from(memory, member.header_offset)
    if signature != b"PK\3\4":
        raise ValueError(f"{member.filename} is not where the archive says")
    start = member.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
    data = memory[start : start + member.file_size]
    file = io.BytesIO(data[:_LONGEST_HEADER])
    shape, dtype = _header(file, member.filename)
    if math.prod(shape) * dtype.itemsize > len(data) - file.tell():
        raise ValueError(f"{member.filename} has fewer bytes than its shape {shape}")
    return np.ndarray(shape, dtype, data, file.tell()), start + file.tell()


def _header(file: BinaryIO, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of an array of numbers; ValueError for another."""
    shape, in_columns, dtype = npy_header(file)
    if dtype.kind not in _NUMBERS:
        raise ValueError(f"{name} holds {'Python objects' if dtype.hasobject else dtype}, not numbers")
    if in_columns and len(shape) > 1:
        raise ValueError(f"{name} is in Fortran order: save it in C order")
    if any(each < 0 for each in shape):
        raise ValueError(f"{name} has the shape {shape}")
    return shape, dtype


def _unpacked_array(file: BinaryIO, member: zipfile.ZipInfo, allowed: Allowance) -> Array:
    """Read an array that is compressed, a piece at a time; ValueError, DataError and those of zipfile."""
    shape, dtype = _header(file, member.filename)
    size = math.prod(shape) * dtype.itemsize
    allowed.take(size)
    array: Array = np.empty(shape, dtype)
    if not _filled(array.reshape(-1).view(np.uint8).data, file):
        raise ValueError(f"{member.filename} has fewer bytes than its shape {shape}")
    array.flags.writeable = False
    return array


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _filled(target: memoryview, file: _Readable) -> bool:
    """Read from a file until the target is full, and to the file's end; whether it had just as many bytes."""
    at = 0
    while at < len(target):
        piece = file.read(min(PIECE, len(target) - at))
        if not piece:
            return False
        target[at : at + len(piece)] = piece
        at += len(piece)
    return not file.read(1)


def _check_lengths(uri: str, labels: Array, arrays: dict[str, Array]) -> None:
    if labels.ndim != 1:
        raise DataError(f"{uri}: labels have the shape {list(labels.shape)}, one for each example is wanted")
    for name, array in arrays.items():
        if array.shape[:1] != labels.shape:
            length = array.shape[0] if array.ndim else "no"
            raise DataError(f"{uri}: {name} has {length} examples, y has {len(labels)} labels")
    if not len(labels):
        raise DataError(f"{uri}: no examples")


def is_idx(data: bytes | memoryview) -> bool:
    """Return whether `data` begin as an IDX file does."""
    return len(data) > 4 and data[:2] == b"\0\0" and data[2] in IDX_TYPES and 0 < data[3] <= 8


def idx_size(data: bytes | memoryview, name: str) -> int:
    """Return how many bytes an IDX file has by its header, with which `data` begin; DataError."""
    dtype, shape, start = _idx_header(data, name)
    return start + math.prod(shape) * dtype.itemsize


def parse_idx(data: bytes | memoryview, name: str) -> Array:
    """Return the array of an IDX file, which `name` is for messages; DataError."""
    dtype, shape, start = _idx_header(data, name)
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise DataError(f"{name}: {len(data) - start:,} bytes are not the elements of {list(shape)}")
    with parser_errors(f"{name}: not an IDX file", DataError):  # more dimensions or elements than NumPy has
        return np.frombuffer(data, dtype, offset=start).reshape(shape)


def _idx_header(data: bytes | memoryview, name: str) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return the type, the shape and where the elements begin; DataError."""
    if not is_idx(data):
        raise DataError(f"{name}: not an IDX file: it begins with {data[:4].hex(' ')}")
    dimensions = data[3]
    start = 4 + 4 * dimensions
    if len(data) < start:
        raise DataError(f"{name}: not an IDX file: it ends in its header")
    return np.dtype(IDX_TYPES[data[2]]), struct.unpack_from(f">{dimensions}I", data, 4), start


def read_idx(path: Path | Url, labels: Path | None, largest: int = LARGEST_DATA) -> DataSet:
    """Read images and labels of IDX files, which may be compressed by gzip; DataError, ExtraError.

    Where `labels` is None they are in the file of the same name with `labels` in place of `images`. `largest`
    is what the data may take in memory, in bytes.
    """
    path_of_labels = labels or _beside(path)
    if path_of_labels is None:
        raise DataError(f"{printable(str(path))}: its labels are in another file: name it with --labels")
    allowed = Allowance(str(path), largest)
    data, label_data = (_idx_bytes(each, allowed) for each in (path, path_of_labels))
    images, found = (
        parse_idx(each, printable(str(place))) for each, place in ((data, path), (label_data, path_of_labels))
    )
    allowed.take(found.size * LABEL_BYTES)
    _check_lengths(printable(str(path)), found, {"x": images})
    digest = hashlib.sha256(data)
    digest.update(label_data)
    numbers = found if found.dtype.kind == "f" else found.astype(np.int64)
    return DataSet(readable_name(str(path)), "idx", numbers, digest.hexdigest(), (images,))


def _beside(path: Path | Url) -> Path | Url | None:
    """Return the file of labels that goes with one of images, as those of MNIST are named."""
    name = path.name.replace("images", "labels")
    places = [path.with_name(each) for each in (name.replace("idx3", "idx1"), name)]
    return next((each for each in places if each != path and _is_there(each)), None)


def _is_there(path: Path | Url) -> bool:
    return is_file(path) if isinstance(path, Url) else path.is_file()


def _idx_bytes(path: Path | Url, allowed: Allowance) -> bytes | memoryview:
    """Return the content of a file: mapped, or unpacked if it is compressed; DataError, ExtraError."""
    name = printable(str(path))
    with opened_data(path) as file:
        data = mapped(file)
        if bytes(data[:2]) != GZIP:
            return data
        with parser_errors(f"{name}: not a file of gzip's", DataError):
            unpacked = _Unpacked(file)
            head = unpacked.read(_IDX_HEADER)
            size = idx_size(head, name)
            allowed.take(size)
            whole = bytearray(size)
            whole[: len(head)] = head[:size]
            if len(head) > size or not _filled(memoryview(whole)[len(head) :], unpacked):
                raise DataError(f"{name}: its bytes are not those of its shape")
    return memoryview(whole).toreadonly()


class _Unpacked:
    """What a file becomes that is compressed by gzip; zlib.error and EOFError where it is damaged."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._unpack = zlib.decompressobj(wbits=_GZIP_BITS)

    def read(self, size: int) -> bytes:
        """Return as many bytes, fewer only at the end."""
        found = b""
        while len(found) < size and not self._unpack.eof:
            data = self._unpack.unconsumed_tail or self._file.read(PIECE)
            found += self._unpack.decompress(data, size - len(found))
            if not data and not self._unpack.eof:
                raise EOFError("it ends too early")
        return found


def digits_data(name: str) -> DataSet:
    """Return the shipped digits as inputs of their network: `digits`, or with `digits:all` those of training.

    `name` is one of these two; the 397 test images come first.
    """
    chosen = digits.test_images() + (digits.training_images() if name == "digits:all" else ())
    images = np.frombuffer(b"".join(each.image for each in chosen), np.int8)
    labels = np.array([each.label for each in chosen], np.int64)
    shape = (len(chosen), digits.IMAGE_SIDE, digits.IMAGE_SIDE, 1)
    training = len(chosen) - len(digits.test_images())
    note = f"{training:,} of the {len(chosen):,} digits are those that the network was trained on"
    return DataSet(
        name,
        "digits",
        labels,
        hashlib.sha256(images.tobytes() + labels.astype("<i8").tobytes()).hexdigest(),
        (images.reshape(shape),),
        note=note if training else "",
    )
