"""The view of running devices on a terminal, drawn again as things change.

The alternate screen is not used: lines that were there stay, log lines go above the view, and at the end
nothing of it is left.
"""

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import trio
from rich.console import Console
from rich.live import Live

from aisrv.inference.process.sandbox_layers import sandbox_line
from aisrv.monitor.compact_rendering import DevicesTable
from aisrv.monitor.rendering import DevicesView, DeviceView
from aisrv.monitor.snapshot import DeviceMonitor
from aisrv.monitor.values import DeviceStatus, rates_between
from aisrv.terminal.log_writer import LogWriter

REFRESH_SECONDS: Final = 0.25
RATE_REFRESHES: Final = 4
"""Refreshes over which rates are averaged: a second."""
MOST_WHOLE_DEVICES: Final = 4
"""Devices that are shown with cores and ports, if the terminal has room; of more, each has one line."""
MOST_DEVICES: Final = 100
"""Devices in a view: more would not fit on a terminal."""

Moment = tuple[DeviceStatus, ...]


async def show_status(monitors: Sequence[DeviceMonitor]) -> None:
    """Draw on standard output, which must be a terminal, until cancelled.

    Nothing is written while nothing changes, and while the terminal takes nothing, as after Ctrl-S.
    """
    console = Console(file=sys.stdout, force_terminal=True)
    shown, hidden = monitors[:MOST_DEVICES], max(0, len(monitors) - MOST_DEVICES)
    make_view = view_of if len(monitors) <= MOST_WHOLE_DEVICES else table_of
    moments: deque[Moment] = deque(maxlen=1 + RATE_REFRESHES)
    drawn: object = None
    sandbox = await trio.to_thread.run_sync(sandbox_line)
    with _drawing(console) as (live, show_log):
        while True:
            await trio.lowlevel.wait_writable(console.file.fileno())
            show_log()
            moments.append(tuple(monitor.snapshot() for monitor in shown))
            view = make_view(moments[0], moments[-1], hidden, sandbox)
            if (view, console.size) != drawn:
                drawn = view, console.size
                live.update(view, refresh=True)
            await trio.sleep(REFRESH_SECONDS)


def view_of(before: Moment, now: Moment, hidden: int = 0, sandbox: str = "") -> DevicesView:
    """Return a view of devices now, with the rates since a moment before."""
    return DevicesView(_views(before, now), hidden, sandbox)


def table_of(before: Moment, now: Moment, hidden: int = 0, sandbox: str = "") -> DevicesTable:
    """Return a table of devices now, with the rates since a moment before."""
    return view_of(before, now, hidden, sandbox).table()


def _views(before: Moment, now: Moment) -> tuple[DeviceView, ...]:
    return tuple(DeviceView(new, rates_between(old, new)) for old, new in zip(before, now, strict=True))


@contextmanager
def _drawing(console: Console) -> Iterator[tuple[Live, Callable[[], None]]]:
    live = Live(
        console=console,
        auto_refresh=False,  # by a thread, it would be
        transient=True,
        redirect_stderr=sys.stderr.isatty(),
    )
    with live, _log_above(console) as show_log:
        try:
            yield live, show_log
        finally:
            live.update("")  # a view taller than the terminal could not be wiped off


@contextmanager
def _log_above(console: Console) -> Iterator[Callable[[], None]]:
    """Keep log lines off the terminal; the function that is given shows them above the view."""
    writers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, LogWriter) and handler.is_terminal
    ]

    def show() -> None:
        for writer in writers:
            for line in writer.take():
                console.print(line, markup=False, highlight=False, emoji=False)

    with ExitStack() as held:
        for writer in writers:
            held.enter_context(writer.held())
        yield show
