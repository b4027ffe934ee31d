"""Models that the project does not ship: a benchmark says which are missing, and goes on without them."""

import sys
from types import ModuleType

import pytest


def at_hand(source: ModuleType, *names: str) -> dict[str, bytes]:
    """Return the models of a module such as `tests.support.peers.mlperf_tiny` that are there, by name.

    A line on standard error names each other one, where it was looked for, and the variable with its folder.
    """
    found = {}
    for name in names:
        try:
            found[name] = source.model_bytes(name)
        except pytest.skip.Exception as missing:  # what these modules do in a test
            print(f"left out: {missing}", file=sys.stderr)
    return found
