"""A network at work: load, infer."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE, NEW_FILE
from aisrv.terminal.option_group import option, option_group
from aisrv.terminal.progress import progress_bar
from aisrv.values.regular_file import read_regular
from host_tools.commands.model_file import (
    InputOptions,
    device_model,
    input_options,
    input_specs,
    model_option,
    tensor_spec,
)
from host_tools.commands.settings import NUMBER, HostSettings, pass_settings
from host_tools.errors import NoModelError, TensorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisrv.model import Model, Tensor
    from host_tools.client import AiServer, Memory
    from host_tools.tensors.tensor_spec import TensorSpec


@click.command(
    epilog=examples(
        "aisrv-host load person.tflite", "aisrv-host load --ext large.tflite", "aisrv-host load --from-flash"
    )
)
@click.argument("model", type=FILE, required=False)
@click.option("--from-flash", is_flag=True, help="Load the model that the flash holds for the engine.")
@click.option("--ext", is_flag=True, help="Put the model in external memory, not in the tensor arena.")
@click.option("--force", is_flag=True, help="Send the file as it is, a model or not.")
@pass_settings
def load(settings: HostSettings, model: Path | None, from_flash: bool, ext: bool, force: bool) -> None:
    """Load the .tflite file MODEL into the engine.

    The file is checked first: one that is not a model leaves the loaded model where it is.
    """
    from host_tools.model_summary import check_model

    memory: Memory = "ext" if ext else "arena"
    if (model is None) != from_flash:
        raise click.UsageError("give a file MODEL, or --from-flash")
    if model is None:
        _load_from_flash(settings, memory)
        return
    data = read_regular(model)
    if not force:
        check_model(data, model)
    with settings.connect() as server:
        seconds = _load(server, data, ext=ext)
    settings.answer(
        {"model": str(model), "bytes": len(data), "memory": memory, "seconds": seconds},
        lambda: click.echo(f"{model}: {len(data)} bytes loaded into {memory} in {1000 * seconds:.1f} ms"),
    )


def _load_from_flash(settings: HostSettings, memory: "Memory") -> None:
    with settings.connect() as server:
        server.load_model_from_flash(memory)
        spec = server.spec()
    answer = {"memory": memory, "input_bytes": spec.input_bytes, "output_bytes": spec.output_bytes}
    text = f"loaded from flash into {memory}: {spec.input_bytes} bytes in, {spec.output_bytes} bytes out"
    settings.answer(answer, lambda: click.echo(text))


@click.command(
    short_help="Replace the device's upgrade image.",
    epilog=examples(
        "aisrv-host --device spi:0.0 upgrade firmware.boot",
        "aisrv-flash boot-image firmware.bin --version 7 --output firmware.boot    (makes the image)",
    ),
)
@click.argument("image", type=FILE)
@pass_settings
def upgrade(settings: HostSettings, image: Path) -> None:
    """Write the boot image IMAGE to the device's flash, over SPI; it is booted from the next reset on.

    The image is verified before it counts. Where it is refused, the factory image boots.
    """
    data = read_regular(image)
    with settings.connect() as server:
        start = time.perf_counter()
        server.load_server(data)
        seconds = time.perf_counter() - start
        boots = _next_boot(data, server.boot_report())
    settings.answer(
        {"image": str(image), "bytes": len(data), "seconds": seconds},
        lambda: click.echo(f"{image}: {len(data)} bytes written and verified in {seconds:.2f} s; {boots}"),
    )


def _next_boot(image: bytes, booted: bytes) -> str:
    """Say what boots after an upgrade: the new image, unless the factory image that runs is newer."""
    from flash_server.boot.boot_image import BootHeader, BootImageError, BootReport, Slot

    try:
        version, report = BootHeader.from_bytes(image).version, BootReport.from_bytes(booted)
    except BootImageError:  # the device took it, or does not say what runs
        return "it boots at the next reset"
    if report.slot is Slot.FACTORY and report.version > version:
        return f"at the next reset the factory image boots again: its version {report.version} is newer"
    return f"version {version} boots at the next reset"


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Which output tensor, where to write it, and what to show of it."""

    output: Path | None = option(
        "--output", type=NEW_FILE, help="Write the output tensor to this file: .npy or raw bytes."
    )
    tensor: int = option("--tensor", type=NUMBER, default=0, show_default=True, help="Which output tensor.")
    top: int = option(
        "--top", type=click.IntRange(min=0), default=5, show_default=True, help="How many scores to show."
    )
    labels: Path | None = option(
        "--labels",
        type=FILE,
        help="A text file with one class name a line. [default: those in the model's file]",
    )


