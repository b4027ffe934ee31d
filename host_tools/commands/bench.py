"""Speed of a device: bench."""

from pathlib import Path

import click

from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE
from aisrv.values.regular_file import read_regular
from host_tools.commands.settings import HostSettings, pass_settings


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
    from host_tools.commands.measure import measure_server

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
