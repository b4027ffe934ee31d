"""The programs of `ports` on the substrate's ports."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from aisrv.xcore.node import open_node
from aisrv.xcore.ports.pin import Pin, Z
from aisrv.xcore.ports.port import Port
from aisrv.xcore.ports.wire import Wire
from aisrv.xcore.tile import Tile
from tests.support.oracles.substrate.ports import END, HANDSHAKE, MASTER, NONE, SLAVE, Entry, Outcome, Program

Change = tuple[int, int | None]
"""Tick and value; None where the pins are released."""
READY_IN: Final = "1O"
READY_OUT: Final = "1M"


def _use_none(port: Port) -> None:
    port.set_master()
    port.set_no_ready()


def _be_slave(port: Port) -> None:
    port.set_ready_strobed()
    port.set_slave()


def _be_master(port: Port) -> None:
    port.set_ready_strobed()
    port.set_master()


def _use_handshake(port: Port) -> None:
    port.set_master()
    port.set_ready_handshake()


_MODES: Final[Mapping[int, Callable[[Port], None]]] = {
    NONE: _use_none,
    SLAVE: _be_slave,
    MASTER: _be_master,
    HANDSHAKE: _use_handshake,
}


class Stimulus:
    """Drives pins from outside."""

    name = "stimulus"

    def __init__(self, changes: Sequence[Change], pins: tuple[Pin, ...], *, ahead: bool) -> None:
        self._changes = changes
        self._pins = pins
        self._ahead = ahead

    def begin(self) -> None:
        for tick, value in self._changes if self._ahead else self._changes[:1]:
            self._drive(tick, value)

    def _drive(self, tick: int, value: int | None) -> None:
        for bit, pin in enumerate(self._pins):
            pin.drive(Z if value is None else value >> bit & 1, self, tick)

    async def run(self) -> None:
        if not self._ahead:
            for tick, value in self._changes[1:]:
                await self._pins[0].until(tick - 1)  # one ahead of the core, whoever runs first
                self._drive(tick, value)


async def run(program: Program) -> Outcome:
    """Run a program, and read the pins at each tick."""
    async with open_node() as node:
        tile = node.tiles[0]
        port = tile.port(program.port)
        log: list[Entry] = []
        stimuli = begin_stimuli(program, tile, port)
        await set_up(program, tile, port)
        async with trio.open_nursery() as nursery:
            for stimulus in stimuli:
                nursery.start_soon(stimulus.run)
            nursery.start_soon(_core, program, tile, port, log)
            await port.pins[0].until(END)
            nursery.cancel_scope.cancel()
        return outcome_of(log, tile, port)


def begin_stimuli(program: Program, tile: Tile, port: Port) -> list[Stimulus]:
    """Drive what is known at first on the pins of the port, and of the ready signal that it reads."""
    drives, gate = tile.port(READY_OUT), tile.port(READY_IN)
    for pin in (*port.pins, drives.pins[0]):
        pin.keep("test", 0)
    stimuli = [Stimulus(program.stimulus, port.pins, ahead=program.ahead)]
    if program.loops:
        Wire(drives.pins[0], gate.pins[0])
    else:
        levels = [(0, 0), *((tick, (at + 1) % 2) for at, tick in enumerate(program.gate))]
        stimuli.append(Stimulus(levels, gate.pins, ahead=program.ahead))
    for stimulus in stimuli:
        stimulus.begin()
    return stimuli


def outcome_of(log: Sequence[Entry], tile: Tile, port: Port) -> Outcome:
    """Return what came of a run that has ended, with the levels of the pins."""
    levels = [[pin.level(tick) for pin in port.pins] for tick in range(END)]
    ready = [tile.port(READY_OUT).pins[0].value(tick) for tick in range(END)]
    return Outcome([entry for entry in log if entry[0] < END], levels, ready)


async def set_up(program: Program, tile: Tile, port: Port) -> None:
    block = tile.allocate_clock_block()
    if program.source == "pin":
        source = tile.port("1P")
        source.enable()
        block.set_source_port(source)
        toggles = [tick for tick in program.toggles if program.ahead or tick < 200]
        clock = source.pins[0]
        clock.drive(0, block, 0)
        clock.drive_at(toggles, [1 - at % 2 for at in range(len(toggles))], block)
    elif program.source == "core":
        block.set_source_clk_xcore()
    block.set_divide(program.divide)
    port.enable()
    if program.buffered:
        port.set_buffered()
        port.set_transfer_width(program.transfer_width)
    if program.falling:
        port.set_sample_falling_edge()
    if program.inverted:
        port.set_invert()
    gate, drives = tile.port(READY_IN), tile.port(READY_OUT)
    gate.enable()
    if program.gate_inverted:
        gate.set_invert()
    block.set_ready_src(gate)
    drives.enable()
    drives.set_out_ready(port)
    _MODES[program.ready](port)
    port.set_clock(block)
    block.start()


async def _core(program: Program, tile: Tile, port: Port, log: list[Entry]) -> None:
    clock, pin = tile.clock, port.pins[0]
    if program.source == "pin" and not program.ahead:
        block, source = port.clock, tile.port("1P").pins[0]
        toggles = program.toggles
        later = next((at for at, tick in enumerate(toggles) if tick >= 200), len(toggles))
        source.drive_at(toggles[later:], [1 - at % 2 for at in range(later, len(toggles))], block)
    for wait, name, argument in program.steps:
        if wait:
            await pin.until(clock.ticks() + wait)
        result = await perform(port, name, argument)
        log.append((clock.ticks(), name, result))


async def perform(port: Port, name: str, argument: int) -> int | None:
    match name:
        case "out":
            await port.out(argument)
        case "out_part":
            await port.out_part_word(argument >> 8, argument & 0xFF)
        case "in":
            return await port.in_()
        case "in_part":
            return await port.in_part_word(argument)
        case "time":
            await port.set_trigger_time(argument)
        case "count":
            await port.set_shift_count(argument)
        case "sync":
            await port.sync()
        case "peek":
            return port.peek()
        case "timestamp":
            return port.get_trigger_time()
        case "endin":
            return port.endin() if not port.is_output else None
        case "no_time":
            port.clear_trigger_time()
        case "equal":
            port.set_trigger_in_equal(argument)
        case "not_equal":
            port.set_trigger_in_not_equal(argument)
        case "any_value":
            port.clear_trigger_in()
        case "mode":
            _MODES[argument](port)
        case "clear":
            port.clear_buffer()
        case "stop":
            port.clock.stop()
        case "start":
            port.clock.start()
        case _:
            raise AssertionError(name)
    return None
