"""`aisrv fleet`: a cluster of Dask on this machine, and what a run on a cluster takes."""

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import click

from aisrv.terminal.command_group import INTERRUPTED, Group

if TYPE_CHECKING:
    from aisrv.evaluate.fleet.local_cluster import Place


class _FleetFailed(click.ClickException):
    """A cluster that does not start, with its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # which click means to be set


@click.group(cls=Group)
def fleet() -> None:
    """Run evaluations on many machines, by Dask.

    \b
    Examples:
      aisrv fleet up 2
      aisrv evaluate digits.tflite digits:all --dask tcp://127.0.0.1:8786
    """


@fleet.command()
@click.argument("workers", type=click.IntRange(1, 512))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8786,
    show_default=True,
    help="TCP port of the scheduler; 0 is any that is free.",
)
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    default=8787,
    show_default=True,
    help="TCP port of the dashboard, which another one takes the place of if it is taken.",
)
def up(workers: int, port: int, dashboard_port: int) -> None:
    """Run a Dask scheduler and WORKERS workers on this machine until Ctrl-C.

    One line on standard output says when they are ready, and where. They listen on 127.0.0.1 alone: Dask runs
    what it is sent. Each worker has one thread; one that dies is started again. All end with this process.
    Exit code 0 after SIGTERM, 130 after Ctrl-C; 1 where they do not start; 2 wrong usage, or no Dask.

    \b
    Examples:
      aisrv fleet up 2
      aisrv fleet up 16 --port 0
    """
    from aisrv.evaluate.cluster import check_dask
    from aisrv.evaluate.errors import EvaluateError

    try:
        check_dask()
        from aisrv.evaluate.fleet.local_cluster import serve_cluster

        ended = asyncio.run(serve_cluster(workers, port, dashboard_port, _show_place))
    except EvaluateError as error:
        raise _FleetFailed(str(error), getattr(error, "exit_code", 2)) from None
    sys.exit(INTERRUPTED if ended == signal.SIGINT else 0)


def _show_place(place: "Place") -> None:
    dashboard = f", dashboard {place.dashboard}" if place.dashboard else ""
    print(f"aisrv: ready at {place.scheduler}{dashboard}", flush=True)
    print(
        f"aisrv: try aisrv evaluate MODEL DATA --dask {place.scheduler}",
        file=sys.stderr,
        flush=True,
    )
