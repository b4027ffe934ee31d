"""Run another program so that it finds the virtual device where it looks for hardware.

    exit_code = await run_program(["python", "their_program.py"], environment("localhost:3240"))

This serves programs in Python 3.10 or later that use pyusb or spidev, in whatever virtual environment, as
long as Python reads PYTHONPATH: not with `python -I` or `-E`. What the program starts in turn is served, too.
"""

import ctypes
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

import trio

from aisrv.values.heeded_signals import heeded
from host_tools.transports.server_address import check_address

_logger = logging.getLogger(__name__)

INJECTION: Final = Path(__file__).parent / "injection"
"""Directory of the `sitecustomize` that gives a program our pyusb backend and our `spidev`."""

SERVER_VARIABLE: Final = "AISRV_USBIP"
"""Environment variable that names the USB/IP server to that sitecustomize, as HOST:PORT or unix:PATH."""

DEVICE_VARIABLE: Final = "AISRV_DEVICE"
"""Environment variable with the device that our own host tools take, which a user may have set to another."""

SPI_VARIABLE: Final = "AISRV_SPI"
"""Environment variable that names the SPI link server, as HOST:PORT."""

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
BY_SIGNAL: Final = 128
"""Exit codes that shells use (POSIX, "Exit Status for Commands"); a signal's number is added to the last."""

TERMINATION_SECONDS: Final = 5.0
"""Time that a program has to end by itself once it was asked to."""

_PR_SET_PDEATHSIG: Final = 1


def environment(
    address: str, base: Mapping[str, str] = os.environ, spi_address: str | None = None
) -> dict[str, str]:
    """Return the environment of a program that uses the devices of the USB/IP server at `address`.

    AISRV_DEVICE names the server, too. With `spi_address`, `import spidev` gives it the slaves of the SPI
    link server there. `base` is what it would have otherwise. ValueError where an address is malformed.
    """
    check_address(address)
    injection = str(INJECTION)
    others = [entry for entry in base.get("PYTHONPATH", "").split(os.pathsep) if entry not in ("", injection)]
    variables = {
        "PYTHONPATH": os.pathsep.join([injection, *others]),
        SERVER_VARIABLE: address,
        DEVICE_VARIABLE: f"usbip:{address}",
    }
    if spi_address is not None:
        check_address(spi_address)
        variables[SPI_VARIABLE] = spi_address
    return {**base, **variables}


async def run_program(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program with our standard streams; return its exit code as a shell would.

    That is 128 + n for a program that signal n ended, 127 for one that does not exist and 126 for one that
    cannot be executed; the reason for the last two is logged. SIGINT, SIGTERM and SIGHUP are passed on to the
    program meanwhile, so it must be called from the main thread. Cancelled, it terminates the program. Where
    this process is killed, so is the program, on Linux.
    """
    with _passing_signals_on() as pass_on_to:
        try:
            # Not on one of Trio's threads: the kernel takes the end of the thread for that of the parent.
            process = _start(argv, environment)
        except OSError as error:
            _logger.error("cannot run %s: %s", argv[0], error.strerror)
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        pass_on_to(process)
        code = await _wait(process)
    return code if code >= 0 else BY_SIGNAL - code


def _start(argv: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(list(argv), env=environment, preexec_fn=_end_with(os.getpid()))


def _passed_on() -> tuple[signal.Signals, ...]:
    """Return the signals that the program gets, too: without those that were ignored, as it inherits."""
    return heeded(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _end_with(parent: int) -> Callable[[], None] | None:
    """Return what a child does before it becomes the program: it asks to be killed when its parent dies."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we could ask
            os._exit(BY_SIGNAL + signal.SIGKILL)

    return ask


async def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Wait for a program; cancelled, terminate it, and kill it where that takes too long."""
    try:
        return await _exit_code(process)
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            process.terminate()
            with trio.move_on_after(TERMINATION_SECONDS):
                await _exit_code(process)
            process.kill()
            await _exit_code(process)
        raise


async def _exit_code(process: "subprocess.Popen[bytes]") -> int:
    if process.poll() is not None:
        return process.returncode
    if hasattr(os, "pidfd_open"):
        ended = os.pidfd_open(process.pid)
        try:
            await trio.lowlevel.wait_readable(ended)
        finally:
            os.close(ended)
        return process.wait()
    return await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)


@contextmanager
def _passing_signals_on() -> Iterator[Callable[["subprocess.Popen[bytes]"], None]]:
    """Send signals that come to this process to a program; those that come before it is named, then.

    A handler of the signal itself does it: a task would get those too late that come as the program ends,
    as Ctrl-C does, which ends both.
    """
    early: list[int] = []
    program: subprocess.Popen[bytes] | None = None

    def send(number: int) -> None:
        if program is not None and program.returncode is None:
            with suppress(PermissionError):  # it runs as another user now
                os.kill(program.pid, number)

    def handle(number: int, _frame: FrameType | None) -> None:
        if program is None:
            early.append(number)
        elif number != signal.SIGINT or not _in_foreground():
            send(number)  # Ctrl-C: the terminal has sent it to the program, too

    def start(process: "subprocess.Popen[bytes]") -> None:
        nonlocal program
        program = process
        for number in early:
            send(number)

    previous = {number: signal.signal(number, handle) for number in _passed_on()}
    try:
        yield start
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Return whether a terminal sends its signals to our process group, of which the program is a part."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
