"""USB: the calls of xud.h on the bus that a board gives a program. Source: XMOS lib_xud, xud.h."""

import logging
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from aisrv.addons.firmware.records import XUD_VERB_ERROR, XUD_VERB_UPDATE, Request, Verb
from aisrv.addons.firmware.usb_control_pipe import NewSetup
from aisrv.addons.firmware.usb_endpoint import BusUpdate, ControlDirection, XudEndpoint
from aisrv.addons.firmware.verbs.events import event_of
from aisrv.addons.firmware.verbs.program_tile import DONE, Answer, Handler, ProgramTile, UsbSide
from aisrv.protocol.usb_descriptors import DIRECTION_IN
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.select import Event
from aisrv.xcore.traps import Trap, TrapKind

logger = logging.getLogger(__name__)

_TABLE: Final = struct.Struct("<II")
_NOTIFIES: Final = 0x8000_0000
_ISOCHRONOUS: Final = 0
_DISABLED: Final = 4
_NO_BUS: Final = "this program has no USB bus: a board gives one to the task that its [usb] names"


class ProgramEndpoint:
    """An endpoint as the program knows it: by the id of the channel end that leads to it."""

    def __init__(self, end: ChanEnd, endpoint: XudEndpoint) -> None:
        """Stand for a channel end until it is closed."""
        self.end: Final = end
        self.endpoint: Final = endpoint
        self.name: Final = endpoint.name

    @property
    def resource_id(self) -> int:
        """Number by which the program names it."""
        return self.end.resource_id


@event_of.register
def _(resource: ProgramEndpoint, _time: int) -> Event:
    return resource.endpoint


def _trap(request: Request, reason: str) -> Trap:
    call = request.verb.name.lower()
    return Trap(TrapKind.ILLEGAL_RESOURCE, f"{call}: {reason}", call)


def _side(tile: ProgramTile, request: Request) -> UsbSide:
    if tile.usb is None:
        raise _trap(request, _NO_BUS)
    return tile.usb


def _endpoint(tile: ProgramTile, request: Request, *, into: bool | None = None) -> XudEndpoint:
    """Return the endpoint of a request, which has a direction where `into` is given."""
    found = tile.resources.find(request.a, ProgramEndpoint, request.verb).endpoint
    if into is not None and into != bool(found.address & DIRECTION_IN):
        raise _trap(request, f"{found.name} is for {'OUT' if into else 'IN'}")
    return found


# The XUD core.


async def _main(tile: ProgramTile, request: Request) -> Answer:
    side = _side(tile, request)
    if side.bus.is_running:
        raise _trap(request, "there is an XUD core already")
    if request.b:
        logger.warning("XUD_Main: the bus is at high speed, not at full speed")
    table = list(_TABLE.iter_unpack(request.data))
    outs, ins = table[: request.a], table[request.a :]
    side.addresses = {
        tile.resources.find(end, ChanEnd, request.verb).resource_id: direction | number
        for direction, ends in ((0, outs), (DIRECTION_IN, ins))
        for number, (end, kind) in enumerate(ends)
        if not number or kind & 0xFF != _DISABLED
    }
    await side.bus.run_xud(tile.tile.runtime, _told(request, 0, outs), _told(request, DIRECTION_IN, ins))
    return DONE


def _told(request: Request, direction: int, table: Sequence[tuple[int, int]]) -> list[bool | None]:
    """Return for each endpoint whether it is told of resets, and None for one that is not there."""
    told: list[bool | None] = []
    for number, (_, kind) in enumerate(table):
        if number and kind & 0xFF == _ISOCHRONOUS:
            address = direction | number
            raise _trap(request, f"endpoint 0x{address:02x} is isochronous, and there are none of these here")
        told.append(None if number and kind & 0xFF == _DISABLED else bool(kind & _NOTIFIES))
    return told


async def _kill(tile: ProgramTile, request: Request) -> Answer:
    _endpoint(tile, request)
    _side(tile, request).bus.kill()
    return DONE


async def _init(tile: ProgramTile, request: Request) -> Answer:
    side = _side(tile, request)
    found = tile.resources.find_any(request.a, request.verb)
    end = (
        found.end
        if isinstance(found, ProgramEndpoint)
        else tile.resources.find(request.a, ChanEnd, request.verb)
    )
    await side.bus.wait_bound()
    address = side.addresses.get(end.destination or 0)
    if address is None:
        raise _trap(request, f"{end.name} does not lead to an end of XUD_Main's")
    tile.resources.adopt(ProgramEndpoint(end, side.bus.bound[address]))
    return address, b""


async def _close(tile: ProgramTile, request: Request) -> Answer:
    tile.resources.adopt(tile.resources.find(request.a, ProgramEndpoint, request.verb).end)
    return DONE


# Packets.


