"""Report of `inspect` about a model's file, which is no image: its inputs, outputs and operators."""

from collections import Counter
from pathlib import Path
from typing import Final

import click

from aisrv.model import Model, ModelFileError, Tensor
from aisrv.model.reader import read_model
from aisrv.values.printable import printable
from flash_server.files import InputError

NAME_LIMIT: Final = 60
"""Longest shown name, in characters."""


def read(path: Path, data: memoryview) -> Model:
    """Read a model. Raises InputError."""
    try:
        return read_model(data)
    except ModelFileError as error:
        raise InputError(f"{path}: a TensorFlow Lite model, which is damaged: {error}") from None


def describe(path: Path, model: Model, size: int) -> dict[str, object]:
    return {
        "file": str(path),
        "kind": "model",
        "size": size,
        "inputs": [_tensor(tensor) for tensor in model.input_tensors],
        "outputs": [_tensor(tensor) for tensor in model.output_tensors],
        "operators": dict(_operators(model)),
    }


def show(path: Path, model: Model, size: int) -> None:
    """Print a model's inputs, outputs and operators, and the commands for it."""
    click.echo(f"{path}: a TensorFlow Lite model of {size:,} bytes, not an image")
    for kind, tensors in (("input", model.input_tensors), ("output", model.output_tensors)):
        for number, tensor in enumerate(tensors):
            click.echo(f"  {kind} {number}: {_text(tensor)}")
    operators = ", ".join(f"{count} {name}" for name, count in _operators(model).items())
    click.echo(f"  operators: {operators or 'none'}")
    click.echo(
        f"To make an image of it: aisrv-flash pack --engine model={path} --output flash.bin\n"
        f"What it takes on the device: aisrv profile {path}"
    )


def _operators(model: Model) -> Counter[str]:
    return Counter(printable(operator.name, NAME_LIMIT) for operator in model.operators)


def _tensor(tensor: Tensor) -> dict[str, object]:
    quantization = tensor.quantization
    return {
        "name": printable(tensor.name, NAME_LIMIT),
        "shape": list(tensor.shape),
        "type": tensor.type.name.lower(),
        "scales": list(quantization.scales) if quantization else [],
        "zero_points": list(quantization.zero_points) if quantization else [],
    }


def _text(tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    quantization = tensor.quantization
    real = ""
    if quantization is not None and len(quantization.scales) == len(quantization.zero_points) == 1:
        real = f", scale {quantization.scale:g}, zero point {quantization.zero_point}"
    return f"{printable(tensor.name, NAME_LIMIT)}, {tensor.type.name.lower()} {shape}{real}"
