"""Events: a select over resources of the program."""

import struct
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Final

from aisrv.addons.firmware.program_resources import Resource
from aisrv.addons.firmware.records import Request, Verb
from aisrv.addons.firmware.verbs.program_tile import Answer, Handler, ProgramTile
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.ports.port import Port
from aisrv.xcore.select import Event, select, select_or_default
from aisrv.xcore.timer import Timer
from aisrv.xcore.traps import Trap, TrapKind

_EVENT: Final = struct.Struct("<II")
_DEFAULT: Final = 0xFFFFFFFF


@singledispatch
def event_of(resource: Resource, time: int) -> Event:  # noqa: ARG001 - that of timers
    """Return the event of a resource; `time` is a timer's. Traps with ILLEGAL_RESOURCE for one without."""
    place = f"select on {resource.name}"
    raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which raises no events", place)


@event_of.register
def _(resource: Timer, time: int) -> Event:
    return resource.after(time)


@event_of.register(ChanEnd)
@event_of.register(Port)
def _(resource: ChanEnd | Port, _time: int) -> Event:
    return resource


async def _select(tile: ProgramTile, request: Request) -> Answer:
    pairs = _EVENT.iter_unpack(request.data)
    events = [event_of(tile.resources.find_any(resource, request.verb), time) for resource, time in pairs]
    if not events and not request.a:
        raise Trap(TrapKind.ECALL, "a select of which no guard holds, without a default", "select")
    if request.a:
        chosen = await select_or_default(*events, ordered=bool(request.b))
        return (_DEFAULT if chosen is None else _place(events, chosen)), b""
    return _place(events, await select(*events, ordered=bool(request.b))), b""


def _place(events: Sequence[Event], chosen: Event) -> int:
    return next(place for place, event in enumerate(events) if event is chosen)


EVENTS: Final[Mapping[Verb, Handler]] = {Verb.SELECT: _select}
