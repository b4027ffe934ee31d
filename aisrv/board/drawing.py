"""A board as text: its tiles as boxes with a line for each core, the channels, and the parts around."""

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from aisrv.board import CHANNEL_ENDS, CORES, Board, Plan, Task, UsbProtocol, plan_of
from aisrv.protocol.commands import GPIO_COUNT
from aisrv.protocol.memories import Memory
from aisrv.values.settings.size import Size

_GAP: Final = "   "
_ARENAS: Final = {Memory.INTERNAL: "arena", Memory.EXTERNAL: "external arena"}
_PROTOCOLS: Final = {UsbProtocol.AISRV: "the AI server's commands", UsbProtocol.IOSERVER: "the IO server's"}


def draw_board(board: Board) -> str:
    """Draw a board; lines end without spaces, the last one without a newline."""
    plan = plan_of(board)
    boxes = [_box(board, plan, tile) for tile in range(board.tiles)]
    lines = [_GAP.join(row) for row in zip_longest(*boxes)]
    for title, rows in (
        ("channels", _channels(plan)),
        ("engines", _engines(board)),
        ("tasks", _tasks(board)),
        ("around", _around(board)),
        ("ports", _ports(board)),
        *((part.table, part.rows()) for part in board.parts),
    ):
        table = _columns([list(row) for row in rows])
        if table:
            lines += ["", title, *(f"  {row}" for row in table)]
    return "\n".join(line.rstrip() for line in lines)


def _box(board: Board, plan: Plan, tile: int) -> list[str]:
    tasks = [task.name for task in plan.cores(tile)]
    title = f" tile {tile}, {board.internal_kib}K, {board.core_clock_mhz} MHz "
    counts = f"{len(tasks)} of {CORES} cores, {plan.channel_ends(tile)} of {CHANNEL_ENDS} channel ends"
    width = max(len(title), len(counts), *(len(task) + 2 for task in tasks), 0) + 2
    cores = [f"{core} {task or '·'}" for core, task in zip_longest(range(CORES), tasks)]
    return [
        f"╭─{title:─<{width - 1}}╮",
        *(f"│ {core:<{width - 1}}│" for core in cores),
        f"├{'─' * width}┤",
        f"│ {counts:<{width - 1}}│",
        f"╰{'─' * width}╯",
    ]


def _channels(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Yield the channels, those that join the same two tasks in one line."""
    carried: dict[tuple[Task, Task], Counter[str]] = {}
    for link in plan.links:
        a, b = link.a.task, link.b.task
        pair = (b, a) if (b, a) in carried else (a, b)
        carried.setdefault(pair, Counter())[link.carries] += 1
    for (a, b), carries in carried.items():
        yield _place(a), "──", _place(b), ", ".join(carries)


def _place(task: Task) -> str:
    return f"{task.name} ({task.tile})"


def _engines(board: Board) -> Iterator[tuple[str, ...]]:
    for number, engine in enumerate(board.engines):
        details = [f"external memory {Size(engine.external_bytes).short()}"] if engine.external_bytes else []
        if engine.threads > 1:
            details.append(f"{engine.threads} threads")
        if engine.chain_to is not None:
            details.append(f"feeds engine {engine.chain_to}")
        if number in board.acquiring:
            details.append("acquires from the sensor")
        if board.flashes:
            details.append(f"flash chip {engine.flash}")
        if engine.boot is not None:
            details.append("loads its model from flash")
        if engine.commands is not None:
            details.append(f"commands {engine.commands.table}")
        if engine.leds:
            details.append(f"LEDs {', '.join(engine.leds)}{_unnamed(len(engine.leds))}")
        yield (
            str(number),
            f"tile {engine.tile}",
            str(engine.kind) + (f" or {engine.fallback}" if engine.fallback else ""),
            f"{_ARENAS[engine.arena_memory]} {Size(engine.arena_bytes).short()}",
            ", ".join(details),
        )


def _unnamed(names: int) -> str:
    return "" if names == GPIO_COUNT else f" and {GPIO_COUNT - names} unnamed"


def _tasks(board: Board) -> Iterator[tuple[str, ...]]:
    for task in board.tasks:
        yield task.name, f"tile {task.tile}", task.what


def _around(board: Board) -> Iterator[tuple[str, ...]]:
    serial = "" if board.serial is None else f", serial number {board.serial}"
    what = _PROTOCOLS[board.protocol] if board.usb_task is None else f"the task {board.usb_task}"
    yield "USB", f"tile {board.usb_tile}", what + serial + _tcp_port(board.usb_port)
    if board.spi is not None:
        yield "SPI", f"tile {board.spi.tile}", f"of engine {board.spi.engine}{_tcp_port(board.spi.port)}"
    for number, flash in enumerate(board.flashes):
        where = "in memory" if flash.path is None else f"in {flash.path}"
        sizes = f"{Size(flash.part.size).short()}, of which {Size(flash.boot_bytes).short()} to boot from"
        yield (
            f"flash chip {number}",
            f"tile {flash.tile}",
            f"{flash.part.name}, {sizes}, {where}{_tcp_port(flash.port)}",
        )
    if (sensor := board.sensor) is not None:
        rate = "" if sensor.rate is None else f", {sensor.rate:g} frames a second"
        frames = f"{sensor.width}x{sensor.height} {sensor.encoding}{rate}"
        yield "sensor", f"tile {sensor.tile}", f"{sensor.source}, {frames}"


def _tcp_port(port: int | None) -> str:
    return "" if port is None else f", at TCP port {port}"


def _ports(board: Board) -> Iterator[tuple[str, ...]]:
    for port in board.ports:
        yield f"tile {port.tile}", port.location, port.name


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
