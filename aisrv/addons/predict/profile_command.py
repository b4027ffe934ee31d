"""`aisrv profile`: times and memory of models on the device, as tables, JSON, CSV or an HTML report."""

import errno
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from aisrv.terminal.file_types import FILE, NEW_FILE, write_files
from aisrv.terminal.option_group import GroupedCommand, option, option_group
from aisrv.values.regular_file import read_regular
from aisrv.values.settings.size import Size
from aisrv.values.settings.size_option import SIZE

if TYPE_CHECKING:
    from aisrv.addons.predict.profile import ModelProfile, Suite, SuiteSettings
    from aisrv.addons.predict.profile.end_to_end import EndToEnd

MAX_MODEL_BYTES = 256 * 1024 * 1024


class _Positive(click.FloatRange):
    """A number above 0; the range alone lets pass what is not a number."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


_POSITIVE = _Positive(0, 1e6, min_open=True)


class _Flash(click.ParamType[str | float]):
    """`server`, `fast`, or MB/s."""

    name = "server|fast|MB/s"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | float:
        if value in ("server", "fast"):
            return value
        try:
            return _POSITIVE.convert(value, param, ctx)  # type: ignore[arg-type]  # as the text may be a number
        except click.BadParameter:
            self.fail(f"{value!r} is neither server nor fast, nor a rate in MB/s above 0", param, ctx)


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """Settings of the device that override those of a file; None leaves the file's."""

    threads: int | None = option(
        "--threads", type=click.IntRange(1, 5), help="Threads of an inference. [default: 1]"
    )
    clock: float | None = option(
        "--clock",
        type=_POSITIVE,
        help="Core clock in MHz. [default: 700 for files of 2021 and 2022, else 600]",
    )
    reference: float | None = option(
        "--reference",
        type=_POSITIVE,
        help="Clock that a timer counts, in MHz: ticks are of it. "
        "[default: 175 for files of 2021 and 2022, else 100]",
    )
    generation: Literal["2021", "2022", "2023", "2024"] | None = option(
        "--generation",
        type=click.Choice(["2021", "2022", "2023", "2024"]),
        help="Year of the tools that made the files. [default: each file tells]",
    )
    kernels: str | None = option(
        "--kernels",
        type=click.Choice(["optimized", "reference"]),
        help="Kernels for operators that XMOS's converter did not replace. [default: optimized]",
    )
    parameters: Literal["auto", "internal", "external"] | None = option(
        "--parameters",
        type=click.Choice(["auto", "internal", "external"]),
        help="Memory of the parameters; auto: external where file and arena do not fit a tile together. "
        "[default: auto]",
    )
    arena_memory: str | None = option(
        "--arena-memory",
        type=click.Choice(["internal", "external"]),
        help="Memory of the tensor arena. [default: internal]",
    )
    external_clock: float | None = option(
        "--external-clock",
        type=_POSITIVE,
        help="Clock of the external memory in MHz. [default: an eighth of the core clock]",
    )
    flash: str | float | None = option(
        "--flash",
        "--flash-rate",
        type=_Flash(),
        help="How parameters come from flash: by the flash server, by fast flash, or at MB/s. "
        "[default: fast for files of 2024, else server]",
    )
    arena: int | None = option("--arena", type=SIZE, help="Tensor arena of the engine. [default: 448K]")
    external: int | None = option(
        "--external", type=SIZE, help="External memory of the engine. [default: 16M]"
    )

    def settings(self) -> "SuiteSettings":
        from aisrv.addons.predict.profile import SuiteSettings
        from aisrv.inference.timings import Kernels, Memory

        return SuiteSettings(
            threads=self.threads,
            clock=self.clock,
            reference=self.reference,
            kernels=None if self.kernels is None else Kernels(self.kernels),
            generation=self.generation,
            parameters=self.parameters,
            arena_memory=None if self.arena_memory is None else Memory(self.arena_memory),
            external_clock=self.external_clock,
            flash=self.flash,  # type: ignore[arg-type]  # the option allows no other text
            arena=None if self.arena is None else Size(self.arena),
            external=None if self.external is None else Size(self.external),
        )


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The form of the report; a table if none is given."""

    as_json: bool = option("--json", default=False, is_flag=True, help="Print JSON.")
    as_csv: bool = option("--csv", default=False, is_flag=True, help="Print CSV, one row for each operator.")
    html: Path | None = option(
        "--html",
        type=NEW_FILE,
        help="Write a report with charts to this file.",
    )


class _Link(click.ParamType[str]):
    """`usb`, or `spi:HZ`."""

    name = "usb|spi:HZ"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        scheme, _, clock = value.partition(":")
        is_spi = scheme == "spi" and clock.isdecimal() and 1_000 <= int(clock) <= 50_000_000
        if value != "usb" and not is_spi:
            self.fail(f"{value!r} is neither usb nor spi:HZ with a clock of 1000 to 50000000", param, ctx)
        return value


@dataclass(frozen=True, slots=True)
class EndToEndOptions:
    """The whole way of an inference, from a host and back."""

    wanted: bool = option(
        "--end-to-end",
        default=False,
        is_flag=True,
        help="Predict a host's commands, upload to output: wire, device, inference.",
    )
    link: str = option(
        "--host", default="usb", show_default=True, type=_Link(), help="How the host reaches the device."
    )
    camera: float | None = option(
        "--camera", metavar="FPS", type=_POSITIVE, help="A camera that streams frames into the engine."
    )
    host_us: float = option(
        "--host-us",
        metavar="N",
        type=click.FloatRange(0, 1e6),
        default=0.0,
        show_default=True,
        help="Time of the host for each command over USB, in microseconds.",
    )

    def check(self, report: ReportOptions) -> None:
        """Raise UsageError for options that do not go together."""
        if not self.wanted:
            if self != EndToEndOptions():
                raise click.UsageError("--host, --camera and --host-us need --end-to-end")
        elif report.as_csv or report.html is not None:
            raise click.UsageError("--end-to-end is shown in the terminal or with --json")
        elif self.host_us and self.link != "usb":
            raise click.UsageError("--host-us is for --host usb: over SPI the host polls back to back")

    def predict(self, profile: "ModelProfile") -> "EndToEnd":
        """Predict the commands of one model. Raises ProfileError."""
        from aisrv.addons.predict.profile.end_to_end import predict, spi, usb

        link = usb if self.link == "usb" else spi(int(self.link.partition(":")[2]))
        return predict(profile, link, self.link, self.host_us, self.camera)


def _suite(models: tuple[Path, ...], file: Path | None) -> "Suite":
    """Return models of the command line, else of the file, on the file's configurations, if any."""
    from aisrv.addons.predict.profile import Configuration, Suite, SuiteModel, load_suite

    suite = Suite((), (Configuration(),)) if file is None else load_suite(file)
    if models:
        suite = replace(suite, models=tuple(SuiteModel(model, model.name) for model in models))
    if not suite.models:
        raise click.UsageError("no models: name them, or list them in the file of --config")
    return suite


