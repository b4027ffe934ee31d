"""Single tensors: read, write."""

from pathlib import Path

import click

from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE, NEW_FILE
from aisrv.terminal.progress import progress_bar
from host_tools.commands.model_file import (
    InputOptions,
    Kind,
    device_spec,
    input_options,
    model_option,
    tensor_spec,
)
from host_tools.commands.settings import NUMBER, HostSettings, pass_settings
from host_tools.errors import UnsupportedCommand


@click.command(
    short_help="Read a tensor.",
    epilog=examples(
        "aisrv-host read 0",
        "aisrv-host read 1 --output features.npy --model two_outputs.tflite",
        "aisrv-host read 0 --input",
    ),
)
@click.argument("tensor", type=NUMBER)
@click.option("--input", "from_input", is_flag=True, help="Read an input tensor, not an output tensor.")
@model_option("The loaded model's file: shows values, not bytes.")
@click.option("--output", type=NEW_FILE, help="Write to this file: .npy or raw bytes.")
@pass_settings
def read(
    settings: HostSettings, tensor: int, from_input: bool, model_file: Path | None, output: Path | None
) -> None:
    """Read output tensor number TENSOR."""
    from host_tools.commands.report import hex_dump
    from host_tools.tensors.files import write_tensor

    kind: Kind = "inputs" if from_input else "outputs"
    spec = tensor_spec(model_file, kind, tensor)
    with settings.connect() as server:
        data = server.read_input(tensor) if from_input else server.read_output(tensor)
        if spec is None and output is not None:
            spec = device_spec(server, kind, tensor)
    if spec and settings.as_float32:
        data = spec.from_floats(data)
    values = spec.values(data) if spec else None
    if output:
        write_tensor(output, data, spec)
    answer: dict[str, object] = {"tensor": tensor, "bytes": len(data)}
    if output:
        answer["output"] = str(output)
    else:
        answer["hex"] = data.hex()
    if values is not None:
        answer["values"] = values.tolist()

    def show() -> None:
        if output:
            click.echo(f"{output}: {len(data)} bytes")
        else:
            click.echo(hex_dump(data) if values is None else values)

    settings.answer(answer, show)


@click.command(
    short_help="Write a file to an input tensor.",
    epilog=examples("aisrv-host write 0 input.bin", "aisrv-host write 1 cat.png --model two_inputs.tflite"),
)
@click.argument("tensor", type=NUMBER)
@click.argument("file", type=FILE)
@model_option("The loaded model's file: gives shape and quantization.")
@input_options
@pass_settings
def write(
    settings: HostSettings,
    tensor: int,
    file: Path,
    model_file: Path | None,
    reading: InputOptions,
) -> None:
    """Write FILE, an image, a .npy array or raw bytes, to input tensor number TENSOR."""
    if settings.as_float32:
        raise UnsupportedCommand("a Model Runner keeps no input: give the file to infer")
    spec = tensor_spec(model_file, "inputs", tensor, reading.shape)
    with settings.connect() as server:
        spec = spec or device_spec(server, "inputs", tensor)
        length = None if spec else server.input_length(tensor)
        data = reading.read(file, spec, length)
        with progress_bar("Writing", len(data)) as progress:
            server.write_input(data, tensor, progress)
    settings.answer(
        {"tensor": tensor, "bytes": len(data)},
        lambda: click.echo(f"input {tensor}: {len(data)} bytes written"),
    )
