"""`aisrv model diff`: run a model in two engines and name the first operator in which they part."""

import json
import math
import random
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import click

from aisrv.addons.kernels.addon import KERNELS
from aisrv.cli.options.engine_kind import ENGINE_KIND
from aisrv.protocol.engine_kind import EngineKind
from aisrv.terminal.file_types import FILE
from aisrv.terminal.require_linux import require_linux
from aisrv.values.extras import install_command
from aisrv.values.regular_file import read_regular

if TYPE_CHECKING:
    from aisrv.addons.predict.engine_comparison import Comparison, EngineError, TensorDifference, Tensors
    from aisrv.model import Tensor

    EngineRun: TypeAlias = Callable[[EngineKind, bytes, Sequence[bytes]], Tensors]
    """Runs an engine once on a model's file and inputs. Raises KernelError, ModelFileError."""

PEERS: Final = {"tflm": "tflite_micro", "tflite": "tflite_runtime", "litert": "ai_edge_litert"}
"""Engines to compare our kernels with, the nearest to the device first, and the packages that they need."""

DIFFERENT = 1
"""Exit code if the engines differ, and for every error."""


class EngineResult(NamedTuple):
    """Result of one engine."""

    engine: EngineKind
    tensors: int
    """Tensors of the run that can be read."""
    failure: str | None = None


class EnginesDiff(NamedTuple):
    """Results of two engines and their differences; nothing is compared unless both ran."""

    results: tuple[EngineResult, ...]
    comparisons: "tuple[Comparison, ...]"

    @property
    def same(self) -> bool:
        """Return whether both ran, and nothing that can be compared differs."""
        failed = any(each.failure is not None for each in self.results)
        return not failed and not _apart(self.comparisons)


def diff_model(
    data: bytes,
    inputs: "list[bytes] | None",
    engines: tuple[EngineKind, EngineKind],
    seed: int = 0,
    run: "EngineRun | None" = None,
) -> EnginesDiff:
    """Run a model once in both engines, on random inputs if there are none.

    Each runs in a process of its own, unless `run` is another way. Raises EngineError, ModelFileError.
    """
    from aisrv.addons.kernels.errors import KernelError
    from aisrv.addons.predict.engine_comparison import EngineError, compare
    from aisrv.model import ModelFileError
    from aisrv.model.reader import read_model

    model = read_model(data)
    if inputs is None:
        chance = random.Random(seed)  # noqa: S311 - inputs that are available again, no secrets
        inputs = [chance.randbytes(tensor.nbytes) for tensor in model.input_tensors]
    sizes = [tensor.nbytes for tensor in model.input_tensors]
    if [len(each) for each in inputs] != sizes:
        raise EngineError(f"inputs have {[len(each) for each in inputs]} bytes, the model takes {sizes}")
    if run is None:
        from aisrv.addons.predict.engine_process import run_apart

        run = run_apart
    results, found = [], []
    for engine in engines:
        try:
            found.append(run(engine, data, inputs))
            results.append(EngineResult(engine, len(found[-1])))
        except (KernelError, ModelFileError) as error:
            results.append(EngineResult(engine, 0, str(error)))
    return EnginesDiff(tuple(results), compare(model, *found) if len(found) == len(engines) else ())


def _apart(comparisons: "Sequence[Comparison]") -> "list[tuple[Comparison, TensorDifference]]":
    compared = ((each, each.difference) for each in comparisons)
    return [(each, found) for each, found in compared if found is not None and found.differing]


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
    from aisrv.model.dtypes import DTYPES
    from host_tools.tensors.npy import read_npy

    try:
        array = read_npy(path)
    except ValueError as error:
        raise _engine_error(f"{path} is not a .npy file: {error}") from None
    wanted = DTYPES.get(tensor.type)
    if array.dtype != wanted or array.size * array.itemsize != tensor.nbytes:
        raise _engine_error(
            f"{path} has {array.dtype} {list(array.shape)}, the input {tensor.name!r} is {wanted} "
            f"{list(tensor.shape)}"
        )
    return bytes(array.tobytes())


