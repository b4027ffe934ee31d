"""Files that appear whole or not at all: all that the product writes for users, but for recordings."""

import os
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file that takes the place of an old one when it is complete; OSError with `path` where not.

    Until then the bytes are in a file beside it, which is removed on any error. What is not a regular file,
    like /dev/null or a pipe, is written as it is.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name[:200]}.{os.urandom(4).hex()}.part")
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                file.writelines(chunks)
            return
        try:
            with beside.open("xb") as file:
                file.writelines(chunks)
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        # A write that fails names no file; an error of `chunks` may name another.
        if error.filename is None or Path(error.filename) in (beside, target):
            error.filename, error.filename2 = str(path), None
        raise
