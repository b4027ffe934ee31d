"""JSON with its own hash in it: one file, which others may replace while it is read."""

import json
from collections.abc import Mapping
from typing import Any, Final

from aisrv.addons.evaluate.folder.hashes import HashError, sha256

SEAL: Final = "sha256"
"""Key of the hash of what the file would be without it."""


def seal(values: Mapping[str, Any]) -> bytes:
    """Return values as the bytes of their file."""
    return _dumped({**values, SEAL: sha256(_dumped(values))})


def unseal(data: bytes) -> dict[str, Any]:
    """Return the values of a file; HashError where it is not, to the byte, as `seal` made it."""
    try:
        values = json.loads(data)
        del values[SEAL]
        whole = seal(values) == data
    except (ValueError, TypeError, KeyError, RecursionError):
        whole = False
    if not whole:
        raise HashError("not as it was written")
    found: dict[str, Any] = values
    return found


def _dumped(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True).encode()
