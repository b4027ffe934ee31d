"""`aisrv evaluate`: a model on a data set, with figures, a run folder and a report."""

import json
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from aisrv.addons.evaluate.cli.options import (
    ClusterOptions,
    DataOptions,
    FigureOptions,
    FolderOptions,
    OutputOptions,
    RunOptions,
)
from aisrv.terminal.command_group import INTERRUPTED
from aisrv.terminal.file_types import FILE, write_files
from aisrv.terminal.option_group import GroupedCommand, option_group
from aisrv.values.printable import printable

if TYPE_CHECKING:
    from aisrv.addons.evaluate.cluster import ClusterSettings
    from aisrv.addons.evaluate.evaluation import Outcome
    from aisrv.addons.evaluate.request import Request

NOT_MET: Final = 1
USAGE: Final = 2
TOO_MANY_FAILED: Final = 5

RUNS: Final = Path("runs")
"""Folder of the folders of runs."""

_TERMINAL_SECONDS: Final = 0.2
_LINE_SECONDS: Final = 5.0


class _EvaluateFailed(click.ClickException):
    """An evaluation without a result, with its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # which click means to be set


@click.command(cls=GroupedCommand)
@click.argument("model", type=FILE, required=False)
@click.argument("data", required=False)
@option_group("data_options", DataOptions, "Data options")
@option_group("run_options", RunOptions, "Run options")
@option_group("clusters", ClusterOptions, "Cluster options")
@option_group("figures", FigureOptions, "Figure options")
@option_group("output", OutputOptions, "Output options")
@option_group("folders", FolderOptions, "Folder options")
def evaluate(
    model: Path | None,
    data: str | None,
    data_options: DataOptions,
    run_options: RunOptions,
    clusters: ClusterOptions,
    figures: FigureOptions,
    output: OutputOptions,
    folders: FolderOptions,
) -> None:
    """Run MODEL on the examples of DATA, and say how right and how fast it is.

    DATA is a folder with a folder for each class; a table .csv or .parquet of files and labels; an archive
    .npz with x and y; an IDX file, as of MNIST; the address of one of these, as s3://bucket/photos; or
    digits, the 397 test images that aisrv brings, or digits:all. All is kept in a folder with a report: to
    run again runs what is missing or damaged.

    Exit codes: 0; 1 a bound is not met, a device gave other bytes, or --verify found something; 2 wrong
    usage, data, or another plan; 3 no device, engine or cluster; 4 time-out; 5 more examples failed than
    allowed; 130 after Ctrl-C, with the figures of what is there.

    \b
    Examples:
      aisrv evaluate digits.tflite digits
      aisrv evaluate person.tflite photos/ --input person.toml --show
      aisrv evaluate person.tflite photos/ --require "accuracy.low>=0.85"
      aisrv evaluate digits.tflite digits --against tflm --layers
      aisrv evaluate int8.tflite test.npz --against float.tflite --require "against.agreement>=0.99"
      aisrv evaluate net.tflite test.npz --on usb --limit 500
      aisrv evaluate person.tflite /data/photos --dask tls://127.0.0.1:8786 --out /data/runs/1
      aisrv evaluate --compare runs/before runs/after
    """
    from aisrv.addons.evaluate.errors import EvaluateError

    try:
        if folders.verify is not None:
            _verify(folders.verify)
        elif folders.compare is not None:
            _compare(*folders.compare, as_json=output.as_json)
        elif model is None or data is None:
            raise click.UsageError("MODEL and DATA are missing")
        else:
            request = _request(model, data, data_options, run_options, clusters, figures, output)
            if output.show:
                _show(request, output.picture)
            else:
                _evaluate(request, run_options, figures, output)
    except EvaluateError as error:
        raise _EvaluateFailed(str(error), getattr(error, "exit_code", USAGE)) from None
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise _EvaluateFailed(f"{name}{error.strerror or error}", USAGE) from None


def _request(
    model: Path,
    data: str,
    data_options: DataOptions,
    run_options: RunOptions,
    clusters: ClusterOptions,
    figures: FigureOptions,
    output: OutputOptions,
) -> "Request":
    from aisrv.addons.evaluate.figures import TaskSettings
    from aisrv.addons.evaluate.request import ENGINE, Request

    on = run_options.on or (ENGINE if run_options.devices is None else "device")
    if on == "device":
        on = "virtual"
    devices = run_options.devices or 1
    if devices > 1 and not on.startswith("virtual"):
        raise click.UsageError(f"--devices is for virtual devices, not for --on {on}")
    if devices > 1 and clusters.address is not None:
        raise click.UsageError("--devices are of this machine, --dask runs on others: leave one out")
    task = TaskSettings(
        figures.task, figures.top, figures.curves, figures.score, figures.mlperf, figures.metrics
    )
    return Request(
        model,
        data,
        data_options.labels,
        data_options.columns or {},
        data_options.inputs,
        data_options.limit,
        run_options.kind,
        on,
        run_options.processes,
        run_options.seconds,
        run_options.check,
        task,
        figures.against,
        figures.layers,
        output.out,
        output.parts,
        clusters.shard,
        _cluster(clusters, on),
        devices,
        data_options.memory,
    )


def _cluster(options: ClusterOptions, on: str) -> "ClusterSettings | None":
    from aisrv.addons.evaluate.cluster import ClusterSettings

    if options.address is None:
        if options.authority or options.certificate or options.key:
            raise click.UsageError("--tls-ca, --tls-cert and --tls-key are for --dask tls://…")
        return None
    if on != "engine" and not on.startswith("virtual"):
        raise click.UsageError(f"--on {on} is a device of this machine, --dask runs on others: leave one out")
    return ClusterSettings(options.address, options.authority, options.certificate, options.key, options.wait)


def _evaluate(
    request: "Request", run_options: RunOptions, figures: FigureOptions, output: OutputOptions
) -> None:
    from aisrv.addons.evaluate.evaluation import evaluate as run_evaluation
    from aisrv.addons.evaluate.evaluation import plan_of
    from aisrv.addons.evaluate.folder.result import unmet
    from aisrv.addons.evaluate.request import load
    from aisrv.addons.evaluate.terminal import describe

    loaded = load(request)
    if request.folder is None and output.parts:
        request = replace(request, folder=_folder(plan_of(request, loaded)))
    outcome = run_evaluation(request, Progress().show, loaded)
    Progress.clear()
    if request.folder is not None:
        _write_report(request.folder, outcome)
    if output.as_json:
        click.echo(json.dumps(outcome.result, indent=1, ensure_ascii=False))
    else:
        click.echo(describe(outcome.result, outcome.plan))
        if request.folder is not None:
            click.echo(f"\nkept in {request.folder}: see report.html")
    problems = unmet(outcome.result, figures.require)
    for problem in problems:
        click.echo(f"not met: {problem}", err=True)
    failed = len(outcome.answers.failed)
    if outcome.interrupted:
        count = outcome.result["examples"]
        click.echo(f"interrupted: {count:,} of {len(outcome.answers):,}", err=True)
        raise SystemExit(INTERRUPTED)
    if failed > run_options.max_failed:
        click.echo(f"{failed:,} examples failed, at most {run_options.max_failed:,} may", err=True)
        raise SystemExit(TOO_MANY_FAILED)
    check = outcome.result["check"]
    if problems or (check is not None and check["same"] is False):
        raise SystemExit(NOT_MET)


def _folder(plan: dict[str, Any]) -> Path:
    """Return the folder of the same plan in `runs`, else that of a new run of today."""
    from aisrv.addons.evaluate.folder.plan import folder_name

    name = folder_name(plan, datetime.now(UTC).date().isoformat())
    ending = name.partition("-")[2].partition("-")[2].partition("-")[2]
    found = sorted(RUNS.glob(f"????-??-??-{ending}")) if "*" not in ending else []
    return found[-1] if found else RUNS / name


def _write_report(folder: Path, outcome: "Outcome") -> None:
    """Write what is to be looked at, and anew the list of all files, which is the last of them."""
    from aisrv.addons.evaluate.folder.runs import write_run_list
    from aisrv.addons.evaluate.report import to_html, wrong_pictures
    from aisrv.values.whole_file import write_whole

    pictures = wrong_pictures(outcome)
    if pictures:
        (folder / "wrong").mkdir(exist_ok=True)
    for index, picture in pictures.items():
        write_whole(folder / "wrong" / f"{index}.png", [picture])
    for path in (folder / "wrong").glob("[0-9]*.png"):  # of an earlier run, which had not all examples
        if path.name not in {f"{index}.png" for index in pictures}:
            path.unlink()
    write_whole(folder / "report.html", [to_html(outcome, pictures).encode()])
    write_run_list(folder)


class Progress:
    """A line on standard error: how far a run is; on a terminal always the same line."""

    def __init__(self) -> None:
        self._start = self._shown = time.monotonic()
        self._first: int | None = None

    def show(self, done: int, total: int, wrong: int | None) -> None:
        """Show it, unless it was a moment ago."""
        if self._first is None:
            self._first = done
        now = time.monotonic()
        on_terminal = sys.stderr.isatty()
        if now - self._shown < (_TERMINAL_SECONDS if on_terminal else _LINE_SECONDS):
            return
        self._shown = now
        rate = (done - self._first) / (now - self._start)
        left = (total - done) / rate if rate else 0.0
        mistakes = "" if wrong is None else f", {wrong:,} wrong"
        text = f"{done:,} of {total:,}, {rate:,.0f} a second, {left:,.0f} s left{mistakes}"
        click.echo(f"\r\x1b[K{text}" if on_terminal else text, err=True, nl=not on_terminal)

    @staticmethod
    def clear() -> None:
        """Remove the line from a terminal."""
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)


def _show(request: "Request", picture: Path | None) -> None:
    from aisrv.addons.evaluate.inputs.settings import to_toml
    from aisrv.addons.evaluate.request import load
    from aisrv.addons.evaluate.running.device_run import example_rows
    from aisrv.addons.evaluate.sight import half_blocks, picture_of, png

    loaded = load(request)
    click.echo(to_toml(loaded.settings), nl=False)
    ((_, row, _, failure),) = example_rows(loaded.data, loaded.preparation, [0])
    if failure:
        raise _EvaluateFailed(f"example 0: {failure}", USAGE)
    name = loaded.data.name(0)
    label = loaded.labels[0]
    click.echo(f"\nexample 0{f', {name}' if name else ''}, label {label}:")
    pixels = picture_of(row, loaded.inputs[0], loaded.settings[0])
    if pixels is not None:
        click.echo(half_blocks(pixels))
        if picture is not None:
            write_files({picture: png(pixels)})
    spec = loaded.inputs[0]
    elements = spec.elements(row[: spec.nbytes]).ravel()
    values = spec.values(row[: spec.nbytes]).ravel()
    middle = max((len(elements) - 8) // 2, 0)
    shown = ", ".join(
        f"{e} ({v:.4g})" if spec.scale is not None else f"{e:.4g}"
        for e, v in zip(
            elements[middle : middle + 8].tolist(), values[middle : middle + 8].tolist(), strict=True
        )
    )
    click.echo(f"{spec}, elements from {middle} on: {shown}")


def _verify(folder: Path) -> None:
    from aisrv.addons.evaluate.folder.runs import verify
    from aisrv.addons.evaluate.sweep.folder import is_sweep, verify_sweep

    problems = verify_sweep(folder) if is_sweep(folder) else verify(folder)
    for problem in problems:
        click.echo(printable(problem), err=True)
    if problems:
        raise SystemExit(NOT_MET)
    if is_sweep(folder):
        click.echo(f"{folder}: all files are as they were written")
    else:
        click.echo(f"{folder}: each example is there once, and all files are as they were written")


def _compare(one: Path, other: Path, *, as_json: bool) -> None:
    from aisrv.addons.evaluate.folder.runs import compare_folders, describe_comparison

    found = compare_folders(one, other)
    click.echo(json.dumps(found, indent=1, ensure_ascii=False) if as_json else describe_comparison(found))
