"""`aisrv profile`: what models would take on the device, as tables, JSON, CSV or an HTML report."""

import errno
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aisrv.regular_file import read_regular
from aisrv.settings.size import Size
from aisrv.settings.size_option import SIZE
from aisrv.terminal.file_types import FILE, NEW_FILE
from aisrv.terminal.option_group import GroupedCommand, option, option_group
from aisrv.terminal.written_files import write_files

if TYPE_CHECKING:
    from aisrv.analysis.profile import ModelProfile, Suite, SuiteSettings

MAX_MODEL_BYTES = 256 * 1024 * 1024


class _Positive(click.FloatRange):
    """A number above 0; the range alone lets pass what is not a number."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


_POSITIVE = _Positive(0, 1e6, min_open=True)


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """Settings of the device that count more than those of a file; None leaves the file's."""

    threads: int | None = option(
        "--threads", type=click.IntRange(1, 5), help="Threads of an inference. [default: 1]"
    )
    clock: float | None = option("--clock", type=_POSITIVE, help="Core clock in MHz. [default: 600]")
    kernels: str | None = option(
        "--kernels",
        type=click.Choice(["optimized", "reference"]),
        help="Kernels for operators that XMOS's converter did not replace. [default: optimized]",
    )
    flash_rate: float | None = option(
        "--flash-rate",
        type=_POSITIVE,
        help="Rate of the flash in MB/s; fast flash has 50. [default: 12.5]",
    )
    arena: int | None = option("--arena", type=SIZE, help="Tensor arena of the engine. [default: 448K]")
    external: int | None = option(
        "--external", type=SIZE, help="External memory of the engine. [default: 16M]"
    )

    def settings(self) -> "SuiteSettings":
        """Return the settings as profiles take them."""
        from aisrv.analysis.profile import SuiteSettings
        from aisrv.inference.timings import Kernels

        return SuiteSettings(
            threads=self.threads,
            clock=self.clock,
            kernels=None if self.kernels is None else Kernels(self.kernels),
            flash_rate=self.flash_rate,
            arena=None if self.arena is None else Size(self.arena),
            external=None if self.external is None else Size(self.external),
        )


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The form of the report; a table where none is given."""

    as_json: bool = option("--json", default=False, is_flag=True, help="Print JSON.")
    as_csv: bool = option("--csv", default=False, is_flag=True, help="Print CSV, one row for each operator.")
    html: Path | None = option(
        "--html",
        type=NEW_FILE,
        help="Write a report with charts to this file.",
    )


def _suite(models: tuple[Path, ...], file: Path | None) -> "Suite":
    """Models of the command line, else of the file, on the configurations of the file, if there is one."""
    from aisrv.analysis.profile import Configuration, Suite, SuiteModel, load_suite

    suite = Suite((), (Configuration(),)) if file is None else load_suite(file)
    if models:
        suite = replace(suite, models=tuple(SuiteModel(model, model.name) for model in models))
    if not suite.models:
        raise click.UsageError("no models: name them, or list them in the file of --config")
    return suite


def profile_suite(suite: "Suite", settings: "SuiteSettings", runs: int | None) -> "list[ModelProfile]":
    """Profile all models of a suite on all its configurations, changed by settings; ProfileError."""
    from aisrv.analysis.profile import measure_host, profile_model

    profiles = []
    for model in suite.models:
        data = _read(model.path)
        host = None
        for configuration in suite.configurations:
            changed = settings.over(configuration, configuration.name)
            profiled = profile_model(data, changed, name=model.name)
            if runs is not None and host is None:
                host = measure_host(data, runs, name=profiled.name)
            profiles.append(replace(profiled, host=host))
    return profiles


def _read(path: Path) -> bytes:
    from aisrv.analysis.profile import ProfileError

    try:
        return read_regular(path, MAX_MODEL_BYTES)
    except OSError as error:
        too_large = f"more than {MAX_MODEL_BYTES:,} bytes are not a model for the device"
        raise ProfileError(f"{path}: {too_large if error.errno == errno.EFBIG else error.strerror}") from None


@click.command(cls=GroupedCommand)
@click.argument("models", nargs=-1, type=FILE)
@click.option(
    "--config",
    type=FILE,
    help="TOML file of models and configurations; options of the command line override it.",
)
@option_group("device", DeviceSettings)
@click.option(
    "--run", "runs", type=click.IntRange(1, 100_000), help="Run each model this many times on this host."
)
@option_group("report", ReportOptions)
def profile(
    models: tuple[Path, ...],
    config: Path | None,
    device: DeviceSettings,
    runs: int | None,
    report: ReportOptions,
) -> None:
    """Predict what models take on the device: time by operator, memory, and what threads and clock change.

    One model is shown in all details, several beside each other. Times are computed, from published runs of
    XMOS's kernels; what is only an estimate says so.

    \b
    Examples:
      aisrv profile person.tflite
      aisrv profile person.tflite --threads 5 --clock 800
      aisrv profile before.tflite after.tflite
      aisrv profile person.tflite --kernels reference --run 20
      aisrv profile --config suite.toml --html report.html
      aisrv profile person.tflite --csv > operators.csv
    """
    from aisrv.analysis.profile import ProfileError

    if report.as_json and report.as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    try:
        profiles = profile_suite(_suite(models, config), device.settings(), runs)
    except ProfileError as error:
        raise click.ClickException(str(error)) from None
    if report.html is not None:
        from aisrv.analysis.profile.html_report import to_html

        write_files({report.html: to_html(profiles)})
    if report.as_json or report.as_csv:
        from aisrv.analysis.profile.export import to_csv, to_json

        click.echo(to_json(profiles) if report.as_json else to_csv(profiles), nl=report.as_json)
    elif report.html is None:
        from rich.console import Console

        from aisrv.analysis.profile.terminal import show

        show(Console(), profiles)