@click.command(
    short_help="Run the network on files.",
    epilog=examples(
        "aisrv-host --device virtual infer cat.png --model mobilenet.tflite --labels labels.txt",
        "aisrv-host infer input.bin --output scores.npy --model person.tflite",
        "aisrv-host infer --top 0 --output out.bin      (with the inputs as they were written)",
    ),
)
@click.argument("inputs", nargs=-1, type=FILE)
@model_option("The model's file: gives shapes and quantization, and is loaded if the engine has none.")
@input_options
@option_group("result", OutputOptions)
@pass_settings
def infer(
    settings: HostSettings,
    inputs: tuple[Path, ...],
    model_file: Path | None,
    reading: InputOptions,
    result: OutputOptions,
) -> None:
    """Run the network on INPUTS, one file for each input tensor, and show the largest outputs.

    A file is an image, a .npy array or raw bytes, by its name. Shapes and quantization are those of --model,
    else what a virtual device says; values are real numbers then, else the tensor's bytes as int8.
    """
    from host_tools.commands import report
    from host_tools.tensors.files import write_tensor
    from host_tools.tensors.outputs import best_scores

    model, specs = input_specs(model_file, reading.shape)
    if model and len(inputs) > len(specs):
        raise TensorError(f"{len(inputs)} inputs given, {model_file} has {len(specs)}")
    spec = tensor_spec(model_file, "outputs", result.tensor)
    names = _labels(result.labels, model_file)

    def content(number: int, path: Path, length: int | None = None) -> bytes:
        known = specs[number] if number < len(specs) else None
        data = reading.read(path, known, length)
        return known.to_floats(data) if known and settings.as_float32 else data

    # With a model everything is checked before the device is touched.
    ready = [content(number, path) for number, path in enumerate(inputs)] if model else []
    with settings.connect() as server:
        if model_file and model:
            _ensure_loaded(server, model, model_file, as_floats=settings.as_float32)
        elif (known := device_model(server)) is not None:
            specs = specs or list(known.inputs)
            spec = known.outputs[result.tensor] if result.tensor < len(known.outputs) else None
        for number, path in enumerate(inputs):
            tensor = (
                ready[number]
                if ready
                else content(number, path, None if number < len(specs) else server.input_length(number))
            )
            server.write_input(tensor, number)
        server.infer()
        data = server.read_output(result.tensor)
    if spec and settings.as_float32:
        data = spec.from_floats(data)
    if result.output:
        write_tensor(result.output, data, spec)
    scores = best_scores(_values(data, spec), result.top, names)
    answer: dict[str, object] = {
        "tensor": result.tensor,
        "bytes": len(data),
        "top": [{"index": one.index, "label": one.label or None, "value": one.value} for one in scores],
    }
    if result.output:
        answer["output"] = str(result.output)

    def show() -> None:
        if result.output:
            click.echo(f"{result.output}: {len(data)} bytes")
        if scores:
            report.show_scores(scores)

    settings.answer(answer, show)


def _load(server: "AiServer", data: bytes, *, ext: bool = False) -> float:
    """Load a model with a progress bar; return the seconds it took."""
    with progress_bar("Loading", len(data)) as progress:
        started = time.perf_counter()
        server.load_model(data, "ext" if ext else "arena", progress, force=True)  # it was checked before
        return time.perf_counter() - started


def _ensure_loaded(server: "AiServer", model: "Model", path: Path, *, as_floats: bool) -> None:
    """Load the model if the engine has none; complain if it evidently has another."""
    if as_floats:
        device = _float_lengths(server)
        inputs = sum(map(_float_bytes, model.input_tensors))
        file = inputs, sum(map(_float_bytes, model.output_tensors)), len(model.operators)
    else:
        spec = server.spec()
        device = spec.input_bytes, spec.output_bytes, spec.timing_count
        file = model.input_bytes, model.output_bytes, len(model.operators)
    if device == (0, 0, 0):
        _load(server, read_regular(path))
    elif device[:2] != file[:2] or device[2] not in (0, file[2]):
        raise TensorError(
            f"the engine holds another model ({device[0]} bytes in, {device[1]} out, {device[2]} timings) "
            f"than {path} ({file[0]}, {file[1]}, {file[2]}); load it first: aisrv-host load {path}"
        )


def _float_lengths(server: "AiServer") -> tuple[int, int, int]:
    try:
        return server.input_length(), server.output_length(), 0
    except NoModelError:
        return 0, 0, 0


def _float_bytes(tensor: "Tensor") -> int:
    return 4 * math.prod(tensor.shape)


def _values(data: bytes, spec: "TensorSpec | None") -> list[Any]:
    if spec:
        values: list[Any] = spec.values(data).ravel().tolist()
        return values
    return memoryview(data).cast("b").tolist()


def _labels(path: Path | None, model_file: Path | None) -> "Sequence[str]":
    """Return the classes' names: of the file of labels, else those in the model's file."""
    from aisrv.model.labels import LARGEST_LABELS, labels_of

    if not path:
        return labels_of(read_regular(model_file)) if model_file else ()
    try:
        return read_regular(path, LARGEST_LABELS).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TensorError(f"{path}: not a text file of labels ({error})") from error
