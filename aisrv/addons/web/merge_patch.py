"""JSON merge patches (RFC 7396): what has changed between two objects."""

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the patch that makes `now` of `before`; None where nothing has changed.

    A member that is gone is null in a patch, so that no member of an object may be None. Arrays go whole.
    """
    changes: dict[str, Any] = dict.fromkeys(before.keys() - now.keys())
    for key, value in now.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            inner = None if value is old else merge_patch(old, value)
            if inner is not None:
                changes[key] = inner
        elif value != old:
            changes[key] = value
    return changes or None
