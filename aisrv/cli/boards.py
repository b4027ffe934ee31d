"""`aisrv boards`: the known boards, and a drawing of one."""

import dataclasses
import enum
import json
from pathlib import Path, PurePath
from typing import Any, Final

import click
from msgspec import Struct, structs

from aisrv.board import (
    BOOT_MEMORIES,
    CHANNEL_ENDS,
    CORES,
    Board,
    BoardError,
    Plan,
    plan_of,
)
from aisrv.board.catalog import BOARDS, find_board
from aisrv.board.user_tasks import task_tables
from aisrv.values.addons import offered

_BOOT_NAMES: Final = {command: memory for memory, command in BOOT_MEMORIES.items()}


def board_values(board: Board) -> dict[str, Any]:
    """Return a board for JSON: its fields, and under "demand" the needs of each tile."""
    values = dataclasses.asdict(board)
    values |= dict.fromkeys(offered("tables")) | dict.fromkeys(offered("arrays"), ())
    for part in values.pop("parts"):
        values |= part.tables()
    for engine, spec in zip(values["engines"], board.engines, strict=True):
        engine["kind"] = str(spec.kind)
        engine["fallback"] = None if spec.fallback is None else str(spec.fallback)
        del engine["origin"]
        engine["boot"] = _BOOT_NAMES.get(spec.boot) if spec.boot is not None else None
    if board.sensor is not None:
        values["sensor"] = structs.asdict(board.sensor) | {"folder": board.folder or Path()}
    del values["file"], values["folder"]
    values["tasks"] = [_task_values(board, number) for number in range(len(board.tasks))]
    return {**values, "demand": _plan_values(board, plan_of(board))}


def _task_values(board: Board, number: int) -> dict[str, Any]:
    """Return a task of a board: those of all kinds have all keys."""
    task = board.tasks[number]
    values: dict[str, Any] = {}
    for kind in (*task_tables(), type(task)):
        values |= structs.asdict(kind(task.name))
    place = board.place("tasks", number, task.key)
    return {**values, **structs.asdict(task), "folder": board.folder, "origin": place}


def _plan_values(board: Board, plan: Plan) -> dict[str, Any]:
    return {
        "tiles": [
            {
                "cores": [task.name for task in plan.cores(tile)],
                "cores_of": CORES,
                "channel_ends": plan.channel_ends(tile),
                "channel_ends_of": CHANNEL_ENDS,
            }
            for tile in range(board.tiles)
        ],
        "channels": [
            {
                "tasks": [link.a.task.name, link.b.task.name],
                "tiles": [link.a.task.tile, link.b.task.tile],
                "carries": link.carries,
            }
            for link in plan.links
        ],
    }


def _json_value(value: object) -> Any:  # noqa: ANN401 - whatever JSON knows
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Struct):
        return structs.asdict(value)
    raise TypeError(f"{value!r} has no form in JSON")


def _show_list(boards: dict[str, Board]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("board", "engines", "flash", "cores", "channel ends", "what it is", box=None)
    for name, board in boards.items():
        plan = plan_of(board)
        tiles = range(board.tiles)
        table.add_row(
            name,
            str(len(board.engines)),
            ", ".join(flash.part.name for flash in board.flashes) or "none",
            " + ".join(str(len(plan.cores(tile))) for tile in tiles),
            " + ".join(str(plan.channel_ends(tile)) for tile in tiles),
            board.description,
        )
    Console().print(table)
    click.echo(f"\nEach tile has {CORES} cores and {CHANNEL_ENDS} channel ends.")


@click.command()
@click.argument("board", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print what would be shown as JSON.")
def boards(board: str | None, as_json: bool) -> None:
    """List the boards that `--board` knows, or draw BOARD: one of them, or FILE.toml or FILE.xn.

    \b
    Examples:
      aisrv boards
      aisrv boards camera
      aisrv boards XCORE-AI-EXPLORER.xn
      aisrv boards my-board.toml --json
    """
    try:
        found = dict(BOARDS) if board is None else {board: find_board(board)}
    except BoardError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        values = {name: board_values(each) for name, each in found.items()}
        click.echo(json.dumps(values if board is None else values[board], default=_json_value, indent=2))
    elif board is None:
        _show_list(found)
    else:
        from aisrv.board.drawing import draw_board

        description = found[board].description
        click.echo(f"{board}: {description}\n" if description else f"{board}\n")
        click.echo(draw_board(found[board]))
