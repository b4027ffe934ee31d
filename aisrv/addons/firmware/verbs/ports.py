"""Ports: their settings, outputs and inputs."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aisrv.addons.firmware.records import Request, Verb
from aisrv.addons.firmware.verbs.program_tile import DONE, Answer, Handler, ProgramTile
from aisrv.xcore.ports.port import Port
from aisrv.xcore.ports.protocol import prepare_input, prepare_output
from aisrv.xcore.traps import Trap, TrapKind

_DRIVES: Final[Mapping[int, Callable[[Port], None]]] = {
    0x03: lambda port: port.set_drive(),
    0x0B: lambda port: port.set_drive_pull_down(),
    0x13: lambda port: port.set_drive_pull_up(),
}
"""Words of `port_write_control_word`: XS1_SETC_DRIVE_DRIVE, _PULL_DOWN, _PULL_UP."""


_PIN_DELAY: Final = 0x7007
"""The word for a pin delay of 0; that of n has n from bit 3 on."""
_DELAY_BITS: Final = 7 << 3


def _sets(setting: Callable[[Port], None]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        setting(tile.resources.port(request.a, request.verb))
        return DONE

    return handler


def _sets_value(setting: Callable[[Port, int], None]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        setting(tile.resources.port(request.a, request.verb), request.b)
        return DONE

    return handler


def _waits(verb: Callable[[Port, int], Awaitable[int | None]]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        return await verb(tile.resources.port(request.a, request.verb), request.b) or 0, b""

    return handler


def _gets(verb: Callable[[Port], int]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        return verb(tile.resources.port(request.a, request.verb)), b""

    return handler


async def _enable(tile: ProgramTile, request: Request) -> Answer:
    tile.resources.adopt(tile.resources.port(request.a, request.verb)).enable()
    return DONE


async def _start_buffered(tile: ProgramTile, request: Request) -> Answer:
    tile.resources.adopt(tile.resources.port(request.a, request.verb)).start_buffered(request.b)
    return DONE


async def _disable(tile: ProgramTile, request: Request) -> Answer:
    port = tile.resources.port(request.a, request.verb)
    await tile.let_drive()
    port.disable()
    tile.resources.forget(request.a)
    return DONE


async def _reset(tile: ProgramTile, request: Request) -> Answer:
    port = tile.resources.port(request.a, request.verb)
    await tile.let_drive()
    port.reset()
    return DONE


async def _set_clock(tile: ProgramTile, request: Request) -> Answer:
    block = tile.resources.clock_block(request.b, request.verb)
    tile.resources.port(request.a, request.verb).set_clock(block)
    return DONE


async def _set_out_ready(tile: ProgramTile, request: Request) -> Answer:
    source = tile.resources.port(request.b, request.verb)
    tile.resources.port(request.a, request.verb).set_out_ready(source)
    return DONE


async def _write_control_word(tile: ProgramTile, request: Request) -> Answer:
    port = tile.resources.port(request.a, request.verb)
    if request.b & ~_DELAY_BITS == _PIN_DELAY:
        port.set_pin_delay((request.b & _DELAY_BITS) >> 3)
        return DONE
    if (setting := _DRIVES.get(request.b)) is None:
        place = f"setc on {port.name}"
        reason = f"{place}: there is no control word 0x{request.b:x} here"
        raise Trap(TrapKind.ILLEGAL_RESOURCE, reason, place)
    setting(port)
    return DONE


async def _out_part_word(tile: ProgramTile, request: Request) -> Answer:
    bits = int.from_bytes(request.data, "little")
    await tile.resources.port(request.a, request.verb).out_part_word(request.b, bits)
    return DONE


async def _peek(tile: ProgramTile, request: Request) -> Answer:
    port = tile.resources.port(request.a, request.verb)
    await tile.poll_pins(port)
    return await port.look(), b""


PORTS: Final[Mapping[Verb, Handler]] = {
    Verb.PORT_ENABLE: _enable,
    Verb.PORT_RESET: _reset,
    Verb.PORT_DISABLE: _disable,
    Verb.PORT_START_BUFFERED: _start_buffered,
    Verb.PORT_SET_TRANSFER_WIDTH: _sets_value(lambda port, width: port.set_transfer_width(width)),
    Verb.PORT_SET_BUFFERED: _sets(lambda port: port.set_buffered()),
    Verb.PORT_SET_UNBUFFERED: _sets(lambda port: port.set_unbuffered()),
    Verb.PORT_WRITE_CONTROL_WORD: _write_control_word,
    Verb.PORT_SET_CLOCK: _set_clock,
    Verb.PORT_SET_INOUT_DATA: _sets(lambda port: port.set_inout_data()),
    Verb.PORT_SET_OUT_CLOCK: _sets(lambda port: port.set_out_clock()),
    Verb.PORT_SET_INVERT: _sets(lambda port: port.set_invert()),
    Verb.PORT_SET_NO_INVERT: _sets(lambda port: port.set_no_invert()),
    Verb.PORT_SET_SAMPLE_FALLING_EDGE: _sets(lambda port: port.set_sample_falling_edge()),
    Verb.PORT_SET_SAMPLE_RISING_EDGE: _sets(lambda port: port.set_sample_rising_edge()),
    Verb.PORT_GET_TRIGGER_TIME: _gets(lambda port: port.get_trigger_time()),
    Verb.PORT_SET_TRIGGER_TIME: _waits(lambda port, time: port.set_trigger_time(time)),
    Verb.PORT_CLEAR_TRIGGER_TIME: _sets(lambda port: port.clear_trigger_time()),
    Verb.PORT_SET_TRIGGER_IN_EQUAL: _sets_value(lambda port, value: port.set_trigger_in_equal(value)),
    Verb.PORT_SET_TRIGGER_IN_NOT_EQUAL: _sets_value(lambda port, value: port.set_trigger_in_not_equal(value)),
    Verb.PORT_SET_TRIGGER_VALUE: _sets_value(lambda port, value: port.set_trigger_value(value)),
    Verb.PORT_CLEAR_TRIGGER_IN: _sets(lambda port: port.clear_trigger_in()),
    Verb.PORT_SET_SHIFT_COUNT: _waits(lambda port, bits: port.set_shift_count(bits)),
    Verb.PORT_CLEAR_BUFFER: _sets(lambda port: port.clear_buffer()),
    Verb.PORT_PEEK: _peek,
    Verb.PORT_OUT: _waits(lambda port, value: port.out(value)),
    Verb.PORT_OUT_PART_WORD: _out_part_word,
    Verb.PORT_IN: _waits(lambda port, _: port.in_()),
    Verb.PORT_OUT_SHIFT_RIGHT: _waits(lambda port, value: port.out_shift_right(value)),
    Verb.PORT_IN_SHIFT_RIGHT: _waits(lambda port, value: port.in_shift_right(value)),
    Verb.PORT_ENDIN: _gets(lambda port: port.endin()),
    Verb.PORT_SYNC: _waits(lambda port, _: port.sync()),
    Verb.PORT_SET_OUT_READY: _set_out_ready,
    Verb.PORT_SET_MASTER: _sets(lambda port: port.set_master()),
    Verb.PORT_SET_SLAVE: _sets(lambda port: port.set_slave()),
    Verb.PORT_SET_NO_READY: _sets(lambda port: port.set_no_ready()),
    Verb.PORT_SET_READY_STROBED: _sets(lambda port: port.set_ready_strobed()),
    Verb.PORT_SET_READY_HANDSHAKE: _sets(lambda port: port.set_ready_handshake()),
    Verb.PORT_PREPARE_INPUT: _waits(lambda port, _: prepare_input(port)),
    Verb.PORT_PREPARE_OUTPUT: _waits(prepare_output),
}
