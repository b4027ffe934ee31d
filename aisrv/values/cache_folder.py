"""The folder in which what can be made anew is kept between runs."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return `aisrv` in the user's folder of caches (XDG Base Directory). RuntimeError without a home."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root, "aisrv")
