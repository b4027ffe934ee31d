"""The configuration that XMOS's library wants of a model, and a way to add it to others.

`xcore-opt` stores it as metadata (`xcore_shared_config.h` of lib_tflite_micro); the library reads it from an
uninitialized pointer if a model lacks it. Offsets of a flatbuffer are relative and point forward, so the file
goes unchanged behind a new root, which refers to what it has and adds the metadata.
"""

import re
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from aisrv.inference.errors import ModelError
from aisrv.model import Model
from aisrv.model.flatbuffer import I32, U16, U32, File, Table
from aisrv.model.schema import FILE_IDENTIFIER
from aisrv.values.regular_file import read_regular

PREFIX: Final = "XC_"
"""Prefix of the names of XMOS's operators."""
NAME: Final = "xcoreSharedConfig"
"""Name of the metadata; the library looks at no more than this beginning of a name."""
ALIGNMENT: Final = 16
"""Bytes to which everything that kernels read in place is aligned in a file."""

_TENSORS: Final = 25
"""Places for tensors in external memory, for inputs and for outputs."""
_CONFIG: Final = struct.Struct(f"<13I{2 * _TENSORS * 12}x")
_THREADS: Final = 5
"""Most threads that the library runs a model on."""
_ROOT_FIELDS: Final = (4, 8, 12, 0, 16, 0, 20)
"""Offsets of a table's fields, by slot: version, operator codes, subgraphs, buffers, metadata."""
_METADATA_FIELDS: Final = (4, 8)
"""Offsets of name and number of the buffer."""
_BUFFER_FIELDS: Final = (4,)
"""Offset of data."""

_VERSION: Final = re.compile(r"(major|minor|patch)_version\s*=\s*(\d+)")


def with_config(data: bytes, model: Model, package: Path) -> bytes:
    """Return a model file with the configuration for the library in `package`. Raises ModelError."""
    configs = [metadata.data for metadata in model.metadata if metadata.name.startswith(NAME)]
    for config in configs:
        _check(config, new_config(package))
    if configs:
        return data
    _check_operators(model)
    return _add_config(data, new_config(package))


def _check_operators(model: Model) -> None:
    """Refuse XMOS's operators of a version that is not known: the library reads their options as its own."""
    for operator in model.operators:
        if operator.name.startswith(PREFIX):
            raise ModelError(
                f"operator {operator.index} ({operator.name}) was made for another version of XMOS's "
                f"library, older than the metadata {NAME}, which would name it: convert the model again"
            )


def _check_version(library: str, made_for: Sequence[int], present: Sequence[int]) -> None:
    """Compare major and minor numbers, as the library does itself, with a better message."""
    if made_for[:2] != present[:2]:
        numbers = [".".join(map(str, version)) for version in (made_for, present)]
        raise ModelError(
            f"the model was made for another version of XMOS's library: {library} {numbers[0]}, "
            f"this is {numbers[1]}: convert the model again"
        )


def _check(config: bytes, present: bytes) -> None:
    """Refuse a configuration that the library, with its own `present`, would crash on."""
    if len(config) < _CONFIG.size:
        raise ModelError(f"the metadata {NAME} has {len(config)} bytes of {_CONFIG.size}")
    architecture, *versions, threads, inputs, outputs = _CONFIG.unpack_from(config)
    if architecture > 1:
        raise ModelError(f"the model is for architecture {architecture}, which the library does not know")
    _, *library, _, _, _ = _CONFIG.unpack_from(present)
    _check_version("lib_nn", versions[:3], library[:3])
    _check_version("lib_tflite_micro", versions[3:6], library[3:6])
    if not 1 <= threads <= _THREADS:
        raise ModelError(f"the model was converted for {threads} threads: there are 1 to {_THREADS}")
    if inputs or outputs:
        raise ModelError(
            f"{inputs} inputs and {outputs} outputs of the model are in external memory, where hosts do not "
            "reach them: convert it without --xcore-load-input-tensors-externally and "
            "--xcore-store-output-tensors-externally"
        )


@cache
def new_config(package: Path) -> bytes:
    """Return the configuration of a model for one thread without XMOS's operators; read once from files."""
    include = package / "runtime" / "include"
    kernels = _version(include / "lib_nn" / "api" / "version.h")
    library = _version(include / "lib_tflite_micro" / "api" / "version.h")
    return _CONFIG.pack(0, *kernels, *library, 0, 0, 0, 1, 0, 0)


