"""xscope: what a program records on its probes, and data from the host."""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aisrv.addons.firmware.records import RecordForm, Request, Verb, XscopeControl
from aisrv.addons.firmware.verbs.program_tile import DONE, Answer, Handler, ProgramTile
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.probes import DataType, Probe, ProbeEvent, ProbeKind, Value
from aisrv.xcore.traps import Trap, TrapKind

_FORMS: Final[Mapping[RecordForm, tuple[ProbeEvent, Callable[[Request], Value]]]] = {
    RecordForm.WORD: (ProbeEvent.VALUE, lambda request: request.b),
    RecordForm.LONG: (ProbeEvent.VALUE, lambda request: int.from_bytes(request.data, "little")),
    RecordForm.FLOAT: (
        ProbeEvent.VALUE,
        lambda request: float(struct.unpack("<f", request.b.to_bytes(4, "little"))[0]),
    ),
    RecordForm.DOUBLE: (ProbeEvent.VALUE, lambda request: float(struct.unpack("<d", request.data)[0])),
    RecordForm.BYTES: (ProbeEvent.VALUE, lambda request: request.data),
    RecordForm.START: (ProbeEvent.START, lambda _: None),
    RecordForm.STOP: (ProbeEvent.STOP, lambda _: None),
    RecordForm.START_WORD: (ProbeEvent.START, lambda request: request.b),
    RecordForm.STOP_WORD: (ProbeEvent.STOP, lambda request: request.b),
}


async def _record(tile: ProgramTile, request: Request) -> Answer:
    form = RecordForm(request.a >> 8)
    event, value = _FORMS[form]
    bits = 64 if form is RecordForm.LONG else 32
    tile.tile.runtime.xscope.record(tile.tile.number, request.a & 0xFF, event, value(request), bits)
    return DONE


async def _register(tile: ProgramTile, request: Request) -> Answer:
    tile.tile.runtime.xscope.register(tile.tile.number, list(_probes(request.data)))
    return DONE


def _probes(data: bytes) -> Iterator[Probe]:
    """Read what `xscope_register` was given: for each probe two bytes, and two texts that end with 0."""
    while data:
        (kind, data_type), (name, unit, data) = data[:2], data[2:].split(b"\0", 2)
        try:
            yield Probe(
                name.decode(errors="replace"),
                ProbeKind(kind),
                DataType(data_type),
                unit.decode(errors="replace"),
            )
        except ValueError as error:
            raise Trap(TrapKind.ECALL, f"xscope_register: {error}", "xscope") from None


async def _control(tile: ProgramTile, request: Request) -> Answer:
    xscope, number = tile.tile.runtime.xscope, tile.tile.number
    if request.a == XscopeControl.PING:
        xscope.ping(number)
    else:
        xscope.enable(number, is_on=request.a == XscopeControl.ENABLE)
    return DONE


async def _connect(tile: ProgramTile, request: Request) -> Answer:
    tile.host_data.connect(tile.tile, tile.resources.find(request.a, ChanEnd, request.verb))
    return DONE


XSCOPE: Final[Mapping[Verb, Handler]] = {
    Verb.XSCOPE_RECORD: _record,
    Verb.XSCOPE_REGISTER: _register,
    Verb.XSCOPE_CONTROL: _control,
    Verb.XSCOPE_CONNECT: _connect,
}
