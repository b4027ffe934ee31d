"""`aisrv fleet`: a cluster of Dask on this machine, and what a run on a cluster takes."""

import asyncio
import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aisrv.cli.options.engine_kind import ENGINE_KIND
from aisrv.protocol.engine_kind import EngineKind
from aisrv.terminal.command_group import INTERRUPTED, Group
from aisrv.terminal.file_types import FILE
from aisrv.terminal.option_group import GroupedCommand, option, option_group
from aisrv.values.settings.size_option import SIZE

if TYPE_CHECKING:
    from aisrv.addons.evaluate.fleet.local_cluster import Place


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
      aisrv evaluate digits.tflite digits:all --dask tls://127.0.0.1:8786
      aisrv fleet plan person.tflite photos/ --examples 10000000 --machines 100
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

    One line on standard output says when they are ready, and where. They listen on 127.0.0.1 alone, and take
    those who have a certificate that is made for them and kept for this user alone: Dask runs what it is
    sent. aisrv evaluate --dask finds it by the address. Each worker has one thread; one that dies is started
    again. All end with this process, and so does the certificate.
    Exit code 0 after SIGTERM, 130 after Ctrl-C; 1 where they do not start; 2 wrong usage, or no Dask.

    \b
    Examples:
      aisrv fleet up 2
      aisrv fleet up 16 --port 0
    """
    from aisrv.addons.evaluate.cluster import check_cryptography, check_dask
    from aisrv.addons.evaluate.errors import EvaluateError

    try:
        check_dask()
        check_cryptography()
        from aisrv.addons.evaluate.fleet.local_cluster import serve_cluster

        ended = asyncio.run(serve_cluster(workers, port, dashboard_port, _show_place))
    except EvaluateError as error:
        raise _FleetFailed(str(error), getattr(error, "exit_code", 2)) from None
    sys.exit(INTERRUPTED if ended == signal.SIGINT else 0)


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The machines of a cluster, and what its network gives."""

    machines: int = option(
        "--machines", type=click.IntRange(1, 100_000), default=1, show_default=True, help="Machines."
    )
    cores: int = option(
        "--cores", type=click.IntRange(1, 1024), default=16, show_default=True, help="Cores of each."
    )
    network: float = option(
        "--network",
        type=click.FloatRange(0, 10_000, min_open=True),
        default=1.0,
        show_default=True,
        help="Gbit/s of each machine's network.",
    )
    store: float | None = option(
        "--store",
        type=click.FloatRange(0, 1e6, min_open=True),
        help="Gbit/s that the store of the data gives in all. [default: what all machines can take]",
    )


@dataclass(frozen=True, slots=True)
class ExampleOptions:
    """The examples of a run, and how a model is run on them."""

    examples: int | None = option(
        "--examples", type=click.IntRange(min=1), help="Examples of the run. [default: those of DATA]"
    )
    shard: int | None = option(
        "--shard", type=click.IntRange(1, 1_000_000), help="Examples of a task. [default: 5 s of work]"
    )
    kind: EngineKind = option(
        "--engine", type=ENGINE_KIND, default="kernels", show_default=True, help="Engine."
    )
    inputs: Path | None = option("--input", type=FILE, help="TOML file that says how inputs are made.")
    labels: Path | None = option(
        "--labels", type=FILE, help="Names of the classes, a line each; or the labels of IDX data."
    )
    memory: int = option(
        "--max-memory",
        type=SIZE,
        default="2G",
        show_default=True,
        help="Memory that the data may take; what is mapped takes none.",
    )


@fleet.command(cls=GroupedCommand)
@click.argument("model", type=FILE)
@click.argument("data")
@option_group("cluster", ClusterOptions)
@option_group("example", ExampleOptions)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(model: Path, data: str, cluster: ClusterOptions, example: ExampleOptions, as_json: bool) -> None:
    """Compute what a run of MODEL on examples such as those of DATA takes on a cluster.

    What it is based on is measured first, in some ten seconds, and printed: CPU time of an example, of a task
    in the scheduler, of a start; bytes to read and to keep. The rest is arithmetic: other processors than
    this one take other times.

    \b
    Examples:
      aisrv fleet plan person.tflite photos/ --examples 10000000 --machines 100 --cores 16
      aisrv fleet plan digits.tflite digits --examples 1000000 --json
    """
    from aisrv.addons.evaluate.cluster import check_cryptography, check_dask
    from aisrv.addons.evaluate.errors import EvaluateError
    from aisrv.addons.evaluate.evaluation import cpu_name
    from aisrv.addons.evaluate.request import Request, load

    try:
        check_dask()
        check_cryptography()
        from aisrv.addons.evaluate.fleet.costs import Machines, cost_of, describe
        from aisrv.addons.evaluate.fleet.costs import as_json as to_json
        from aisrv.addons.evaluate.fleet.units import measure

        request = Request(
            model,
            data,
            labels=example.labels,
            inputs=example.inputs,
            kind=example.kind,
            memory=example.memory,
        )
        loaded = load(request)
        units = measure(request, loaded, cpu_name())
    except EvaluateError as error:
        raise _FleetFailed(str(error), getattr(error, "exit_code", 2)) from None
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise _FleetFailed(f"{name}{error.strerror or error}", 2) from None
    asked = Machines(cluster.machines, cluster.cores, cluster.network, cluster.store)
    cost = cost_of(example.examples or len(loaded.data), units, asked, example.shard)
    if as_json:
        click.echo(json.dumps(to_json(units, asked, cost), indent=1))
    else:
        click.echo(describe(units, asked, cost))


def _show_place(place: "Place") -> None:
    dashboard = f", dashboard {place.dashboard}" if place.dashboard else ""
    print(f"aisrv: ready at {place.scheduler}{dashboard}", flush=True)
    print(
        f"aisrv: try aisrv evaluate MODEL DATA --dask {place.scheduler}",
        file=sys.stderr,
        flush=True,
    )
