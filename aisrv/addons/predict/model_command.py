"""`aisrv model`: its subcommands; of a model `show` says what is in it and what each engine says of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aisrv.cli.options.board import complete_board
from aisrv.terminal.command_group import LazyGroup
from aisrv.terminal.file_types import FILE, NEW_FILE, write_files
from aisrv.values.regular_file import read_regular

if TYPE_CHECKING:
    from aisrv.inference.timings import DeviceModel


def engines_to_ask() -> list[str]:
    """Return the engines and kernel backends that there are, as `--engine` takes them."""
    from aisrv.cli.backends import list_backends

    return [each.name for each in list_backends()]


def device_of(board: str | None) -> "DeviceModel | None":
    """Return the device that a board's first engine is; None without one. A usage error where it is none."""
    if board is None:
        return None
    from aisrv.board import BoardError
    from aisrv.board.catalog import find_board
    from aisrv.device.tasks import device_model

    try:
        found = find_board(board)
    except BoardError as error:
        raise click.UsageError(str(error)) from None
    return device_model(found, found.engines[0])


COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "diff": ("aisrv.addons.predict.diff_command:diff", "Compare two engines, tensor by tensor."),
    "plan": ("aisrv.addons.predict.plan_command:plan", "Draw where a model's tensors lie in the arena."),
    "show": (
        "aisrv.addons.predict.model_command:show",
        "Show what is in a model, as text, JSON or a drawing.",
    ),
}
"""Module and function of each subcommand, and its line in the help."""


class ModelGroup(LazyGroup):
    """The group of commands."""

    places = COMMANDS


@click.group(cls=ModelGroup)
def model() -> None:
    """Look into model files.

    \b
    Examples:
      aisrv model show person.tflite
      aisrv model show person.tflite --board app_profiling --json
      aisrv model plan person.tflite --svg plan.svg
      aisrv model diff person.tflite --engines kernels:mine kernels
    """


@click.command()
@click.argument("file", type=FILE)
@click.option("--svg", type=NEW_FILE, help="Only write the drawing to this SVG file.")
@click.option(
    "--board",
    metavar="NAME|FILE",
    shell_complete=complete_board,
    help="Board whose first engine the times are for. [default: as the file's tools had it]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(file: Path, svg: Path | None, board: str | None, as_json: bool) -> None:
    """Show what is in the model FILE: operators, tensors, labels, metadata, and what each engine says of it.

    Times are predictions, each with between what it is expected to be. An engine loads the model and runs it
    once on zeros, in a process of its own. The drawing has a box for each operator, and shows all that is
    known of it under the mouse; above 500 operators chains are folded.

    \b
    Examples:
      aisrv model show person.tflite
      aisrv model show person.tflite --svg person.svg
      aisrv model show person.tflite --json
    """
    from aisrv.addons.predict.model_view import view_model
    from aisrv.model import ModelFileError

    device = device_of(board)
    try:
        data = read_regular(file)
        view = view_model(data, file.name, device)
    except (ModelFileError, OSError) as error:
        raise click.ClickException(f"{file}: {error}") from None
    if svg is not None:
        from aisrv.addons.predict.model_view.drawing import to_svg

        write_files({svg: to_svg(view)})
        if not as_json:
            return
    from aisrv.addons.predict.model_view.engines import answers_of

    if not as_json:
        from aisrv.addons.predict.model_view.text import to_text

        click.echo(to_text(view))  # engines take their time
        click.echo("Engines")
    answers = answers_of(data, engines_to_ask())
    if as_json:
        engines = [each._asdict() for each in answers]
        click.echo(json.dumps({**view.as_json(), "engines": engines}, indent=2, allow_nan=False))
    for answer in () if as_json else answers:
        click.echo(f"  {answer}")