def profile_suite(suite: "Suite", settings: "SuiteSettings", runs: int | None) -> "list[ModelProfile]":
    """Profile all models of a suite on all its configurations, changed by settings. Raises ProfileError."""
    from aisrv.addons.predict.profile import measure_host, profile_model

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
    from aisrv.addons.predict.profile import ProfileError

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
@option_group("way", EndToEndOptions)
@option_group("report", ReportOptions)
def profile(
    models: tuple[Path, ...],
    config: Path | None,
    device: DeviceSettings,
    runs: int | None,
    way: EndToEndOptions,
    report: ReportOptions,
) -> None:
    """Predict what models take on the device: time by operator, memory, and what threads and clock change.

    One model is shown in all details, several beside each other. Times are computed, from published runs of
    XMOS's kernels; each says between what it is expected to be, and what it rests on.

    \b
    Examples:
      aisrv profile person.tflite
      aisrv profile person.tflite --threads 5 --clock 800
      aisrv profile large.tflite --parameters external --flash fast
      aisrv profile before.tflite after.tflite
      aisrv profile person.tflite --kernels reference --run 20
      aisrv profile --config suite.toml --html report.html
      aisrv profile person.tflite --end-to-end --host spi:10000000
      aisrv profile person.tflite --csv > operators.csv
    """
    from aisrv.addons.predict.profile import ProfileError

    if report.as_json and report.as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    way.check(report)
    try:
        profiles = profile_suite(_suite(models, config), device.settings(), runs)
        ways = [way.predict(each) for each in profiles] if way.wanted else None
    except ProfileError as error:
        raise click.ClickException(str(error)) from None
    if report.html is not None:
        from aisrv.addons.predict.profile.html_report import to_html

        write_files({report.html: to_html(profiles)})
    if report.as_json or report.as_csv:
        from aisrv.addons.predict.profile.export import to_csv, to_json

        click.echo(to_json(profiles, ways) if report.as_json else to_csv(profiles), nl=report.as_json)
    elif ways is not None:
        from rich.console import Console

        from aisrv.addons.predict.profile.end_to_end_report import show_end_to_end

        for each, times in zip(profiles, ways, strict=True):
            show_end_to_end(Console(), each, times)
    elif report.html is None:
        from rich.console import Console

        from aisrv.addons.predict.profile.terminal import show

        show(Console(), profiles)
