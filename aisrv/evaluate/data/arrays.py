"""Arrays of examples: `.npz` files of NumPy, IDX files as of MNIST, and the digits that aisrv brings.

The arrays of an `.npz` file that are stored as they are get mapped, not read: a run copies no byte of them.
One that lies elsewhere is read into memory.
IDX: http://yann.lecun.com/exdb/mnist, section "The IDX file format": big-endian, two zero bytes, a type, the
number of dimensions and their extents as 32-bit words.
"""

import gzip
import hashlib
import io
import math
import mmap
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from aisrv import digits
from aisrv.evaluate.data.data_set import Array, DataSet
from aisrv.evaluate.data.files import read_whole
from aisrv.evaluate.data.mapped_rows import MappedRows
from aisrv.evaluate.data.urls import Url, is_file, read_url
from aisrv.evaluate.errors import DataError
from aisrv.values.regular_file import ANY_SIZE, LARGEST_FILE, opened_regular
from host_tools.tensors.npy import npy_header

IDX_TYPES: Final = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
"""Types of the elements of IDX files, by code."""

RECORDING: Final = "recording"

_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")


def read_npz(path: Path | Url) -> DataSet:
    """Read an archive with `x`, or `x0`, `x1` and so on, or an array named as each input, and labels `y`.

    An array RECORDING says of each example which recording it is a window of. Raises DataError.
    """
    try:
        with _content(path) as (file, memory), zipfile.ZipFile(file) as archive:
            members = {
                each.filename.removesuffix(".npy"): each
                for each in archive.infolist()
                if each.filename.endswith(".npy")
            }
            if "y" not in members or len(members) < 2:
                found = ", ".join(members) or "no array"
                raise DataError(f"{path} has {found}; it must have examples x and labels y")
            read = {name: _member(archive, memory, each) for name, each in members.items()}
            arrays = {name: array for name, (array, _) in read.items()}
            checks = [f"{name} {each.CRC:08x} {each.file_size}" for name, each in members.items()]
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DataError(f"{path}: not an archive of arrays that can be read ({error})") from None
    labels = arrays.pop("y")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    _check_lengths(str(path), labels, arrays)
    recordings = arrays.pop(RECORDING, None)
    if recordings is not None:
        if recordings.ndim != 1 or not arrays:
            raise DataError(f"{path}: {RECORDING} has one number for each example, beside x and y")
        recordings = np.unique(recordings, return_inverse=True)[1]
    names = tuple(sorted(arrays))
    digest = hashlib.sha256("\n".join(sorted(checks)).encode()).hexdigest()
    is_single = len(names) == 1
    place = read[names[0]][1] if is_single else None
    return DataSet(
        str(path),
        "npz",
        labels,
        digest,
        tuple(arrays[name] for name in names),
        array_names=() if is_single else names,
        mapped=None if place is None or isinstance(path, Url) else MappedRows(path, place),
        recordings=recordings,
    )


@contextmanager
def _content(path: Path | Url) -> Iterator[tuple[BinaryIO, memoryview]]:
    """Provide a file and its bytes: mapped, or read where it lies elsewhere; OSError, DataError."""
    if isinstance(path, Url):
        data = read_url(path)
        yield io.BytesIO(data), memoryview(data)
        return
    with opened_regular(path, ANY_SIZE) as file:
        yield file, memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _member(
    archive: zipfile.ZipFile, memory: memoryview, member: zipfile.ZipInfo
) -> tuple[Array, int | None]:
    """Map an array that is stored as it is, and say where; read one that is compressed."""
    start = None
    if member.compress_type != zipfile.ZIP_STORED:
        if member.file_size > LARGEST_FILE:
            raise ValueError(f"{member.filename} has {member.file_size:,} bytes: store it uncompressed")
        data: bytes | memoryview = archive.read(member)
        file = io.BytesIO(data)
    else:
        signature, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack_from(memory, member.header_offset)
        if signature != b"PK\3\4":
            raise ValueError(f"{member.filename} is not where the archive says")
        start = member.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
        data = memory[start : start + member.file_size]
        file = io.BytesIO(data[: 1 << 16])
    shape, in_columns, dtype = npy_header(file)
    if dtype.hasobject:
        raise ValueError(f"{member.filename} holds Python objects")
    if in_columns and len(shape) > 1:
        raise ValueError(f"{member.filename} is in Fortran order: save it in C order")
    if math.prod(shape) * dtype.itemsize > len(data) - file.tell():
        raise ValueError(f"{member.filename} has fewer bytes than its shape {shape}")
    place = None if start is None else start + file.tell()
    return np.ndarray(shape, dtype, data, file.tell()), place


def _check_lengths(uri: str, labels: Array, arrays: dict[str, Array]) -> None:
    if labels.ndim != 1:
        raise DataError(f"{uri}: labels have the shape {list(labels.shape)}, one for each example is wanted")
    for name, array in arrays.items():
        if array.shape[:1] != labels.shape:
            length = array.shape[0] if array.ndim else "no"
            raise DataError(f"{uri}: {name} has {length} examples, y has {len(labels)} labels")
    if not len(labels):
        raise DataError(f"{uri}: no examples")


def is_idx(data: bytes) -> bool:
    """Whether `data` begin as an IDX file does."""
    return len(data) > 4 and data[:2] == b"\0\0" and data[2] in IDX_TYPES and 0 < data[3] <= 8


def parse_idx(data: bytes, name: str) -> Array:
    """Return the array of an IDX file, which `name` is for messages; DataError."""
    if not is_idx(data):
        raise DataError(f"{name}: not an IDX file: it begins with {data[:4].hex(' ')}")
    dtype, dimensions = np.dtype(IDX_TYPES[data[2]]), data[3]
    if len(data) < 4 + 4 * dimensions:
        raise DataError(f"{name}: not an IDX file: it ends in its header")
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    start = 4 + 4 * dimensions
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise DataError(f"{name}: {len(data) - start:,} bytes are not the elements of {list(shape)}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def read_idx(path: Path | Url, labels: Path | None) -> DataSet:
    """Read images and labels of IDX files, which may be compressed by gzip; DataError.

    Where `labels` is None they are in the file of the same name with `labels` in place of `images`.
    """
    path_of_labels = labels or _beside(path)
    if path_of_labels is None:
        raise DataError(f"{path}: its labels are in another file: name it with --labels")
    data, label_data = (_unpacked(each) for each in (path, path_of_labels))
    images, found = parse_idx(data, str(path)), parse_idx(label_data, str(path_of_labels))
    _check_lengths(str(path), found, {"x": images})
    digest = hashlib.sha256(data + label_data).hexdigest()
    return DataSet(str(path), "idx", found.astype(np.int64), digest, (images,))


def _beside(path: Path | Url) -> Path | Url | None:
    """Return the file of labels that goes with one of images, as those of MNIST are named."""
    name = path.name.replace("images", "labels")
    places = [path.with_name(each) for each in (name.replace("idx3", "idx1"), name)]
    return next((each for each in places if each != path and _is_there(each)), None)


def _is_there(path: Path | Url) -> bool:
    return is_file(path) if isinstance(path, Url) else path.is_file()


def _unpacked(path: Path | Url) -> bytes:
    """Return the bytes of a file, which may be compressed by gzip, up to LARGEST_FILE."""
    data = read_whole(path)
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        with gzip.open(io.BytesIO(data)) as unpacked:
            data = unpacked.read(LARGEST_FILE + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > LARGEST_FILE:
        raise DataError(f"{path}: unpacked it has more than {LARGEST_FILE} bytes")
    return data


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
