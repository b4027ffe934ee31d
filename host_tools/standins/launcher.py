"""Run another program so that it finds the virtual device where it looks for hardware.

    exit_code = await run_program(["python", "their_program.py"], environment("localhost:3240"))

This serves programs in Python 3.10 or later that use pyusb or spidev, in whatever virtual environment, as
long as Python reads PYTHONPATH: not with `python -I` or `-E`. What the program starts in turn is served, too.
"""

import logging
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from host_tools.server_address import check_address, parse_address

_logger = logging.getLogger(__name__)

INJECTION: Final = Path(__file__).parent / "injection"
"""Directory of the `sitecustomize` that gives a program our pyusb backend and our `spidev`."""

SERVER_VARIABLE: Final = "AISRV_USBIP"
"""Environment variable that names the USB/IP server to that sitecustomize, as HOST:PORT or unix:PATH."""

SPI_VARIABLE: Final = "AISRV_SPI"
"""Environment variable that names the SPI link server, as HOST:PORT."""

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
BY_SIGNAL: Final = 128
"""Exit codes that shells use (POSIX, "Exit Status for Commands"); a signal's number is added to the last."""


def environment(
    address: str, base: Mapping[str, str] = os.environ, spi_address: str | None = None
) -> dict[str, str]:
    """Return the environment of a program that uses the devices of the USB/IP server at `address`.

    With `spi_address`, `import spidev` gives it the slaves of the SPI link server there, too. `base` is what
    it would have otherwise. ValueError where an address is none.
    """
    check_address(address)
    injection = str(INJECTION)
    others = [entry for entry in base.get("PYTHONPATH", "").split(os.pathsep) if entry not in ("", injection)]
    variables = {"PYTHONPATH": os.pathsep.join([injection, *others]), SERVER_VARIABLE: address}
    if spi_address is not None:
        parse_address(spi_address)
        variables[SPI_VARIABLE] = spi_address
    return {**base, **variables}


async def run_program(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program with our standard streams; return its exit code as a shell would.

    That is 128 + n for a program that signal n ended, 127 for one that does not exist and 126 for one that
    cannot be executed; the reason for the last two is logged. SIGINT and SIGTERM are passed on to the
    program meanwhile, so it must be called from the main thread. Cancelled, it terminates the program.
    """
    # Outside the nursery, so that the receiver outlives the task that reads it.
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            try:
                process = await nursery.start(
                    partial(trio.run_process, list(argv), env=environment, stdin=None, check=False)
                )
            except OSError as error:
                _logger.error("cannot run %s: %s", argv[0], error.strerror)
                return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            nursery.start_soon(_pass_on, signals, process)
            code: int = await process.wait()
            nursery.cancel_scope.cancel()
    return code if code >= 0 else BY_SIGNAL - code


async def _pass_on(signals: AsyncIterator[int], process: trio.Process) -> None:
    async for number in signals:
        if number == signal.SIGINT and _in_foreground():
            continue  # Ctrl-C: the terminal has sent it to the program, too
        process.send_signal(number)


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
