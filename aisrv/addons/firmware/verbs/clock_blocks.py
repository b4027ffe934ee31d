"""Clock blocks."""

from collections.abc import Callable, Mapping
from typing import Final

from aisrv.addons.firmware.records import Request, Verb
from aisrv.addons.firmware.verbs.program_tile import DONE, Answer, Handler, ProgramTile
from aisrv.xcore.ports.clockblock import ClockBlock


def _sets(setting: Callable[[ClockBlock], None]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        setting(tile.resources.clock_block(request.a, request.verb))
        return DONE

    return handler


async def _set_divide(tile: ProgramTile, request: Request) -> Answer:
    tile.resources.clock_block(request.a, request.verb).set_divide(request.b)
    return DONE


async def _set_source_port(tile: ProgramTile, request: Request) -> Answer:
    tile.resources.clock_block(request.a, request.verb).set_source_port(
        tile.resources.port(request.b, request.verb)
    )
    return DONE


async def _stop(tile: ProgramTile, request: Request) -> Answer:
    block = tile.resources.clock_block(request.a, request.verb)
    if block.runs:
        await tile.let_drive()
    block.stop()
    return DONE


async def _set_ready_src(tile: ProgramTile, request: Request) -> Answer:
    tile.resources.clock_block(request.a, request.verb).set_ready_src(
        tile.resources.port(request.b, request.verb)
    )
    return DONE


CLOCK_BLOCKS: Final[Mapping[Verb, Handler]] = {
    Verb.CLOCK_ENABLE: _sets(lambda block: block.enable()),
    Verb.CLOCK_DISABLE: _sets(lambda block: block.disable()),
    Verb.CLOCK_START: _sets(lambda block: block.start()),
    Verb.CLOCK_STOP: _stop,
    Verb.CLOCK_SET_SOURCE_PORT: _set_source_port,
    Verb.CLOCK_SET_SOURCE_CLK_REF: _sets(lambda block: block.set_source_clk_ref()),
    Verb.CLOCK_SET_SOURCE_CLK_XCORE: _sets(lambda block: block.set_source_clk_xcore()),
    Verb.CLOCK_SET_DIVIDE: _set_divide,
    Verb.CLOCK_SET_READY_SRC: _set_ready_src,
}
