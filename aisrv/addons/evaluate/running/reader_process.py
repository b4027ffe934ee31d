"""The process that makes rows of files: it reads, decodes and writes them into memory that it is given.

It reads frames from a socket, four bytes of length and MessagePack: first how rows are made, then one job
after another; it answers each with what became of its files. The end of the socket ends it.
"""

import ctypes
import hashlib
import mmap
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from aisrv.addons.evaluate.data.urls import Url, read_url, source_of
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.inputs.preparation import Preparation
from aisrv.addons.evaluate.inputs.settings import InputSettings
from aisrv.addons.evaluate.running.answers import DIGEST_BYTES
from aisrv.values.regular_file import read_regular
from host_tools.tensors.tensor_spec import TensorSpec

LENGTH: Final = struct.Struct("<I")
"""The start of a frame."""
LARGEST_EXAMPLE: Final = 96 << 20
"""Bytes of a file that is one example."""

_PR_SET_PDEATHSIG: Final = 1


class Setup(msgspec.Struct, frozen=True):
    """How rows are made, and the memory that they go to."""

    specs: tuple[TensorSpec, ...]
    settings: tuple[InputSettings, ...]
    rows: int
    row_bytes: int


class ReadJob(msgspec.Struct, frozen=True):
    """Files, by path or address or by their contents, and the row that the first one goes to."""

    into: int
    files: tuple[bytes, ...]
    are_named: bool


class RowRead(msgspec.Struct, frozen=True):
    """What became of a file: the start of its SHA-256, and why it is no example, or nothing."""

    digest: bytes
    failure: str = ""


def read_row(preparation: Preparation, source: Path | Url | bytes) -> tuple[bytes, RowRead]:
    """Return the row of an example, no bytes where it fails, and what became of its file.

    `source` is the file's path, its address or its content.
    """
    try:
        data = _content(source)
    except OSError as error:
        return b"", RowRead(bytes(DIGEST_BYTES), error.strerror or str(error))
    except EvaluateError as error:
        return b"", RowRead(bytes(DIGEST_BYTES), str(error))
    digest = hashlib.sha256(data).digest()[:DIGEST_BYTES]
    try:
        return preparation.file_row(data), RowRead(digest)
    except EvaluateError as error:
        return b"", RowRead(digest, str(error))
    except MemoryError:
        return b"", RowRead(digest, "it takes too much memory")


def _content(source: Path | Url | bytes) -> bytes:
    """Return the bytes of a file; OSError, EvaluateError."""
    if isinstance(source, bytes):
        return source
    if isinstance(source, Url):
        return read_url(source, LARGEST_EXAMPLE)
    return read_regular(source, LARGEST_EXAMPLE)


def main(arguments: list[str]) -> None:
    """Serve a parent; `arguments` are the descriptors of the socket and the memory, and the parent's id."""
    control, memory, parent = map(int, arguments)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    with socket.socket(fileno=control) as stream, stream.makefile("rwb") as frames:
        setup = msgspec.msgpack.decode(_frame(frames.read), type=Setup)
        preparation = Preparation(setup.specs, setup.settings)
        rows = np.frombuffer(mmap.mmap(memory, setup.rows * setup.row_bytes), np.uint8)
        rows = rows.reshape(setup.rows, setup.row_bytes)
        while frame := _frame(frames.read):
            job = msgspec.msgpack.decode(frame, type=ReadJob)
            found = []
            for number, file in enumerate(job.files):
                row, read = read_row(preparation, source_of(os.fsdecode(file)) if job.are_named else file)
                rows[job.into + number] = np.frombuffer(row, np.uint8) if row else 0
                found.append(read)
            answer = msgspec.msgpack.encode(found)
            frames.write(LENGTH.pack(len(answer)) + answer)
            frames.flush()


def _frame(read: Callable[[int], bytes]) -> bytes:
    head = read(LENGTH.size)
    return read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""


if __name__ == "__main__":
    main(sys.argv[1:])
