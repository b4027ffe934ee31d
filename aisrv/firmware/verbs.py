"""What each verb of a program in C does on the substrate: a table of handlers."""

import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

from aisrv.firmware.code_places import in_lines, lines_of
from aisrv.firmware.records import Place, Request, Verb
from aisrv.xcore import channel
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.lib_xcore import Join
from aisrv.xcore.lock import Lock
from aisrv.xcore.select import Event, select, select_or_default
from aisrv.xcore.tile import Tile
from aisrv.xcore.timer import Timer
from aisrv.xcore.traps import Trap, TrapKind

Resource = ChanEnd | Timer | Lock
R = TypeVar("R", bound=Resource)


class ProgramTile(Protocol):
    """What verbs need of the tile whose program asks for them."""

    @property
    def tile(self) -> Tile:
        """The tile."""

    @property
    def joins(self) -> dict[int, Join]:
        """Jobs that were forked and not joined yet, by number."""

    @property
    def file(self) -> Path:
        """The program."""

    def adopt(self, resource: R) -> R:
        """Let the program know a resource of the tile by its id."""

    def find_any(self, number: int, verb: Verb) -> Resource:
        """Find a resource of the program, for a verb. Traps with ILLEGAL_RESOURCE."""

    def find(self, number: int, kind: type[R], verb: Verb) -> R:
        """Find a resource of one kind. Traps with ILLEGAL_RESOURCE."""

    def forget(self, number: int) -> None:
        """Forget a resource that was freed."""

    def own_timer(self, number: int) -> Timer:
        """Return the timer that XC's delays of a coroutine use."""

    def start_job(self, number: int, name: str) -> None:
        """Run a job of the program on a core of its own that nobody joins."""

    def fork(self, jobs: Sequence[tuple[int, str]]) -> int:
        """Start jobs by number and name, and return the number of their join."""

    async def poll(self) -> None:
        """Let time pass for a core that reads the clock in a loop."""

    def lose(self, trap: Trap) -> None:
        """End the program and all its cores."""


Answer = tuple[int, bytes]
Handler = Callable[[ProgramTile, Request], Awaitable[Answer]]

_JOB: Final = struct.Struct("<II60s")
_EVENT: Final = struct.Struct("<II")
_DEFAULT: Final = 0xFFFFFFFF
_CONTROL: Final = 0x80000000
_DONE: Final[Answer] = (0, b"")
_KINDS: Final = frozenset(TrapKind)


def _end(tile: ProgramTile, request: Request) -> ChanEnd:
    return tile.find(request.a, ChanEnd, request.verb)


# Channel ends: verbs with an operand, verbs with a result, and runs of either.


