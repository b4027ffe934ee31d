"""XMOS's public sources, which are no part of this project: checkouts that the environment names."""

import os
from pathlib import Path

import pytest

SOURCES = "AISRV_XMOS_SOURCES"
"""A folder that holds checkouts by the names of their repositories."""


def xmos_checkout(repository: str) -> Path:
    """Return the checkout of a repository by its name; skip the test without it."""
    root = os.environ.get(SOURCES)
    if root is None:
        pytest.skip(f"{SOURCES} names no folder with a checkout of {repository}")
    found = Path(root) / repository
    if not found.is_dir():
        pytest.skip(f"{found} is not there")
    return found
