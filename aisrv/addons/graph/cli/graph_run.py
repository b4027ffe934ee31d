"""`aisrv graph run`: a graph without hosts, as fast as its inputs give, and its counters at the end."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import trio

from aisrv.cli.options.engine_kind import ENGINE_KIND
from aisrv.cli.options.logging import start_logging, verbose_option
from aisrv.protocol.engine_kind import EngineKind, default_kind
from aisrv.terminal.file_types import FILE
from aisrv.terminal.option_group import option, option_group
from aisrv.values.regular_file import read_regular

if TYPE_CHECKING:
    from aisrv.addons.graph.run.status import GraphStatus, NodeStatus
    from aisrv.board import Board


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The engine that a graph uses."""

    model: Path | None = option("--model", type=FILE, help="Model of the engine that the graph uses.")
    kind: EngineKind = option(
        "--engine",
        type=ENGINE_KIND,
        default=default_kind,
        metavar="KIND",
        help="Interpreter of that engine, as for `aisrv run`.",
    )
    cores: int = option("--cores", type=click.IntRange(1, 8), default=1, help="Interpreters. [default: 1]")


@click.command("run")
@click.argument("graph", type=FILE)
@click.option(
    "--io",
    "ios",
    multiple=True,
    metavar="IO=WHAT",
    help="What an IO is joined to: 4=wav:speech.wav, 6=file:out.raw, 8=gpio:led.",
)
@option_group("engine", EngineOptions)
@click.option(
    "--platform",
    type=FILE,
    metavar="FILE",
    help="Top manifest that a text is compiled for. [default: the one that is shipped]",
)
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="Stop after this time.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbose_option
def run_graph(
    graph: Path,
    ios: Sequence[str],
    engine: EngineOptions,
    platform: Path | None,
    seconds: float | None,
    as_json: bool,
    verbose: int,
) -> None:
    """Run GRAPH, a text or words, until its inputs end, and print what its nodes and IOs have done.

    Samples come as fast as the graph takes them, unless an input has a rate of its own. Exit code 1: the
    graph does not begin, a node has raised an error, or it stands still though inputs have more to give.

    \b
    Examples:
      aisrv graph run gain.txt --io 4=wav:speech.wav --io 6=file:louder.raw
      aisrv graph run word.txt --model word.tflite --io 4=wav:speech.wav --io 8=gpio:word,long --json
      aisrv graph run digits.txt --model digits.tflite --io 5=raw:camera.bin:8x8:bayer --seconds 10
    """
    from aisrv.addons.graph.board import Graph
    from aisrv.addons.graph.options import GraphOptions
    from aisrv.board import Board, EngineSpec
    from aisrv.cli.one_line_errors import one_line_errors

    start_logging(verbose)
    board = Board(
        engines=(EngineSpec(kind=engine.kind),),
        spi=None,
        parts=(Graph(path=graph, cores=engine.cores, platform=platform, paced=False),),
    )
    (board,) = GraphOptions(ios=ios).boards([board])
    with one_line_errors():
        model = None if engine.model is None else read_regular(engine.model)
        status = trio.run(_status_at_end, board, model, seconds)
    click.echo(json.dumps(_values(status), indent=2) if as_json else _text(status))
    if status.waits_for is not None or status.standstill or any(node.errors for node in status.nodes):
        raise SystemExit(1)


async def _status_at_end(board: "Board", model: bytes | None, seconds: float | None) -> "GraphStatus":
    from aisrv.addons.graph.device import DeviceGraph
    from aisrv.device.device import open_device

    async with open_device(board) as device:
        graph = device.part(DeviceGraph)
        assert graph is not None  # noqa: S101 - the board has one
        if model is not None:
            await device.load_model(model)
        with trio.move_on_after(float("inf") if seconds is None else seconds):
            await graph.wait_at_rest()
        shown = graph.status()
        assert shown is not None  # noqa: S101 - its task runs
        return shown


def _values(status: "GraphStatus") -> dict[str, Any]:
    return {**asdict(status), "pins": [{"name": name, "level": level} for name, level in status.pins]}


def _text(status: "GraphStatus") -> str:
    lines = [] if status.waits_for is None else [f"the graph does not run: {status.waits_for}"]
    lines += map(_node_text, status.nodes)
    lines += (f"IO {io.hwid}: {io.moved:,} bytes" for io in status.ios)
    lines += (
        f"arc {arc.number}: {arc.overflows} overflows, {arc.underflows} underflows"
        for arc in status.arcs
        if arc.overflows or arc.underflows
    )
    lines += (
        f"arc {each.arc}: debug register {each.register}, {each.does}: {each.value:,}"
        for each in status.registers
    )
    if status.scripts is not None:
        lines.append(f"scripts: {status.scripts.runs:,} runs, {status.scripts.faults:,} faults")
        lines += [f"script fault: {status.scripts.last_fault}"] if status.scripts.last_fault else []
    lines += (f"pin {name}: {'high' if level else 'low'}" for name, level in status.pins)
    lines += (f"the graph stands still: {reason}" for reason in status.standstill)
    return "\n".join(lines)


def _node_text(node: "NodeStatus") -> str:
    text = f"{node.name}: {node.calls} calls, {node.consumed:,} bytes in, {node.produced:,} out"
    if node.inferences is not None:
        text += f", {node.inferences} inferences"
    return text + (f", {node.errors} errors" if node.errors else "")