def _puts(verb: Callable[[ChanEnd, int], Awaitable[object]]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        await verb(_end(tile, request), request.b)
        return _DONE

    return handler


def _gets(verb: Callable[[ChanEnd], Awaitable[int | bool]]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        return int(await verb(_end(tile, request))), b""

    return handler


def _puts_all(verb: Callable[[ChanEnd, bytes], Awaitable[object]]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        await verb(_end(tile, request), request.data)
        return _DONE

    return handler


def _gets_all(verb: Callable[[ChanEnd, int], Awaitable[bytes]]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        return 0, await verb(_end(tile, request), request.b)

    return handler


async def _in_until_control(tile: ProgramTile, request: Request) -> Answer:
    run = await _end(tile, request).in_until_control(request.room)
    return (_CONTROL | run, b"") if isinstance(run, int) else (len(run), run)


async def _set_destination(tile: ProgramTile, request: Request) -> Answer:
    _end(tile, request).setd(request.b)
    return _DONE


# Resources.


async def _chanend_alloc(tile: ProgramTile, _request: Request) -> Answer:
    return (tile.adopt(tile.tile.allocate_chanend()).resource_id if tile.tile.chanends_free else 0), b""


async def _timer_alloc(tile: ProgramTile, _request: Request) -> Answer:
    return (tile.adopt(tile.tile.allocate_timer()).resource_id if tile.tile.timers_free else 0), b""


async def _lock_alloc(tile: ProgramTile, _request: Request) -> Answer:
    return (tile.adopt(tile.tile.allocate_lock()).resource_id if tile.tile.locks_free else 0), b""


def _frees(kind: type[ChanEnd] | type[Timer] | type[Lock]) -> Handler:
    async def handler(tile: ProgramTile, request: Request) -> Answer:
        tile.find(request.a, kind, request.verb).free()
        tile.forget(request.a)
        return _DONE

    return handler


async def _wait_after(tile: ProgramTile, request: Request) -> Answer:
    timer = tile.find(request.a, Timer, request.verb) if request.a else tile.own_timer(request.core)
    return await timer.wait_after(request.b), b""


async def _lock_acquire(tile: ProgramTile, request: Request) -> Answer:
    await tile.find(request.a, Lock, request.verb).acquire()
    return request.a, b""


async def _lock_release(tile: ProgramTile, request: Request) -> Answer:
    tile.find(request.a, Lock, request.verb).release()
    return _DONE


# Time, and events.


async def _catch_up(_tile: ProgramTile, _request: Request) -> Answer:
    return _DONE


async def _let_time_pass(tile: ProgramTile, _request: Request) -> Answer:
    await tile.poll()
    return _DONE


async def _select(tile: ProgramTile, request: Request) -> Answer:
    events: list[Event] = []
    for resource, time in _EVENT.iter_unpack(request.data):
        found = tile.find_any(resource, request.verb)
        if isinstance(found, Timer):
            events.append(found.after(time))
        elif isinstance(found, ChanEnd):
            events.append(found)
        else:
            place = f"select on {found.name}"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which raises no events", place)
    if not events and not request.a:
        raise Trap(TrapKind.ECALL, "a select of which no guard holds, without a default", "select")
    if request.a:
        chosen = await select_or_default(*events, ordered=bool(request.b))
        return (_DEFAULT if chosen is None else _place(events, chosen)), b""
    return _place(events, await select(*events, ordered=bool(request.b))), b""


def _place(events: list[Event], chosen: Event) -> int:
    return next(place for place, event in enumerate(events) if event is chosen)


# Cores.


def _jobs(tile: ProgramTile, data: bytes) -> Iterator[tuple[int, str]]:
    for number, address, text in _JOB.iter_unpack(data):
        name = text.partition(b"\0")[0].decode(errors="replace")
        yield number, name or _function_at(tile, address)


async def _fork(tile: ProgramTile, request: Request) -> Answer:
    return tile.fork(list(_jobs(tile, request.data))), b""


async def _join(tile: ProgramTile, request: Request) -> Answer:
    await tile.joins[request.a].wait()
    del tile.joins[request.a]
    return _DONE


async def _run_async(tile: ProgramTile, request: Request) -> Answer:
    for number, name in _jobs(tile, request.data):
        tile.start_job(number, name)
    return _DONE


async def _cores_free(tile: ProgramTile, _request: Request) -> Answer:
    return tile.tile.cores_free, b""


def _function_at(tile: ProgramTile, address: int) -> str:
    lines = lines_of(tile.file, [address])
    return lines[0].partition(" at ")[0] if lines else f"0x{address:x}"


async def _trap(tile: ProgramTile, request: Request) -> Answer:
    place = Place.from_bytes(request.data)
    lines = lines_of(tile.file, place.frames)
    kind = TrapKind(request.a) if request.a in _KINDS else TrapKind.ECALL
    trap = Trap(kind, f"{place.text}{in_lines(lines)}")
    if request.b:
        tile.lose(trap)
    raise trap


VERBS: Final[Mapping[Verb, Handler]] = {
    Verb.TRAP: _trap,
    Verb.CATCH_UP: _catch_up,
    Verb.LET_TIME_PASS: _let_time_pass,
    Verb.FORK: _fork,
    Verb.JOIN: _join,
    Verb.RUN_ASYNC: _run_async,
    Verb.CORES_FREE: _cores_free,
    Verb.SELECT: _select,
    Verb.CHANEND_ALLOC: _chanend_alloc,
    Verb.CHANEND_FREE: _frees(ChanEnd),
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
    Verb.TESTCT: _gets(ChanEnd.testct),
    Verb.TESTWCT: _gets(ChanEnd.testwct),
    Verb.CHAN_OUT_WORD: _puts(channel.chan_out_word),
    Verb.CHAN_OUT_BYTE: _puts(channel.chan_out_byte),
    Verb.CHAN_OUT_BUF_WORD: _puts_all(channel.chan_out_buf_word),
    Verb.CHAN_OUT_BUF_BYTE: _puts_all(channel.chan_out_buf_byte),
    Verb.CHAN_IN_WORD: _gets(channel.chan_in_word),
    Verb.CHAN_IN_BYTE: _gets(channel.chan_in_byte),
    Verb.CHAN_IN_BUF_WORD: _gets_all(channel.chan_in_buf_word),
    Verb.CHAN_IN_BUF_BYTE: _gets_all(channel.chan_in_buf_byte),
    Verb.TIMER_ALLOC: _timer_alloc,
    Verb.TIMER_FREE: _frees(Timer),
    Verb.WAIT_AFTER: _wait_after,
    Verb.LOCK_ALLOC: _lock_alloc,
    Verb.LOCK_FREE: _frees(Lock),
    Verb.LOCK_ACQUIRE: _lock_acquire,
    Verb.LOCK_RELEASE: _lock_release,
}
"""Every verb but RETURN, which ends a core, and WHERE, which answers a question."""