def _version(header: Path) -> list[int]:
    """Read the version of a library: it refuses models that were made for another."""
    numbers = dict(_VERSION.findall(read_regular(header).decode()))
    return [int(numbers[part]) for part in ("major", "minor", "patch")]


def _add_config(data: bytes, config: bytes) -> bytes:
    root = File(data).root
    buffers = _elements(root, "buffers")
    for number, buffer in enumerate(root.tables("buffers", "buffer")):
        if buffer.integer("offset") > 1:
            raise ModelError(f"buffer {number} lies behind the model, which the library does not support")

    front = _Front(data)
    front.add(b"\0\0\0\0" + FILE_IDENTIFIER)
    model = front.add_table(_ROOT_FIELDS, 24)
    front.point(0, model)
    front.write(model + 4, U32.pack(root.integer("version")))
    front.refer(model + 8, _target(root, "operator_codes", "operator codes"))
    front.refer(model + 12, _target(root, "subgraphs", "subgraphs"))
    new_buffer = front.add_vector(model + 16, buffers)
    new_metadata = front.add_vector(model + 20, _elements(root, "metadata"))

    metadata = front.add_table(_METADATA_FIELDS, 12)
    front.point(new_metadata, metadata)
    front.point(metadata + 4, front.add(U32.pack(len(NAME)) + NAME.encode() + b"\0", align=4))
    front.write(metadata + 8, U32.pack(len(buffers)))

    holder = front.add_table(_BUFFER_FIELDS, 8)
    front.point(new_buffer, holder)
    front.add(b"", align=ALIGNMENT)
    front.add(bytes(ALIGNMENT - 4))  # so that the data behind the length are aligned
    front.point(holder + 4, front.add(U32.pack(len(config)) + config))
    return front.join()


def _target(root: Table, name: str, what: str) -> int:
    """Return the position of a vector in the old file: that of its length."""
    start, count = root.vector(name)
    if not count:
        raise ModelError(f"the model has no {what}")
    return start - U32.size


def _elements(root: Table, name: str) -> list[int]:
    """Return the positions of the tables in a vector of the old file."""
    start, count = root.vector(name)
    return [at + root.file.integer(U32, at, root.where) for at in range(start, start + 4 * count, 4)]


class _Front:
    """The bytes in front of a file; references to the file are resolved once its position is known."""

    def __init__(self, old: bytes) -> None:
        self._old = old
        self._new = bytearray()
        self._references: list[tuple[int, int]] = []

    @property
    def end(self) -> int:
        return len(self._new)

    def add(self, data: bytes, align: int = 1) -> int:
        """Append bytes at a multiple of `align`; return their position."""
        self._new += bytes(-len(self._new) % align)
        self._new += data
        return len(self._new) - len(data)

    def add_table(self, fields: Sequence[int], size: int) -> int:
        """Append the list of a table's fields, and an empty table of `size` bytes."""
        entries = (4 + 2 * len(fields), size, *fields)
        listed = self.add(b"".join(map(U16.pack, entries)), align=2)
        table = self.add(bytes(size), align=4)
        self.write(table, I32.pack(table - listed))
        return table

    def add_vector(self, at: int, olds: Sequence[int]) -> int:
        """Append the vector at `at` with a new table behind the old ones; return where its offset goes."""
        self.point(at, self.add(U32.pack(len(olds) + 1), align=4))
        for old in olds:
            self.refer(self.add(bytes(4)), old)
        return self.add(bytes(4))

    def write(self, at: int, data: bytes) -> None:
        self._new[at : at + len(data)] = data

    def point(self, at: int, target: int) -> None:
        """Have the offset at `at` lead to `target`, both in front."""
        self.write(at, U32.pack(target - at))

    def refer(self, at: int, old: int) -> None:
        """Have the offset at `at` lead to a position of the old file."""
        self._references.append((at, old))

    def join(self) -> bytes:
        """Append the old file."""
        self.add(b"", align=ALIGNMENT)
        for at, old in self._references:
            self.point(at, self.end + old)
        return bytes(self._new) + self._old
