"""`aisrv demo`: a device, a network and real handwritten digits, in the terminal.

The device runs in a process of its own; the host library talks to it over USB/IP, as any host would.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import click

from aisrv import digits
from aisrv.terminal.file_types import FOLDER, write_files
from aisrv.terminal.require_linux import require_linux
from host_tools.client import AiServer
from host_tools.errors import HostError
from host_tools.tensors.tensor_spec import TensorSpec
from host_tools.tensors.timings import Timings

SHADES: Final = " ░▒▓█"
IMAGE_FILES: Final = {"seven.npy": 3, "two.npy": 2}
"""Files of inputs to try the tools with, and the test image in each."""
_TAKES: Final = "One inference takes "


@dataclass(frozen=True, slots=True)
class Verdict:
    """One image through the device."""

    index: int
    label: int
    digit: int
    """Answer of the network."""
    scores: tuple[int, ...]
    """Output tensor, int8, per digit."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of the demo."""

    verdicts: tuple[Verdict, ...]
    times: Timings
    """The device's own prediction for each operator of the last inference; measured on hardware."""
    host_seconds: float
    """Wall time of one write, inference and read, mean over all images."""
    device_time: str = ""
    """Time of one inference from the device, with the band; empty if unknown."""

    @property
    def right(self) -> int:
        return sum(verdict.digit == verdict.label for verdict in self.verdicts)


def classify_digits(device: str, indices: Sequence[int], seen: Callable[[Verdict], None]) -> Result:
    """Load the digits network into a device and classify test images by index. Raises HostError."""
    images = digits.test_images()
    model = digits.model_bytes()
    with AiServer.open(device) as server:
        server.load_model(model)
        seconds = 0.0
        verdicts = []
        for index in indices:
            started = time.perf_counter()
            output = server.run(images[index].image)
            seconds += time.perf_counter() - started
            scores = memoryview(output).cast("b").tolist()
            verdict = Verdict(index, images[index].label, scores.index(max(scores)), tuple(scores))
            verdicts.append(verdict)
            seen(verdict)
        taken = seconds / max(1, len(indices))
        return Result(tuple(verdicts), server.timings(), taken, _device_time(server))


def _device_time(server: AiServer) -> str:
    """Return the first line of the device's summary; empty for a device that has none."""
    try:
        first = server.profile().partition("\n")[0]
    except HostError:
        return ""
    return first.removeprefix(_TAKES) if first.startswith(_TAKES) else ""


def example_files() -> dict[str, bytes]:
    """Return the networks and the inputs of IMAGE_FILES as files."""
    from host_tools.tensors.npy import npy_file

    spec = TensorSpec((1, digits.IMAGE_SIDE, digits.IMAGE_SIDE, 1))
    return {
        digits.MODEL_FILE: digits.model_bytes(),
        digits.FLOAT_MODEL_FILE: digits.float_model_bytes(),
        digits.TWO_OUTPUT_MODEL_FILE: digits.two_output_model_bytes(),
        **{
            name: npy_file(spec.elements(digits.test_images()[index].image))
            for name, index in IMAGE_FILES.items()
        },
    }


def _picture(image: bytes) -> Iterator[str]:
    pixels = digits.pixels_of(image)
    for row in range(0, len(pixels), digits.IMAGE_SIDE):
        yield "".join(
            SHADES[pixel * (len(SHADES) - 1) // digits.INK] * 2
            for pixel in pixels[row : row + digits.IMAGE_SIDE]
        )


def _scores(verdict: Verdict) -> Iterator[str]:
    for digit, score in enumerate(verdict.scores):
        bar = "█" * round((score + 128) / 255 * 24)
        style = "bold green" if digit == verdict.digit else "dim"
        yield f"[{style}]{digit} {bar or '·'}[/]"


def _show_verdict(console: Any, verdict: Verdict) -> None:  # noqa: ANN401 - rich is imported when used
    from rich.columns import Columns
    from rich.panel import Panel

    image = "\n".join(_picture(digits.test_images()[verdict.index].image))
    mark = "[green]right[/]" if verdict.digit == verdict.label else f"[red]it is a {verdict.label}[/]"
    console.print(
        Columns(
            [
                Panel(image, title=f"image {verdict.index}", expand=False),
                Panel("\n".join(_scores(verdict)), title=f"a {verdict.digit}, {mark}", width=34),
            ]
        )
    )


def _as_json(result: Result) -> dict[str, Any]:
    return {
        "verdicts": [asdict(verdict) for verdict in result.verdicts],
        "right": result.right,
        "times": result.times.as_json(),
        "device_time": result.device_time,
        "host_seconds": result.host_seconds,
    }


def _show_summary(result: Result) -> None:
    from host_tools.commands.report import show_timings

    device = result.device_time or f"{result.times.microseconds / 1e3:.3f} ms"
    predicted = ", as predicted for the hardware" if result.device_time else ""
    click.echo(f"One inference takes {device}{predicted}; of that the operators:")
    show_timings(result.times)
    click.echo(f"{result.right} of {len(result.verdicts)} right.")
    took = f"{result.host_seconds * 1e6:.0f}"
    click.echo(f"Here a write, an inference and a read took {took} µs over USB/IP.")


@click.command()
@require_linux("demo")
@click.option("--count", type=click.IntRange(1), default=4, show_default=True, help="Images to show.")
@click.option("--all", "all_images", is_flag=True, help="Classify all test images, and show only the sums.")
@click.option("--seed", type=int, default=1, show_default=True, help="Choice of the images.")
@click.option("--device", default="virtual", show_default=True, help="Device, as aisrv-host names it.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--files",
    type=FOLDER,
    help="Only write the network and two images into this folder, to try the other commands with.",
)
def demo(count: int, all_images: bool, seed: int, device: str, as_json: bool, files: Path | None) -> None:
    """Classify real handwritten digits on a virtual device.

    Starts a device in a process of its own, loads a small network over USB/IP, shows each picture with what
    the network makes of it, and the device's timings.

    \b
    Examples:
      aisrv demo
      aisrv demo --count 10 --seed 7
      aisrv demo --all --json
      aisrv demo --device usb          the same on real hardware
      aisrv demo --files .             digits.tflite, seven.npy and others, for other commands
    """
    if files is not None:
        try:
            files.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.ClickException(f"{files}: {error.strerror}") from None
        write_files({files / name: content for name, content in example_files().items()})
        return
    from rich.console import Console

    available = range(len(digits.test_images()))
    chosen = available if all_images else random.Random(seed).sample(available, min(count, len(available)))  # noqa: S311
    console = Console()

    def show(verdict: Verdict) -> None:
        if not (all_images or as_json):
            _show_verdict(console, verdict)

    try:
        result = classify_digits(device, list(chosen), show)
    except HostError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(_as_json(result)))
    else:
        _show_summary(result)
