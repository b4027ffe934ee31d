"""The certificate of `aisrv fleet up`: with it this user's programs reach the cluster, and nobody else's do.

It lies in a directory of mode 0700 below the user's runtime directory, as long as the cluster runs. Whoever
has the file is let in: it has the key, too, and vouches for itself.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from aisrv.values.private_directory import held_directories, private_directory

RUNTIME_VARIABLE: Final = "XDG_RUNTIME_DIR"
"""Names the directory of a user's sockets and the like (XDG Base Directory Specification)."""


@contextmanager
def certificate_folder() -> Iterator[Path]:
    """Make the directory of a certificate, which goes with this process; OSError."""
    with private_directory(parent=_runtime_folder()) as folder:
        yield folder


def certificate_path(folder: Path, port: int) -> Path:
    """Return the path of the certificate, with its key, of the scheduler at a TCP port."""
    return folder / f"fleet-{port}.pem"


def find_certificate(port: int) -> Path | None:
    """Return the certificate, with its key, of this user's scheduler at a TCP port; None without one."""
    # A program may have been started without the variable, as in another session.
    places = {_runtime_folder(): None, tempfile.gettempdir(): None, "/tmp": None}  # noqa: S108 - private ones
    for place in filter(None, places):
        for folder in held_directories(Path(place)):
            path = certificate_path(folder, port)
            if path.is_file():
                return path
    return None


def _runtime_folder() -> str | None:
    """Return the user's runtime directory; None where there is none, or no room for this user."""
    place = os.environ.get(RUNTIME_VARIABLE, "")
    return place if Path(place).is_absolute() and os.access(place, os.W_OK | os.X_OK) else None
