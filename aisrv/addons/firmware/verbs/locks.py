"""Locks."""

from collections.abc import Mapping
from typing import Final

from aisrv.addons.firmware.records import Request, Verb
from aisrv.addons.firmware.verbs.program_tile import DONE, Answer, Handler, ProgramTile, frees
from aisrv.xcore.lock import Lock


async def _allocate(tile: ProgramTile, _request: Request) -> Answer:
    return (tile.resources.adopt(tile.tile.allocate_lock()).resource_id if tile.tile.locks_free else 0), b""


async def _acquire(tile: ProgramTile, request: Request) -> Answer:
    await tile.resources.find(request.a, Lock, request.verb).acquire()
    return request.a, b""


async def _release(tile: ProgramTile, request: Request) -> Answer:
    tile.resources.find(request.a, Lock, request.verb).release()
    return DONE


LOCKS: Final[Mapping[Verb, Handler]] = {
    Verb.LOCK_ALLOC: _allocate,
    Verb.LOCK_FREE: frees(Lock),
    Verb.LOCK_ACQUIRE: _acquire,
    Verb.LOCK_RELEASE: _release,
}
