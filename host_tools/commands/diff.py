"""Two devices compared on the same model and inputs."""

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE
from aisrv.terminal.option_group import option, option_group
from aisrv.values.regular_file import read_regular
from host_tools.commands.model_file import InputOptions, input_options
from host_tools.commands.settings import HostSettings, pass_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from host_tools.device_comparison import OutputDifference
    from host_tools.tensors.timings import Timings


@dataclass(frozen=True, slots=True)
class Comparison:
    """Model, inputs and tolerance of a comparison."""

    model: Path = option("--model", type=FILE, required=True, help="Model for both devices.")
    ext: bool = option(
        "--ext",
        default=False,
        is_flag=True,
        help="Load it into external memory, not into the tensor arena.",
    )
    runs: int = option(
        "--runs",
        type=click.IntRange(min=1),
        default=8,
        show_default=True,
        help="How many runs on random inputs, if no INPUTS are given.",
    )
    seed: int = option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seed of the random inputs.",
    )
    tolerance: float = option(
        "--tolerance",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=True,
        help="How far apart two elements may be, in the tensor's own steps.",
    )


@click.command(
    short_help="Compare two devices.",
    epilog=examples(
        "aisrv-host diff usb virtual --model person.tflite photo.png",
        "aisrv-host diff usb usbip:localhost:3240 --model person.tflite --runs 100",
        "aisrv-host diff virtual virtual:board.toml --model person.tflite --tolerance 1",
    )
    + "\n\n\b\nExit codes: 0 the devices agree, 1 they differ or a device reported an error.",
)
@click.argument("devices", metavar="DEVICE DEVICE", nargs=2)
@click.argument("inputs", nargs=-1, type=FILE)
@input_options
@option_group("how", Comparison)
@pass_settings
def diff(
    settings: HostSettings,
    devices: tuple[str, str],
    inputs: tuple[Path, ...],
    reading: InputOptions,
    how: Comparison,
) -> None:
    """Load one model into two devices, run both on INPUTS, and compare all outputs, element by element.

    INPUTS are the files of the first run, then of the second, and so on: one for each input tensor of the
    model. Without any, inputs are random, the same for the same --seed. The times of the last run are shown.
    """
    from host_tools.device_comparison import compare_devices, in_runs, random_inputs
    from host_tools.model_summary import ModelSummary

    data = read_regular(how.model)
    model = ModelSummary.of_file(data)
    specs = model.inputs
    if inputs:
        tensors = [
            reading.read(path, specs[number % len(specs)] if specs else None, None)
            for number, path in enumerate(inputs)
        ]
        runs = in_runs(tensors, len(specs))
    else:
        runs = random_inputs(specs, how.runs, how.seed)
    with ExitStack() as opened:
        servers = []
        for device in devices:
            server = opened.enter_context(settings.connect(device))
            servers.append(server)
            server.load_model(data, "ext" if how.ext else "arena")
        found = list(compare_devices(servers, runs, model.outputs, how.tolerance))
        times = [server.timings() for server in servers]
    apart = [one for one in found if one.differing]
    answer = {
        "devices": list(devices),
        "runs": len(runs),
        "same": not apart,
        "outputs": [asdict(one) for one in found],
        "microseconds": [each.microseconds for each in times],
        "microseconds_band": [each.microseconds_band for each in times],
    }
    settings.answer(answer, lambda: _show(devices, len(runs), found, times))
    if apart:
        click.get_current_context().exit(1)


def _show(
    devices: tuple[str, str], runs: int, found: "Sequence[OutputDifference]", times: "Sequence[Timings]"
) -> None:
    from host_tools.commands import report

    apart = [one for one in found if one.differing]
    if apart:
        headings = ("run", "output", "elements", "differing", "largest", "first at")
        rows = [
            (one.run, one.tensor, one.elements, one.differing, f"{one.largest:g}", one.first) for one in apart
        ]
        report.show_table(headings, rows)
    elements = sum(one.elements for one in found)
    differing = sum(one.differing for one in apart)
    verdict = f"{differing} of {elements} elements differ" if apart else f"all {elements} elements agree"
    click.echo(f"{runs} runs: {verdict}")
    for device, time in zip(devices, times, strict=True):
        click.echo(f"{device}: {time.duration} in the last run")
