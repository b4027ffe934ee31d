"""What a logical core waits for.

A core that is parked on a resource of its tile says so itself. One that waits for the outside, such as an
endpoint or an interpreter's process, is found in the call of ours that its task awaits innermost.
"""

import inspect
from types import FrameType
from typing import Final

import trio

from aisrv.monitor.values import CoreState, CoreStatus
from aisrv.xcore.core import Core
from aisrv.xcore.traps import Trap
from aisrv.xcore.waiter import Waiter

_SKIPPED: Final = ("trio.", "aisrv.xcore.runtime.", "aisrv.xcore.waiter.")
"""Beginnings of the modules whose calls say nothing of the firmware."""


def core_status(core: Core) -> CoreStatus:
    """Describe a core that is in use. Call it from another task than the core's, in the same thread."""
    if core.verb is not None:
        on = "" if core.waits_on is None else core.waits_on.name
        return CoreStatus(core.number, core.name, CoreState.WAITING, core.verb, on)
    task = core.task
    if task is None:
        return CoreStatus(core.number, core.name, CoreState.SET_ASIDE)
    if inspect.iscoroutine(task.coro) and inspect.getcoroutinestate(task.coro) == inspect.CORO_CLOSED:
        return CoreStatus(core.number, core.name, CoreState.HALTED, trap=_describe(core.trap))
    frame = _innermost(task)
    if frame is None:  # nothing, or a resource that has just woken it
        return CoreStatus(core.number, core.name, CoreState.RUNNING)
    return CoreStatus(core.number, core.name, CoreState.WAITING, frame.f_code.co_name, _owner(frame))


def _describe(trap: Trap | None) -> str:
    if trap is None:
        return ""
    return f"{trap.place}: {trap}" if trap.place else str(trap)


def _innermost(task: trio.lowlevel.Task) -> FrameType | None:
    """Find the last public function on the way to what the task awaits; None where it awaits nothing."""
    frames = [frame for frame, _ in task.iter_await_frames()]
    waiters = [owner for frame in frames if isinstance(owner := frame.f_locals.get("self"), Waiter)]
    if any(waiter.task is None for waiter in waiters):
        return None
    ours = [frame for frame in frames if _is_public(frame)]
    return ours[-1] if ours else None


def _is_public(frame: FrameType) -> bool:
    module = f"{frame.f_globals.get('__name__')}."
    return not module.startswith(_SKIPPED) and not frame.f_code.co_name.startswith(("_", "<"))


def _owner(frame: FrameType) -> str:
    """Return the name of the object whose method a frame is of, or its class; empty for a function."""
    owner = frame.f_locals.get("self")
    if owner is None:
        return ""
    name = getattr(owner, "name", None)
    return name if isinstance(name, str) else type(owner).__name__
