"""`aisrv diff-engines`: run a model in two engines and name the first operator in which they part."""

import random
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aisrv.cli.options.engine_kind import ENGINE_KIND
from aisrv.protocol.engine_kind import EngineKind
from aisrv.terminal.file_types import FILE

if TYPE_CHECKING:
    from aisrv.analysis.engine_comparison import Comparison
    from aisrv.model import Model

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
        chance = random.Random(seed)  # noqa: S311 - inputs that can be had again, no secrets
        inputs = [chance.randbytes(tensor.nbytes) for tensor in model.input_tensors]
    sizes = [tensor.nbytes for tensor in model.input_tensors]
    if [len(each) for each in inputs] != sizes:
        raise EngineError(f"inputs have {[len(each) for each in inputs]} bytes, the model takes {sizes}")
    one, other = (run_engine(engine, data, inputs) for engine in engines)
    return model, compare(model, one, other)


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
    help="Raw bytes of an input tensor, one file for each in order. [default: random bytes]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random bytes.")
@click.option(
    "--engines",
    nargs=2,
    type=ENGINE_KIND,
    default=("kernels", "tflm"),
    show_default=True,
    help="kernels, kernels:NAME, tflm or tflite.",
)
def diff_engines(
    model: Path, inputs: tuple[Path, ...], seed: int, engines: tuple[EngineKind, EngineKind]
) -> None:
    """Run MODEL once in two engines and compare everything that its operators write.

    Ends with exit code 1 where they differ, and names the first operator that does, and by how much. The
    engines run in this process: a model that crashes one crashes the command.

    \b
    Examples:
      aisrv diff-engines person.tflite
      aisrv diff-engines person.tflite --engines kernels:mine kernels
      aisrv diff-engines person.tflite --engines kernels tflite --input picture.raw
    """
    from aisrv.kernels.errors import KernelError
    from aisrv.model import ModelFileError

    try:
        given = [path.read_bytes() for path in inputs] if inputs else None
        _, comparisons = diff_model(model.read_bytes(), given, engines, seed)
    except (KernelError, ModelFileError, OSError) as error:
        raise click.ClickException(f"{model}: {error}") from None
    click.echo(report(comparisons, engines))
    if any(each.difference is not None and each.difference.differing for each in comparisons):
        raise SystemExit(DIFFERENT)
