"""Logical cores: jobs that start and join, and traps."""

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from aisrv.addons.firmware.code_places import in_lines, lines_of
from aisrv.addons.firmware.records import CALLBACKS, Place, Request, TrapScope, Verb
from aisrv.addons.firmware.verbs.program_tile import DONE, Answer, Handler, ProgramTile
from aisrv.xcore.traps import Trap, TrapKind

_JOB: Final = struct.Struct("<II60s")
_KINDS: Final = frozenset(TrapKind)


class CpuLimitTrap(Trap):
    """A core that was halted as it ran for too long without a verb."""


def _jobs(tile: ProgramTile, data: bytes) -> Iterator[tuple[int, str]]:
    for number, address, text in _JOB.iter_unpack(data):
        name = text.partition(b"\0")[0].decode(errors="replace")
        yield number, name or function_at(tile, address)


async def _fork(tile: ProgramTile, request: Request) -> Answer:
    return tile.fork(list(_jobs(tile, request.data))), b""


async def _join(tile: ProgramTile, request: Request) -> Answer:
    await tile.joins[request.a].wait()
    del tile.joins[request.a]
    return DONE


async def _run_async(tile: ProgramTile, request: Request) -> Answer:
    for number, name in _jobs(tile, request.data):
        tile.start_job(number, name)
    return DONE


async def _cores_free(tile: ProgramTile, _request: Request) -> Answer:
    return tile.tile.cores_free, b""


async def _spin(tile: ProgramTile, request: Request) -> Answer:
    await tile.spin(request)
    return DONE


def function_at(tile: ProgramTile, address: int) -> str:
    """Return the name of the function at an address, or the address."""
    lines = lines_of(tile.file, [address])
    return lines[0].partition(" at ")[0] if lines else f"0x{address:x}"


async def _trap(tile: ProgramTile, request: Request) -> Answer:
    place = Place.from_bytes(request.data)
    lines = lines_of(tile.file, place.frames)
    kind = TrapKind(request.a) if request.a in _KINDS else TrapKind.ECALL
    kind_of_trap = CpuLimitTrap if request.b == TrapScope.CPU_LIMIT else Trap
    trap = kind_of_trap(kind, f"{place.text}{in_lines(lines, 'isr ' if request.core >= CALLBACKS else '')}")
    if request.b == TrapScope.TILE:
        tile.lose(trap)
    raise trap


CORES: Final[Mapping[Verb, Handler]] = {
    Verb.TRAP: _trap,
    Verb.FORK: _fork,
    Verb.JOIN: _join,
    Verb.RUN_ASYNC: _run_async,
    Verb.CORES_FREE: _cores_free,
    Verb.SPIN: _spin,
}
