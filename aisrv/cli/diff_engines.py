"""`aisrv diff-engines`: run a model in two engines and name the first operator in which they part."""

import random
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aisrv.cli.options.engine_kind import ENGINE_KIND
from aisrv.protocol.engine_kind import KERNELS, EngineKind
from aisrv.regular_file import read_regular
from aisrv.terminal.file_types import FILE

if TYPE_CHECKING:
    from aisrv.analysis.engine_comparison import Comparison, EngineError
    from aisrv.model import Model, Tensor

PEERS: Final = {"tflm": "tflite_micro", "tflite": "tflite_runtime", "litert": "ai_edge_litert"}
"""Engines to compare our kernels with, the nearest to the device first, and the packages that they need."""

DIFFERENT = 1
"""Exit code where the engines differ, and for every error."""


def diff_model(
    data: bytes, inputs: "list[bytes] | None", engines: tuple[EngineKind, EngineKind], seed: int = 0
) -> "tuple[Model, tuple[Comparison, ...]]":
    """Run a model once in both engines, on random inputs if there are none; KernelError, ModelFileError."""
    from aisrv.analysis.engine_comparison import EngineError, compare, run_engine
    from aisrv.model.reader import read_model

    model = read_model(data)
    if inputs is None:
        chance = random.Random(seed)  # noqa: S311 - inputs that are available again, no secrets
        inputs = [chance.randbytes(tensor.nbytes) for tensor in model.input_tensors]
    sizes = [tensor.nbytes for tensor in model.input_tensors]
    if [len(each) for each in inputs] != sizes:
        raise EngineError(f"inputs have {[len(each) for each in inputs]} bytes, the model takes {sizes}")
    one, other = (run_engine(engine, data, inputs) for engine in engines)
    return model, compare(model, one, other)


def read_inputs(data: bytes, paths: Sequence[Path]) -> list[bytes]:
    """Read a model's inputs from files: arrays of the tensors' own types, or raw bytes.

    Raises EngineError for an array that is not the tensor's, ModelFileError, OSError.
    """
    from aisrv.model.reader import read_model

    tensors = read_model(data).input_tensors
    if len(paths) != len(tensors):
        return [read_regular(path) for path in paths]  # which is refused with what the model takes
    return [_read_input(path, tensor) for path, tensor in zip(paths, tensors, strict=True)]


def _read_input(path: Path, tensor: "Tensor") -> bytes:
    if path.suffix != ".npy":
        return read_regular(path)
    import numpy as np

    from aisrv.model.dtypes import DTYPES

    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _engine_error(f"{path} is not a .npy file: {error}") from None
    wanted = DTYPES.get(tensor.type)
    if array.dtype != wanted or array.size * array.itemsize != tensor.nbytes:
        raise _engine_error(
            f"{path} has {array.dtype} {list(array.shape)}, the input {tensor.name!r} is {wanted} "
            f"{list(tensor.shape)}"
        )
    return bytes(array.tobytes())


def _engine_error(text: str) -> "EngineError":
    from aisrv.analysis.engine_comparison import EngineError

    return EngineError(text)


def default_engines() -> tuple[EngineKind, EngineKind]:
    """Return our kernels and the best peer that is installed; EngineError where there is none."""
    for name, package in PEERS.items():
        if find_spec(package) is not None:
            return EngineKind(KERNELS), EngineKind(name)
    raise _engine_error('no other engine is installed to compare with: pip install "aisrv[tflm]"')


def report(comparisons: "tuple[Comparison, ...]", engines: tuple[EngineKind, EngineKind]) -> str:
    """Describe the result in a line or two for each tensor that differs, the first difference above all."""
    compared = [each for each in comparisons if each.difference is not None]
    apart = [each for each in compared if each.difference is not None and each.difference.differing]
    skipped = len(comparisons) - len(compared)
    tail = f"; {skipped} cannot be read in both" if skipped else ""
    names = " and ".join(map(str, engines))
    if not apart:
        return f"{names} are equal in all {len(compared)} tensors{tail}"
    lines = [f"{names} differ in {len(apart)} of {len(compared)} tensors{tail}"]
    lines += [("first: " if number == 0 else "       ") + _line(each) for number, each in enumerate(apart)]
    return "\n".join(lines)


def _line(each: "Comparison") -> str:
    difference = each.difference
    if difference is None:  # not reached: only tensors that were compared are listed
        return ""
    return (
        f"operator {each.operator.index} ({each.operator.name}), tensor {each.tensor}: "
        f"{difference.differing:,} of {difference.elements:,} elements, by up to {difference.largest:g}"
    )


@click.command()
@click.argument("model", type=FILE)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=FILE,
    help="An input tensor, one file for each: .npy of its type, or raw bytes. [default: random bytes]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random bytes.")
@click.option(
    "--engines",
    nargs=2,
    type=ENGINE_KIND,
    help=(
        "Two kinds as for `aisrv run --engine`; see `aisrv backends`. "
        "[default: kernels, and the first of tflm, tflite and litert that is installed]"
    ),
)
def diff_engines(
    model: Path, inputs: tuple[Path, ...], seed: int, engines: tuple[EngineKind, EngineKind] | None
) -> None:
    """Run MODEL once in two engines and compare everything that its operators write.

    The exit code is 1 if they differ. The first operator that differs is named, with the largest
    difference. The engines run in this process: a model that crashes one crashes the command.

    \b
    Examples:
      aisrv diff-engines person.tflite
      aisrv diff-engines person.tflite --engines kernels:mine kernels
      aisrv diff-engines person.tflite --engines kernels litert --input picture.npy
      aisrv diff-engines two.tflite --engines tflm my_engine:Engine --input left.npy --input right.npy
    """
    from aisrv.kernels.errors import KernelError
    from aisrv.model import ModelFileError

    try:
        data = read_regular(model)
        given = read_inputs(data, inputs) if inputs else None
        engines = engines or default_engines()
        _, comparisons = diff_model(data, given, engines, seed)
    except (KernelError, ModelFileError, OSError) as error:
        raise click.ClickException(f"{model}: {error}") from None
    click.echo(report(comparisons, engines))
    if any(each.difference is not None and each.difference.differing for each in comparisons):
        raise SystemExit(DIFFERENT)
