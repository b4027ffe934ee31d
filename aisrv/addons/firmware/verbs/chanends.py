"""Channel ends: verbs with an operand, verbs with a result, and runs of either."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aisrv.addons.firmware.records import Request, Verb
from aisrv.addons.firmware.verbs.program_tile import DONE, Answer, Handler, ProgramTile, frees
from aisrv.xcore.channels import channel
from aisrv.xcore.channels.chanend import ChanEnd

_CONTROL: Final = 0x80000000


def _puts(verb: Callable[[ChanEnd, int], Awaitable[object]]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        await verb(tile.resources.find(request.a, ChanEnd, request.verb), request.b)
        return DONE

    return handler


def _gets(verb: Callable[[ChanEnd], Awaitable[int | bool]]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        return int(await verb(tile.resources.find(request.a, ChanEnd, request.verb))), b""

    return handler


def _puts_all(verb: Callable[[ChanEnd, bytes], Awaitable[object]]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        await verb(tile.resources.find(request.a, ChanEnd, request.verb), request.data)
        return DONE

    return handler


def _gets_all(verb: Callable[[ChanEnd, int], Awaitable[bytes]]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        return 0, await verb(tile.resources.find(request.a, ChanEnd, request.verb), request.b)

    return handler


async def _in_until_control(tile: ProgramTile, request: Request) -> Answer:
    run = await tile.resources.find(request.a, ChanEnd, request.verb).in_until_control(request.room)
    return (_CONTROL | run, b"") if isinstance(run, int) else (len(run), run)


async def _set_destination(tile: ProgramTile, request: Request) -> Answer:
    tile.resources.find(request.a, ChanEnd, request.verb).setd(request.b)
    return DONE


async def _allocate(tile: ProgramTile, _request: Request) -> Answer:
    return (
        tile.resources.adopt(tile.tile.allocate_chanend()).resource_id if tile.tile.chanends_free else 0
    ), b""


CHANENDS: Final[Mapping[Verb, Handler]] = {
    Verb.CHANEND_ALLOC: _allocate,
    Verb.CHANEND_FREE: frees(ChanEnd),
    Verb.SETD: _set_destination,
    Verb.OUTUINT: _puts(ChanEnd.outuint),
    Verb.OUTUCHAR: _puts(ChanEnd.outuchar),
    Verb.OUTCT: _puts(ChanEnd.outct),
    Verb.OUTWORDS: _puts_all(ChanEnd.outwords),
    Verb.OUTBYTES: _puts_all(ChanEnd.outbytes),
    Verb.INUINT: _gets(ChanEnd.inuint),
    Verb.INUCHAR: _gets(ChanEnd.inuchar),
    Verb.INCT: _gets(ChanEnd.inct),
    Verb.IN_UNTIL_CONTROL: _in_until_control,
    Verb.INWORDS: _gets_all(ChanEnd.inwords),
    Verb.INBYTES: _gets_all(ChanEnd.inbytes),
    Verb.CHKCT: _puts(ChanEnd.chkct),
    Verb.TESTCT: _gets(lambda end: end.testct()),
    Verb.TESTWCT: _gets(lambda end: end.testwct()),
    Verb.CHAN_OUT_WORD: _puts(channel.chan_out_word),
    Verb.CHAN_OUT_BYTE: _puts(channel.chan_out_byte),
    Verb.CHAN_OUT_BUF_WORD: _puts_all(channel.chan_out_buf_word),
    Verb.CHAN_OUT_BUF_BYTE: _puts_all(channel.chan_out_buf_byte),
    Verb.CHAN_IN_WORD: _gets(channel.chan_in_word),
    Verb.CHAN_IN_BYTE: _gets(channel.chan_in_byte),
    Verb.CHAN_IN_BUF_WORD: _gets_all(channel.chan_in_buf_word),
    Verb.CHAN_IN_BUF_BYTE: _gets_all(channel.chan_in_buf_byte),
}
