"""Logging of the long-running commands: to standard error, as loud as asked."""

import io
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from aisrv.monitor.loop_watch import LoopWatch

from aisrv.terminal.log_writer import LogWriter

verbose_option = click.option(
    "-v", "--verbose", count=True, help="Log to standard error; twice for every detail."
)


def start_logging(verbose: int) -> None:
    """Show warnings, with `-v` the debug log and connections, with `-vv` everything.

    The logging code never waits for standard error, whatever that is.
    """
    level = [logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)]
    handler = _handler()
    handler.setLevel(level)  # pages have lower levels, which are not for here
    logging.basicConfig(
        level=level,
        handlers=[handler],
        format="%(asctime)s %(name)s: %(message)s",
    )


def loop_watches(verbose: int) -> "list[LoopWatch]":
    """Return the instruments to run Trio with: with `-v` one that logs long turns of the event loop."""
    if not verbose:
        return []
    from aisrv.monitor.loop_watch import LoopWatch  # which devices that say little start without

    return [LoopWatch(partial(logging.getLogger("aisrv.loop").warning, "%s"))]


def _handler() -> logging.Handler:
    try:
        return LogWriter(sys.stderr.fileno())
    except (io.UnsupportedOperation, OSError):  # no file, or a closed one
        return logging.StreamHandler(sys.stderr)