def _engine_error(text: str) -> "EngineError":
    from aisrv.addons.predict.engine_comparison import EngineError

    return EngineError(text)


def default_engines() -> tuple[EngineKind, EngineKind]:
    """Return our kernels and the best peer that is installed. Raises EngineError if there is none."""
    for name, package in PEERS.items():
        if find_spec(package) is not None:
            return EngineKind(KERNELS), EngineKind(name)
    raise _engine_error(f"no other engine is installed to compare with: {install_command('tflm')}")


def report(diff: EnginesDiff) -> str:
    """Describe the result in a line or two for each tensor that differs, the first difference above all.

    If an engine did not run, there is a line for each engine.
    """
    if any(each.failure is not None for each in diff.results):
        return "\n".join(f"{each.engine}: {each.failure or 'ran the model'}" for each in diff.results)
    apart = _apart(diff.comparisons)
    skipped = sum(each.difference is None for each in diff.comparisons)
    compared = len(diff.comparisons) - skipped
    tail = f"; {skipped} cannot be read in both" if skipped else ""
    names = " and ".join(str(each.engine) for each in diff.results)
    if not apart:
        return f"{names} are equal in all {compared} tensors{tail}"
    lines = [f"{names} differ in {len(apart)} of {compared} tensors{tail}"]
    lines += [("first: " if number == 0 else "       ") + _line(*each) for number, each in enumerate(apart)]
    return "\n".join(lines)


def _line(each: "Comparison", difference: "TensorDifference") -> str:
    return (
        f"operator {each.operator.index} ({each.operator.name}), tensor {each.tensor}: "
        f"{difference.differing:,} of {difference.elements:,} elements, by up to {difference.largest:g}"
    )


def diff_values(diff: EnginesDiff) -> dict[str, object]:
    """Return the result for JSON; "largest" is null if one of two floats is not a number."""
    skipped = sum(each.difference is None for each in diff.comparisons)
    return {
        "same": diff.same,
        "engines": [
            {"engine": str(each.engine), "tensors": each.tensors, "failure": each.failure}
            for each in diff.results
        ],
        "compared": len(diff.comparisons) - skipped,
        "not_in_both": skipped,
        "differences": [
            {
                "operator": each.operator.index,
                "name": each.operator.name,
                "tensor": each.tensor,
                "elements": difference.elements,
                "differing": difference.differing,
                "largest": difference.largest if math.isfinite(difference.largest) else None,
            }
            for each, difference in _apart(diff.comparisons)
        ],
    }


@click.command()
@require_linux("model diff")
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff(
    model: Path,
    inputs: tuple[Path, ...],
    seed: int,
    engines: tuple[EngineKind, EngineKind] | None,
    as_json: bool,
) -> None:
    """Run MODEL once in two engines and compare everything that its operators write.

    The exit code is 1 if they differ, or one does not run the model. The first operator that differs is
    named, with the largest difference. Each engine runs in a process of its own: where a model crashes it,
    that is its result.

    \b
    Examples:
      aisrv model diff person.tflite
      aisrv model diff person.tflite --engines kernels:mine kernels
      aisrv model diff person.tflite --engines kernels litert --input picture.npy
      aisrv model diff person.tflite --json
      aisrv model diff two.tflite --engines tflm my_engine:Engine --input left.npy --input right.npy
    """
    from aisrv.addons.kernels.errors import KernelError
    from aisrv.model import ModelFileError

    try:
        data = read_regular(model)
        given = read_inputs(data, inputs) if inputs else None
        engines = engines or default_engines()
        found = diff_model(data, given, engines, seed)
    except (KernelError, ModelFileError, OSError) as error:
        raise click.ClickException(f"{model}: {error}") from None
    click.echo(json.dumps(diff_values(found), indent=2) if as_json else report(found))
    if not found.same:
        raise SystemExit(DIFFERENT)
