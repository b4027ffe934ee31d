"""`aisrv sweep`: models on boards by clock, threads and memory, and the smallest that is good enough."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aisrv.addons.evaluate.cli.evaluate import Progress
from aisrv.terminal.command_group import INTERRUPTED
from aisrv.terminal.file_types import FILE, NEW_FILE, write_files

if TYPE_CHECKING:
    from aisrv.addons.evaluate.sweep.sweep import SweepResult

_RUN: Final = click.Path(file_okay=False, path_type=Path)
"""The folder of a sweep: accuracies are named by what they depend on, so that no other is overwritten."""

NOT_MET: Final = 1
USAGE: Final = 2


class _SweepFailed(click.ClickException):
    """A sweep without a result, with its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # which click means to be set


@click.command()
@click.argument("file", metavar="SWEEP.toml", type=FILE)
@click.option("--html", type=NEW_FILE, help="Write a report with a chart to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all cells.")
@click.option(
    "--processes", type=click.IntRange(1, 1024), help="Engine processes. [default: one for each processor]"
)
@click.option("--out", type=_RUN, help="Folder that keeps all, and goes on where it ended.")
def sweep(file: Path, html: Path | None, as_json: bool, processes: int | None, out: Path | None) -> None:
    """Find out which boards run models fast enough, and right enough.

    SWEEP.toml names models, boards, and lists of clocks, threads, arenas and memories; each value is tried
    with each of the others. Time is predicted; accuracy is measured once for each model, on the data that the
    file names, and no longer than it takes to tell whether it is what is wanted. Listed are all that nothing
    beats in latency, memory and accuracy at once, and the smallest board that does what is wanted.

    Exit codes: 0; 1 no board does what is wanted; 2 wrong usage, file, model or data; 3 no such engine;
    130 after Ctrl-C, with what is done.

    \b
    Examples:
      aisrv sweep sweep.toml
      aisrv sweep sweep.toml --html sweep.html
      aisrv sweep sweep.toml --out sweeps/boards
      aisrv sweep sweep.toml --json > sweep.json

    \b
    A file:
      models = ["small.tflite", "large.tflite"]
      boards = ["single", "no-flash"]
      [axes]
      clock = [600, 800]
      threads = [1, 5]
      [data]
      path = "test.npz"
      [want]
      rate = 20
      accuracy = 0.9
    """
    from aisrv.addons.evaluate.errors import EvaluateError
    from aisrv.addons.evaluate.sweep.folder import SweepFolder
    from aisrv.addons.evaluate.sweep.settings import load_sweep
    from aisrv.addons.evaluate.sweep.sweep import run_sweep

    try:
        count = processes or len(os.sched_getaffinity(0))
        loaded = load_sweep(file)
        folder = None if out is None else SweepFolder(out)
        result = run_sweep(loaded, count, lambda _name: Progress().show, folder)
    except EvaluateError as error:
        raise _SweepFailed(str(error), getattr(error, "exit_code", USAGE)) from None
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise _SweepFailed(f"{name}{error.strerror or error}", USAGE) from None
    finally:
        Progress.clear()
    if out is not None and folder is not None:
        _keep(result, out)
        folder.write_list()
    _show(result, html, as_json=as_json)
    if result.interrupted:
        click.echo("interrupted: this is what was done until then", err=True)
        raise SystemExit(INTERRUPTED)
    if result.late:
        click.echo(f"stopped after {result.sweep.stop.minutes:g} minutes", err=True)
    if result.asks and result.smallest is None:
        raise SystemExit(NOT_MET)


def _keep(result: "SweepResult", folder: Path) -> None:
    """Write the result and the report into the folder of the sweep."""
    from aisrv.addons.evaluate.sweep.export import values
    from aisrv.addons.evaluate.sweep.report import to_html

    content = json.dumps(values(result), indent=1, ensure_ascii=False) + "\n"
    write_files({folder / "result.json": content, folder / "report.html": to_html(result)})


def _show(result: "SweepResult", html: Path | None, *, as_json: bool) -> None:
    if html is not None:
        from aisrv.addons.evaluate.sweep.report import to_html

        write_files({html: to_html(result)})
    if as_json:
        from aisrv.addons.evaluate.sweep.export import values

        click.echo(json.dumps(values(result), indent=1, ensure_ascii=False))
    else:
        from aisrv.addons.evaluate.sweep.terminal import describe

        click.echo(describe(result))
