"""Hashes of the files of a folder: what was written is compared before it is used.

A file that is made while a run goes on has its hash beside it, in a file of the same name that ends in
`.sha256`, written after it: without one it is not whole. All others are listed in `files.sha256`, which is
written last. Both are as `sha256sum` writes them, and its option `--check` reads them.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.values.regular_file import read_regular
from aisrv.values.whole_file import write_among_many, write_whole

ENDING: Final = ".sha256"
LIST_FILE: Final = "files.sha256"

_LINE: Final = re.compile(rb"([0-9a-f]{64})  ([\w./-]+)\n", re.ASCII)


class HashError(EvaluateError):
    """A file that is not as it was written, or of which nobody knows whether it is."""


def sha256(content: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


# Files with their hash beside them.


def hash_path(path: Path) -> Path:
    """Return where the hash of a file is, or will be."""
    return path.with_suffix(ENDING)


def write_hashed(path: Path, content: bytes) -> None:
    """Write a file, which is on the disk before its hash is there; OSError."""
    write_among_many(path, [content], durable=True)
    write_hash(path, content)


def write_hash(path: Path, content: bytes) -> None:
    """Write the hash of a file, with which it is whole; OSError.

    It need not be on the disk: what has lost its hash is made again.
    """
    write_among_many(hash_path(path), [_line(path.name, content)])


def read_hashed(path: Path) -> bytes:
    """Return a file that is as it was written; HashError."""
    content, expected = _read(path), _read_hash(path)
    if expected != _line(path.name, content):
        raise HashError(f"{path} is not as it was written")
    return content


def is_hashed(path: Path) -> bool:
    """Return whether a file is there, as it was written."""
    try:
        read_hashed(path)
    except HashError:
        return False
    return True


def disown(path: Path) -> None:
    """Remove the hash of a file, which is to be made again; OSError."""
    hash_path(path).unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except FileNotFoundError:
        raise HashError(f"{path} is missing") from None
    except OSError as error:
        raise HashError(f"{path}: {error.strerror}") from None


def _read_hash(path: Path) -> bytes:
    try:
        return read_regular(hash_path(path))
    except FileNotFoundError:
        raise HashError(f"{path} has no hash") from None
    except OSError as error:
        raise HashError(f"{hash_path(path)}: {error.strerror}") from None


def _line(name: str, content: bytes) -> bytes:
    return f"{sha256(content)}  {name}\n".encode(errors="surrogateescape")


# The list of all others.


def write_list(folder: Path, patterns: Iterable[str]) -> None:
    """List the files of a folder whose paths match some `patterns`, with their hashes; OSError."""
    lines = [_line(name, read_regular(folder / name)) for name in _names(folder, patterns)]
    write_whole(folder / LIST_FILE, lines)


def read_list(folder: Path) -> dict[str, str]:
    """Return the hashes of a folder's files by their paths in it; HashError where its list is no such one."""
    path = folder / LIST_FILE
    try:
        content = read_regular(path)
    except FileNotFoundError:
        raise HashError(
            f"{path} is missing: what wrote the folder did not end, or was an older version; run it again"
        ) from None
    except OSError as error:
        raise HashError(f"{path}: {error.strerror}") from None
    found = {match[2].decode(): match[1].decode() for match in _LINE.finditer(content)}
    if content != b"".join(f"{digest}  {name}\n".encode() for name, digest in found.items()):
        raise HashError(f"{path} is not as it was written")
    return found


def list_problems(folder: Path, patterns: Iterable[str], listed: dict[str, str]) -> dict[str, str]:
    """Return what is wrong with the files of a folder that match some `patterns`, by their paths in it.

    `listed` are their hashes.
    """
    there = set(_names(folder, patterns))
    problems = {name: f"{name} is missing" for name in listed if name not in there}
    for name in sorted(there):
        if name not in listed:
            problems[name] = f"{name} is not listed"
            continue
        try:
            if sha256(_read(folder / name)) != listed[name]:
                problems[name] = f"{name} is not as it was written"
        except HashError as error:
            problems[name] = str(error)
    return problems


def read_listed(folder: Path, name: str) -> bytes:
    """Return a file of a folder that is as its list says; HashError."""
    content, listed = _read(folder / name), read_list(folder)
    if sha256(content) != listed.get(name):
        raise HashError(f"{folder / name} is not as it was written: run it again")
    return content


def _names(folder: Path, patterns: Iterable[str]) -> Iterator[str]:
    found: Sequence[Path] = [path for pattern in patterns for path in folder.glob(pattern)]
    yield from sorted(path.relative_to(folder).as_posix() for path in found if path.is_file())
