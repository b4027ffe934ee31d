"""What the tasks of cores call to take interrupts.

Names: lib_xcore's interrupt.h, interrupt_wrappers.h and triggerable.h.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

from trio.lowlevel import current_task

from aisrv.xcore.core import Core, current_core
from aisrv.xcore.interrupts.core import CoreInterrupts
from aisrv.xcore.interrupts.source import Callback
from aisrv.xcore.runtime import Runtime, current_runtime
from aisrv.xcore.select import Event
from aisrv.xcore.traps import InterruptError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def interrupts_of(runtime: Runtime, core: Core) -> CoreInterrupts:
    """Make the interrupts of a core, which is to run within them."""
    assert runtime.make_interrupts is not None  # noqa: S101 - set by the node
    made: CoreInterrupts = runtime.make_interrupts(runtime, core)
    return made


def interrupt_permitted(function: Callable[[*Ts], Awaitable[T]]) -> Callable[[*Ts], Awaitable[T]]:
    """Return the function as one that may be interrupted, to be run as a core: INTERRUPT_PERMITTED.

    Interrupts are masked until it unmasks them. Raises InterruptError outside of a core.
    """

    @functools.wraps(function)
    async def permitted(*args: *Ts) -> T:
        core, runtime = current_core(), current_runtime()
        if core is None or runtime is None or core.task is not current_task():
            raise InterruptError("interrupts are of cores: start the function by Tile.start")
        if core.interrupts is not None:
            raise InterruptError(f"{core} is interruptible already")
        return await interrupts_of(runtime, core).run(function, *args)

    return permitted


def _own() -> CoreInterrupts:
    core = current_core()
    found = None if core is None else core.interrupts
    if not isinstance(found, CoreInterrupts):
        who = "a task outside of any core" if core is None else core
        raise InterruptError(f"{who} takes no interrupts: start it as interrupt_permitted(function)")
    return found


def setup_interrupt_callback(event: Event, callback: Callback) -> None:
    """Set what the calling core runs as an event comes: `triggerable_setup_interrupt_callback`.

    `event` is a channel end, `timer.after(time)`, or anything else for a select. It is disabled until
    `enable_trigger`. `callback` is an async function without arguments, which takes the event by an input, or
    moves the timer's time by `TimerAfter.change`: else it runs again. Other interrupts are masked in it.
    """
    _own().set_up(event, callback, str(getattr(callback, "__name__", "callback")))


def enable_trigger(event: Event) -> None:
    """Let the event interrupt the calling core."""
    _own().enable(event)


def disable_trigger(event: Event) -> None:
    """Let the event interrupt the calling core no more."""
    _own().disable(event)


def disable_all_triggers() -> None:
    """Let no event interrupt the calling core any more, until it is enabled again."""
    _own().disable_all()


def interrupt_mask_all() -> None:
    """Let nothing interrupt the calling core; in a callback, until that returns."""
    _own().mask()


async def interrupt_unmask_all() -> None:
    """Let what is enabled interrupt the calling core; callbacks whose event is there run before it returns.

    A callback has them masked, and the core is as it was when it returns. One that unmasks them traps where
    an event is there, or comes: lib_xcore's wrappers of callbacks cannot be interrupted.
    """
    await _own().unmask()
