"""A bar on the terminal while bytes move; rich draws it, and is imported when there is one."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

Progress = Callable[[int, int], None]
"""Called as bytes move: `progress(done, total)`."""

SMALLEST: Final = 1 << 20
"""Smallest transfer that is shown, in bytes."""
_REFRESH_SECONDS: Final = 0.1


@contextmanager
def progress_bar(description: str, total: int) -> Iterator[Progress]:
    """Show a bar on stderr while bytes move; none if stderr is no terminal, or there is little to move."""
    if not sys.stderr.isatty() or total < SMALLEST:
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    shown = 0.0
    with Bars(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bars:
        task = bars.add_task(description, total=total)

        def advance(done: int, _: int) -> None:
            nonlocal shown
            now = time.monotonic()
            bars.update(task, completed=done)
            if now - shown >= _REFRESH_SECONDS:
                shown = now
                bars.refresh()

        yield advance


def _ignore(_done: int, _total: int) -> None: ...
