"""The trial of umockdev's library: a small program makes each kind of call, before any other is served.

A success is remembered among the user's caches, with the library's file. The next start does without the
trial, as long as that file is the same and would be found in the same way.
"""

import errno
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import trio

from aisrv.attach.preload.tree import usb_place
from aisrv.attach.preload.wire import PACKAGE
from aisrv.values.cache_folder import cache_folder
from aisrv.values.whole_file import write_whole

logger = logging.getLogger(__name__)

FIRST_DEVICE: Final = 2
"""First device number after the root hub's."""

_SECONDS: Final = 20.0
_SEARCH_VARIABLES: Final = ("LD_PRELOAD", "LD_LIBRARY_PATH")
"""Variables that say where the library is looked for."""


class PreloadError(Exception):
    """Preload is impossible on this machine."""


class PreloadMissingError(PreloadError):
    """The library is not installed, or this Python cannot be preloaded."""

    def __init__(self, library: str) -> None:
        super().__init__(f"{library} is not installed; install the package {PACKAGE}")


class Trial(NamedTuple):
    """A small program, and its output with a working library."""

    name: str
    program: str
    answer: str


_START: Final = """
import fcntl, os, sys
library = [line.split()[-1] for line in open("/proc/self/maps") if {library!r} in line]
if not library:
    sys.exit("absent")
def refused(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return error.errno
"""

USB_TRIAL: Final = Trial(
    "usb",
    f"""
fd = os.open("/dev/{usb_place(FIRST_DEVICE, 1).node}", os.O_RDWR)
capabilities = bytearray(4)
fcntl.ioctl(fd, 0x8004551A, capabilities)
interface = (255).to_bytes(4, sys.byteorder)
released = refused(fcntl.ioctl, fd, 0x80045510, interface)
print(fcntl.ioctl(fd, 0x551F), capabilities[0], released, os.read(fd, 4).hex())
print(library[0])
""",
    f"3 13 {errno.EINVAL} 12010002",
)
"""Speed, capabilities (memory written), an interface that is not there released (memory read), a read."""

SPI_TRIAL: Final = Trial(
    "spi",
    """
fd = os.open("/dev/spidev0.0", os.O_RDWR)
bits = bytearray(1)
fcntl.ioctl(fd, 0x80016B03, bits)
print(bits[0], refused(fcntl.ioctl, fd, 0x40046B04, bytes(4)), refused(os.write, fd, bytes(4097)))
print(library[0])
""",
    f"8 {errno.EINVAL} {errno.EMSGSIZE}",
)
"""Word size (memory written), a speed of 0 (memory read), a write that is too long. It clocks nothing."""


async def try_library(library: str, trial: Trial, environment: Mapping[str, str]) -> None:
    """Run a trial, unless it succeeded with the same library before. Raises PreloadError."""
    if _is_remembered(trial, environment):
        return
    start = _START.format(library=library.split(".", maxsplit=1)[0])
    with trio.move_on_after(_SECONDS) as patience:
        done = await trio.run_process(
            [sys.executable, "-I", "-S", "-c", start + trial.program],
            env=environment,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    if patience.cancelled_caught:
        raise PreloadError(f"{library} did not end a trial call; its protocol is unknown")
    complaint = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    if complaint == "absent":
        raise PreloadMissingError(library)
    answer, _, path = done.stdout.decode(errors="replace").strip().partition("\n")
    if done.returncode or answer != trial.answer:
        raise PreloadError(
            f"{library} speaks another protocol than that of {PACKAGE} 0.16 to 0.19: "
            f"a trial program ended with {done.returncode} and {answer or complaint!r}"
        )
    _remember(trial, environment, path)


def forget_trials() -> None:
    """Have the next start try the library again."""
    for trial in (USB_TRIAL, SPI_TRIAL):
        _note(trial).unlink(missing_ok=True)


def _note(trial: Trial) -> Path:
    """Return the file that records a successful trial."""
    return cache_folder() / f"umockdev-{trial.name}"


def _is_remembered(trial: Trial, environment: Mapping[str, str]) -> bool:
    try:
        path, _, known = _note(trial).read_text().partition("\n")
        return known == _identity(path, environment)
    except (OSError, ValueError, RuntimeError):  # no note, none of ours, or nobody's home
        return False


def _remember(trial: Trial, environment: Mapping[str, str], path: str) -> None:
    try:
        note = _note(trial)
        note.parent.mkdir(parents=True, exist_ok=True)
        write_whole(note, [f"{path}\n{_identity(path, environment)}".encode()])
    except (OSError, RuntimeError) as error:
        logger.debug("the next start tries the library again: %s", error)


def _identity(path: str, environment: Mapping[str, str]) -> str:
    status = os.stat(path)  # noqa: PTH116 - some of what it holds
    file = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return repr((*file, *(environment.get(name, "") for name in _SEARCH_VARIABLES)))
