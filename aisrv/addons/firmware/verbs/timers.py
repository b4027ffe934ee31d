"""Timers, and the time that passes as a program reads the clock."""

from collections.abc import Mapping
from typing import Final

from aisrv.addons.firmware.records import Request, Verb
from aisrv.addons.firmware.verbs.program_tile import DONE, Answer, Handler, ProgramTile, frees
from aisrv.xcore.timer import Timer


async def _allocate(tile: ProgramTile, _request: Request) -> Answer:
    return (tile.resources.adopt(tile.tile.allocate_timer()).resource_id if tile.tile.timers_free else 0), b""


async def _wait_after(tile: ProgramTile, request: Request) -> Answer:
    timer = tile.resources.find(request.a, Timer, request.verb) if request.a else tile.own_timer(request.core)
    return await timer.wait_after(request.b), b""


async def _catch_up(_tile: ProgramTile, _request: Request) -> Answer:
    return DONE


async def _let_time_pass(tile: ProgramTile, _request: Request) -> Answer:
    await tile.poll()
    return DONE


TIMERS: Final[Mapping[Verb, Handler]] = {
    Verb.TIMER_ALLOC: _allocate,
    Verb.TIMER_FREE: frees(Timer),
    Verb.WAIT_AFTER: _wait_after,
    Verb.CATCH_UP: _catch_up,
    Verb.LET_TIME_PASS: _let_time_pass,
}
