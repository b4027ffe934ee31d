"""Interrupts: callbacks of resources, and masks."""

import struct
from collections.abc import Mapping
from typing import Final

from aisrv.addons.firmware.records import Request, Verb
from aisrv.addons.firmware.verbs.cores import function_at
from aisrv.addons.firmware.verbs.events import event_of
from aisrv.addons.firmware.verbs.program_tile import DONE, Answer, Handler, ProgramTile

_CALLBACK: Final = struct.Struct("<QQ")


async def _set_up(tile: ProgramTile, request: Request) -> Answer:
    event = event_of(tile.resources.find_any(request.a, request.verb), request.b)
    callback, argument = _CALLBACK.unpack(request.data)
    name = function_at(tile, callback)
    tile.callbacks_of(request.core).set_up(request.a, event, callback, argument, name)
    return DONE


async def _enable(tile: ProgramTile, request: Request) -> Answer:
    callbacks = tile.callbacks_of(request.core)
    if request.b:
        callbacks.enable(request.a)
    else:
        callbacks.disable(request.a)
    return DONE


async def _disable_all(tile: ProgramTile, request: Request) -> Answer:
    tile.callbacks_of(request.core).interrupts.disable_all()
    return DONE


async def _trigger_time(tile: ProgramTile, request: Request) -> Answer:
    tile.callbacks_of(request.core).change_time(request.a, request.b)
    return DONE


async def _mask(tile: ProgramTile, request: Request) -> Answer:
    interrupts = tile.callbacks_of(request.core).interrupts
    if request.a:
        interrupts.mask()
    else:
        await interrupts.unmask()
    return DONE


INTERRUPTS: Final[Mapping[Verb, Handler]] = {
    Verb.SETUP_INTERRUPT: _set_up,
    Verb.ENABLE_INTERRUPT: _enable,
    Verb.DISABLE_INTERRUPTS: _disable_all,
    Verb.TRIGGER_TIME: _trigger_time,
    Verb.MASK_INTERRUPTS: _mask,
}
