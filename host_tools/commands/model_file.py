"""What several subcommands take: a model's file, and the options by which files become tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import click

from aisrv.terminal.file_types import FILE
from aisrv.terminal.option_group import option, option_group
from host_tools.errors import CommandError, TensorError
from host_tools.tensors.images import AUTO, RANGE_NAMES

if TYPE_CHECKING:
    from aisrv.model import Model
    from host_tools.client import AiServer
    from host_tools.model_summary import ModelSummary
    from host_tools.tensors.tensor_spec import TensorSpec

Kind: TypeAlias = Literal["inputs", "outputs"]

_Command = TypeVar("_Command", bound=Callable[..., object])


def model_option(text: str) -> Callable[[_Command], _Command]:
    """Create the option --model FILE with its help text."""
    return click.option("--model", "model_file", type=FILE, help=text)


@dataclass(frozen=True, slots=True)
class InputOptions:
    """How files become input tensors."""

    shape: str | None = option(
        "--shape", help="Shape and type of the input, if there is no model file: 1x96x96x3:int8."
    )
    value_range: str = option(
        "--range",
        type=click.Choice(RANGE_NAMES),
        default=AUTO,
        show_default=True,
        help="Numbers that an image's black and white stand for; auto goes by the model's "
        "quantization, full fills the type (int8: pixel - 128).",
    )
    invert: bool = option("--invert", default=False, is_flag=True, help="Swap an image's black and white.")

    def read(self, path: Path, spec: "TensorSpec | None", length: int | None) -> bytes:
        """Read the tensor in a file; its bytes, `length` of them without a `spec`; TensorError."""
        from host_tools.tensors.files import read_tensor

        return read_tensor(path, spec, length=length, value_range=self.value_range, invert=self.invert)


input_options = option_group("reading", InputOptions)
"""Add how files become input tensors to a command, which takes it as `reading`."""


def input_specs(model_file: Path | None, shape: str | None) -> "tuple[Model | None, list[TensorSpec]]":
    """Return the model, if its file is given, and what is known of its inputs."""
    from host_tools.tensors.files import read_model_file
    from host_tools.tensors.tensor_spec import TensorSpec

    if model_file:
        model = read_model_file(model_file)
        return model, [TensorSpec.of(tensor) for tensor in model.input_tensors]
    return None, [TensorSpec.parse(shape)] if shape else []


def tensor_spec(
    model_file: Path | None, kind: Kind, number: int, shape: str | None = None
) -> "TensorSpec | None":
    """Return what the model's file, else the shape, says of one tensor; None without either."""
    from host_tools.tensors.files import read_model_file
    from host_tools.tensors.tensor_spec import TensorSpec

    if not model_file:
        return TensorSpec.parse(shape) if shape else None
    model = read_model_file(model_file)
    tensors = model.input_tensors if kind == "inputs" else model.output_tensors
    if number >= len(tensors):
        raise TensorError(f"unknown {kind[:-1]} tensor {number}: {model_file} has {len(tensors)}")
    return TensorSpec.of(tensors[number])


def device_model(server: "AiServer") -> "ModelSummary | None":
    """Return what a virtual device itself says of its model; None where it does not say, or has none."""
    try:
        return server.model()
    except (TensorError, CommandError):
        return None


def device_spec(server: "AiServer", kind: Kind, number: int) -> "TensorSpec | None":
    """Return what a virtual device itself says of a tensor; None where it does not say."""
    model = device_model(server)
    specs = () if model is None else getattr(model, kind)
    return specs[number] if number < len(specs) else None
