"""Speed of a device: bench. Each measurement repeats one operation and keeps the time of every run."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE
from aisrv.values.regular_file import read_regular
from host_tools.commands.settings import HostSettings, pass_settings

if TYPE_CHECKING:
    from host_tools.client import AiServer

LEAST_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class Measurement:
    """One operation: the seconds of each run, and the bytes that a run moves, where it moves data."""

    name: str
    seconds: tuple[float, ...]
    nbytes: int = 0

    @property
    def median(self) -> float:
        """Seconds of the run in the middle."""
        import statistics

        return statistics.median(self.seconds)

    @property
    def rate(self) -> str:
        """Bytes a second where bytes are moved, else runs a second; of the median run."""
        if self.nbytes:
            from rich.filesize import decimal

            return f"{decimal(round(self.nbytes / self.median))}/s"
        return f"{1 / self.median:,.0f}/s" if self.median <= 0.1 else f"{1 / self.median:.2g}/s"


def measure(name: str, operation: Callable[[], object], seconds: float, nbytes: int = 0) -> Measurement:
    """Repeat an operation for some seconds, three times at least."""
    clock = time.perf_counter
    runs: list[float] = []
    end = clock() + seconds
    while len(runs) < LEAST_RUNS or clock() < end:
        started = clock()
        operation()
        runs.append(clock() - started)
    return Measurement(name, tuple(runs), nbytes)


def measure_server(server: "AiServer", seconds: float, model: bytes | None = None) -> Iterator[Measurement]:
    """Yield round trips; with `model` its loading; with a model on the engine its tensors and inferences.

    Input 0 is left full of zeros. Where no model is loaded, only what works without one is measured.
    """
    yield measure("status round trip", server.status, seconds)
    if model is not None:
        yield measure("load model", lambda: server.load_model(model, force=True), seconds, len(model))
    if not server.spec().input_bytes:
        return
    data = bytes(server.input_length())
    yield measure("write input 0", lambda: server.write_input(data), seconds, len(data))
    yield measure("inference", server.infer, seconds)
    yield measure("read output 0", server.read_output, seconds, server.output_length())
    yield measure("write, infer, read", lambda: server.run(data), seconds)


@click.command(
    short_help="Measure round trips, transfers, inferences.",
    epilog=examples(
        "aisrv-host bench", "aisrv-host --device virtual bench --model person.tflite --seconds 3"
    ),
)
@click.option("--model", "model_file", type=FILE, help="Load this model, and measure that too.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="How long to repeat each operation; three runs at least.",
)
@pass_settings
def bench(settings: HostSettings, model_file: Path | None, seconds: float) -> None:
    """Measure round trips, transfers and inferences, as this computer sees them.

    Tensors and inferences are measured if a model is loaded, or given with --model. Input 0 is overwritten.
    """
    from host_tools.commands import report

    model = read_regular(model_file) if model_file else None
    with settings.connect() as server:
        results = list(measure_server(server, seconds, model))
    data = [
        {
            "name": one.name,
            "bytes": one.nbytes,
            "runs": len(one.seconds),
            "seconds": {"min": min(one.seconds), "median": one.median, "max": max(one.seconds)},
        }
        for one in results
    ]

    def show() -> None:
        rows = [
            (
                one.name,
                *(f"{1e6 * value:,.1f}" for value in (min(one.seconds), one.median, max(one.seconds))),
                len(one.seconds),
                one.rate,
            )
            for one in results
        ]
        report.show_table(("operation", "min µs", "median µs", "max µs", "runs", "at the median"), rows)

    settings.answer(data, show)
