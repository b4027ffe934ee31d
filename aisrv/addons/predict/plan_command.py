"""`aisrv model plan`: places of the tensors of a model in the arena, as text, JSON, SVG or PNG."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from aisrv.terminal.file_types import FILE, NEW_FILE, write_files
from aisrv.values.extras import import_failure
from aisrv.values.regular_file import read_regular

if TYPE_CHECKING:
    from aisrv.model import Model
    from aisrv.model.arena_plan import ArenaPlan


def plan_file(path: Path, backend: str) -> "tuple[Model, ArenaPlan]":
    """Plan a model file for a backend by name. Raises KernelError, ModelFileError, OSError."""
    from aisrv.addons.kernels.backends.registry import find_backend
    from aisrv.addons.kernels.network.plan import plan_network
    from aisrv.model.reader import read_model

    model = read_model(read_regular(path))
    return model, plan_network(model, find_backend(backend))


def plan_json(model: "Model", plan: "ArenaPlan") -> str:
    """Return a plan as JSON: sizes and offsets in bytes, steps as in Allocation."""
    from aisrv.addons.predict.arena_drawing import summarize
    from aisrv.model.control_flow import flat

    summary = summarize(plan)
    model = flat(model)
    buffers = [
        {
            **asdict(each),
            "tensor": each.tensor if each.tensor < len(model.tensors) else None,
            "name": model.tensors[each.tensor].name if each.tensor < len(model.tensors) else "scratch",
        }
        for each in plan.allocations
    ]
    return json.dumps(
        {
            "head": summary.head,
            "lower_bound": summary.lower_bound,
            "fullest_step": summary.fullest_step,
            "fullest": [each.tensor for each in summary.fullest],
            "highest": [each.tensor for each in summary.highest],
            "operators": [operator.name for operator in model.operators],
            "buffers": buffers,
        },
        indent=2,
    )


@click.command()
@click.argument("model", type=FILE)
@click.option(
    "--kernels", default="numpy", show_default=True, help="Backend whose scratch memory is planned."
)
@click.option("--svg", type=NEW_FILE, help="Write the drawing to this SVG file.")
@click.option("--png", type=NEW_FILE, help="Write the drawing to this PNG file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(model: Path, kernels: str, svg: Path | None, png: Path | None, as_json: bool) -> None:
    """Draw where the tensors of MODEL lie in the arena: operators to the right, offsets upwards.

    It is TensorFlow Lite Micro's own plan, with the scratch memory that its kernels ask for. The lower bound
    is what is alive in the fullest step.

    \b
    Examples:
      aisrv model plan person.tflite
      aisrv model plan person.tflite --svg plan.svg
      aisrv model plan person.tflite --json
    """
    from aisrv.addons.kernels.errors import KernelError
    from aisrv.model import ModelFileError

    try:
        loaded, planned = plan_file(model, kernels)
        drawings = _drawings(loaded, planned, svg, png)
    except (KernelError, ModelFileError, OSError) as error:
        raise click.ClickException(f"{model}: {error}") from None
    except ImportError as error:
        raise click.ClickException(import_failure("writing pictures needs Pillow", error, "images")) from None
    if drawings:
        write_files(drawings)
    if as_json:
        click.echo(plan_json(loaded, planned))
    elif not drawings:
        from aisrv.addons.predict.arena_drawing import to_text

        click.echo(to_text(loaded, planned), nl=False)


def _drawings(
    model: "Model", planned: "ArenaPlan", svg: Path | None, png: Path | None
) -> dict[Path, str | bytes]:
    from aisrv.addons.predict.arena_drawing import picture, to_png, to_svg

    files: dict[Path, str | bytes] = {}
    if svg is not None:
        files[svg] = to_svg(picture(model, planned))
    if png is not None:
        files[png] = to_png(picture(model, planned))
    return files