async def _get_setup(tile: ProgramTile, request: Request) -> Answer:
    endpoint = _endpoint(tile, request, into=False)
    if not isinstance(endpoint, ControlDirection):
        raise _trap(request, f"{endpoint.name} has no SETUP packets; endpoint 0 has")
    try:
        setup = await endpoint.get_setup()
    except BusUpdate:
        return XUD_VERB_UPDATE, b""
    return len(setup), setup


async def _get_buffer(tile: ProgramTile, request: Request) -> Answer:
    try:
        packet = await _endpoint(tile, request, into=False).transfer(b"")
    except BusUpdate:
        return XUD_VERB_UPDATE, b""
    except NewSetup:
        return XUD_VERB_ERROR, b""
    return len(packet), packet


async def _set_buffer(tile: ProgramTile, request: Request) -> Answer:
    endpoint = _endpoint(tile, request, into=True)
    _check_size(endpoint, request)
    try:
        await endpoint.transfer(request.data)
    except BusUpdate:
        return XUD_VERB_UPDATE, b""
    except NewSetup:
        return XUD_VERB_ERROR, b""
    return DONE


def _check_size(endpoint: XudEndpoint, request: Request) -> None:
    most = endpoint.packet_size
    if len(request.data) > most:
        raise _trap(
            request,
            f"{len(request.data)} bytes, and a packet of {endpoint.name} has {most} at most; "
            "XUD_SetBuffer_EpMax sends several",
        )


async def _set_ready(tile: ProgramTile, request: Request) -> Answer:
    endpoint = _endpoint(tile, request)
    _check_size(endpoint, request)
    bus = _side(tile, request).bus
    if not bus.is_running:
        return DONE  # nobody moves it
    try:
        endpoint.set_ready(bus.nursery, request.data)
    except BusUpdate:
        return XUD_VERB_UPDATE, b""
    return DONE


async def _finish(tile: ProgramTile, request: Request) -> Answer:
    try:
        packet = await _endpoint(tile, request).finish()
    except BusUpdate:
        return XUD_VERB_UPDATE, b""
    except NewSetup:
        return XUD_VERB_ERROR, b""
    return len(packet), packet


# The state of the bus and of endpoints.


async def _bus_state(tile: ProgramTile, request: Request) -> Answer:
    update = _endpoint(tile, request).update
    if update is None:
        raise _trap(request, "the bus has not changed; it tells only after XUD_RES_RST")
    return int(update), b""


async def _acknowledge(tile: ProgramTile, request: Request) -> Answer:
    return int(_endpoint(tile, request).acknowledge()), b""


def _addressed(tile: ProgramTile, request: Request) -> XudEndpoint:
    found = _side(tile, request).bus.bound.get(request.a)
    if found is None:
        raise _trap(request, f"there is no endpoint 0x{request.a:02x}")
    return found


async def _stall(tile: ProgramTile, request: Request) -> Answer:
    _addressed(tile, request).set_stall(stalled=bool(request.b))
    return DONE


async def _stalled(tile: ProgramTile, request: Request) -> Answer:
    return int(_addressed(tile, request).is_stalled), b""


async def _reset_state(tile: ProgramTile, request: Request) -> Answer:
    found = _side(tile, request).bus.bound.get(request.a)
    if found is not None:  # programs go through all addresses
        found.set_stall(stalled=False)
    return DONE


async def _set_address(tile: ProgramTile, request: Request) -> Answer:
    _side(tile, request).bus.address = request.a
    return DONE


_HANDLERS: Final[Mapping[Verb, Handler]] = {
    Verb.XUD_MAIN: _main,
    Verb.XUD_KILL: _kill,
    Verb.XUD_INIT_EP: _init,
    Verb.XUD_CLOSE: _close,
    Verb.XUD_GET_SETUP: _get_setup,
    Verb.XUD_GET_BUFFER: _get_buffer,
    Verb.XUD_SET_BUFFER: _set_buffer,
    Verb.XUD_SET_READY: _set_ready,
    Verb.XUD_FINISH: _finish,
    Verb.XUD_BUS_STATE: _bus_state,
    Verb.XUD_ACKNOWLEDGE: _acknowledge,
    Verb.XUD_STALL: _stall,
    Verb.XUD_STALLED: _stalled,
    Verb.XUD_RESET_STATE: _reset_state,
    Verb.XUD_SET_ADDRESS: _set_address,
}


def _begun(handler: Handler) -> Handler:
    """Let a verb take an instruction of its core before it begins, in device time."""

    async def begin(tile: ProgramTile, request: Request) -> Answer:
        await tile.tile.runtime.begin_verb()
        return await handler(tile, request)

    return begin


USB: Final[Mapping[Verb, Handler]] = {verb: _begun(handler) for verb, handler in _HANDLERS.items()}
