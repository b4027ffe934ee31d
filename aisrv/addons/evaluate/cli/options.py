"""Options of `aisrv evaluate`: what the examples are, where the model runs, what is computed and kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import click

from aisrv.cli.options.engine_kind import ENGINE_KIND
from aisrv.protocol.engine_kind import EngineKind
from aisrv.terminal.file_types import FILE, NEW_FILE
from aisrv.terminal.option_group import option
from aisrv.values.settings.size_option import SIZE

_RUN: Final = click.Path(file_okay=False, path_type=Path)
"""The folder of a run, which names no file that would be overwritten: another run in it is an error."""


class _Columns(click.ParamType[dict[str, str]]):
    """`path=file,label=class`."""

    name = "path=…,label=…"

    def convert(
        self, value: str | dict[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        """Read the pairs."""
        if isinstance(value, dict):
            return value
        pairs = [each.partition("=") for each in value.split(",")]
        if not all(name in ("path", "image", "label") and sign and column for name, sign, column in pairs):
            self.fail(f"{value!r}: write it as path=file,label=class, or image=…", param, ctx)
        return {name: column for name, _, column in pairs}


class _Numbers(click.ParamType[tuple[int, ...]]):
    """`1,5`."""

    name = "1,5"

    def convert(
        self, value: str | tuple[int, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Read the numbers."""
        if isinstance(value, tuple):
            return value
        numbers = value.split(",")
        if not all(each.isascii() and each.isdigit() and int(each) for each in numbers):
            self.fail(f"{value!r}: write numbers from 1 on, as 1,5", param, ctx)
        return tuple(map(int, numbers))


@dataclass(frozen=True, slots=True)
class DataOptions:
    """What the examples are, and how they become inputs."""

    labels: Path | None = option(
        "--labels", type=FILE, help="Names of the classes, a line each; or the labels of IDX data."
    )
    columns: dict[str, str] | None = option(
        "--columns", type=_Columns(), help="Columns of a table. [default: path=path,label=label]"
    )
    inputs: Path | None = option(
        "--input",
        type=FILE,
        help="TOML file that says how inputs are made. [default: as the model's metadata say, else auto]",
    )
    limit: int | None = option("--limit", type=click.IntRange(min=1), help="Examples at most.")
    memory: int = option(
        "--max-memory",
        type=SIZE,
        default="2G",
        show_default=True,
        help="Memory that the data may take; what is mapped takes none.",
    )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where and how the model runs."""

    kind: EngineKind = option(
        "--engine", type=ENGINE_KIND, default="kernels", show_default=True, help="Kind of the engine."
    )
    on: str | None = option(
        "--on",
        metavar="engine|device|ADDRESS",
        help="Engine processes; or a device: virtual, or at an address such as usb. [default: engine]",
    )
    devices: int | None = option(
        "--devices", type=click.IntRange(1, 64), metavar="N", help="N virtual devices at once."
    )
    processes: int | None = option(
        "--processes", type=click.IntRange(1, 512), help="Engine processes. [default: one a processor]"
    )
    seconds: float = option(
        "--timeout",
        type=click.FloatRange(0, 86400, min_open=True),
        default=60.0,
        show_default=True,
        help="Seconds that a run may take.",
    )
    check: int = option(
        "--check",
        type=click.IntRange(min=0),
        default=32,
        show_default=True,
        help="Examples that run through a virtual device, too: its bytes are to be the same.",
    )
    max_failed: int = option(
        "--max-failed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Examples that may fail; they count as wrong.",
    )


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster that runs the shards, where one does."""

    address: str | None = option(
        "--dask",
        metavar="ADDRESS",
        help="Run on the workers of a Dask scheduler, tcp://HOST:PORT or tls://HOST:PORT, such as that of "
        "aisrv fleet up; all of them need "
        "the folder of the run and the data at the same paths.",
    )
    authority: Path | None = option(
        "--tls-ca",
        type=FILE,
        help="With tls://: who vouches for it, in PEM. [default: what aisrv fleet up made]",
    )
    certificate: Path | None = option("--tls-cert", type=FILE, help="With tls://: your certificate.")
    key: Path | None = option("--tls-key", type=FILE, help="With tls://: the key of it.")
    wait: float = option(
        "--wait",
        type=click.FloatRange(0, 86400),
        default=600.0,
        show_default=True,
        help="Seconds to wait for a scheduler and for a worker, at the start and later.",
    )
    shard: int = option(
        "--shard",
        type=click.IntRange(1, 1_000_000),
        default=1000,
        show_default=True,
        help="Examples of a part, which is a task of a cluster; see aisrv fleet plan.",
    )


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """What is computed."""

    task: Literal["classes", "regression", "anomaly"] = option(
        "--task",
        type=click.Choice(["classes", "regression", "anomaly"]),
        default="classes",
        show_default=True,
        help="What the outputs are.",
    )
    top: tuple[int, ...] = option(
        "--top", type=_Numbers(), default=(1,), help="Best classes among which a label may be, as 1,5."
    )
    curves: bool = option("--roc", is_flag=True, default=False, help="A ROC curve of each class.")
    score: str = option(
        "--score",
        default="0",
        metavar="OUTPUT|reconstruction",
        help="Score of an anomaly: an output by number, or how far the output is from the input.",
    )
    mlperf: bool = option(
        "--mlperf-accuracy",
        is_flag=True,
        default=False,
        help="MLPerf's accuracy of ad01, too.",
    )
    metrics: tuple[str, ...] = option(
        "--metric", multiple=True, default=(), metavar="MODULE:FUNCTION", help="Figures of your own."
    )
    against: str | None = option(
        "--against",
        metavar="ENGINE|ADDRESS|FILE",
        help="Compare with another engine, a device, or another model, as tflm, usb or float.tflite.",
    )
    layers: bool = option("--layers", is_flag=True, default=False, help="Compare tensors, too.")
    require: tuple[str, ...] = option(
        "--require",
        multiple=True,
        default=(),
        metavar="BOUND",
        help="A bound, such as accuracy.low>=0.9 or against.max_steps<=1; exit code 1 where it is not met.",
    )


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What is printed and kept."""

    out: Path | None = option("--out", type=_RUN, help="Folder of the run. [default: runs/DATE-MODEL-PLAN]")
    parts: bool = option(
        "--parts/--no-parts", default=True, help="Keep what each example becomes, which takes pyarrow."
    )
    as_json: bool = option("--json", is_flag=True, default=False, help="Print the result as JSON.")
    show: bool = option(
        "--show",
        is_flag=True,
        default=False,
        help="Run nothing: show how inputs are made.",
    )
    picture: Path | None = option("--png", type=NEW_FILE, help="With --show: write the first input.")


@dataclass(frozen=True, slots=True)
class FolderOptions:
    """Runs that are there."""

    verify: Path | None = option(
        "--verify",
        type=_RUN,
        help="Check the folder of a run or a sweep: each example once, all files as written.",
    )
    compare: tuple[Path, Path] | None = option(
        "--compare", type=_RUN, nargs=2, metavar="A B", help="Compare the results of two runs."
    )
