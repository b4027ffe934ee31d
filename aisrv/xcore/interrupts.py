"""Interrupts: callbacks that a core runs as events come, between two of its verbs and while it waits.

A core that may be interrupted has its task stepped by `Interrupts`. A callback runs as a second task with the
core's number, and what the core waits for goes on as before: the switch steps its verb, and what comes
meanwhile stays until the callback has returned. So only one of the two runs at a time, as on silicon.
Names and rules: lib_xcore's interrupt.h, interrupt_wrappers.h and triggerable.h; "Firmware in C on the
substrate", section Ports, clock blocks and pins, item 12.
"""

import functools
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple

import trio
from trio.lowlevel import Abort, current_task

from aisrv.xcore.core import INTERRUPT, Core, InterruptCore, check_tile, current_core
from aisrv.xcore.report import wakers_of
from aisrv.xcore.runtime import Parking, Runtime, current_runtime
from aisrv.xcore.select import Event
from aisrv.xcore.timer import TimerAfter
from aisrv.xcore.traps import XcoreError

if TYPE_CHECKING:
    from contextvars import Context

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Callback = Callable[[], Awaitable[object]]
"""What an interrupt runs."""


class InterruptError(XcoreError):
    """Interrupts where there are none, or of what has none."""


class _Hold(Parking[None]):
    """Where a core waits for its callback, which it has to: nothing cancels that but the callback's end."""

    __slots__ = ()

    def _abort(self, _: object) -> Abort:
        return Abort.FAILED


class _Interrupt:
    """An event with its callback; while it is armed, it is what listens to the event."""

    has_others = True
    takes_calls = False
    use = "an interrupt"

    def __init__(self, interrupts: "Interrupts", event: Event, callback: Callback, name: str) -> None:
        self.event: Final = event
        self.callback = callback
        self.core: Final = interrupts.core_of_callback(name)
        self.is_enabled = False
        self._fire = interrupts.fire
        self._start_soon = interrupts.start_soon
        self._sleeping: trio.CancelScope | None = None
        if isinstance(event, TimerAfter):
            event.on_change = self._time_changed

    @property
    def user_name(self) -> str:
        """Name of the core with the callback."""
        return str(self.core)

    @property
    def wakers(self) -> Sequence[Core | None]:
        """The cores that could bring the event; None is somebody outside."""
        wakers = None if isinstance(self.event, TimerAfter) else wakers_of(self.event)
        return (None,) if wakers is None else wakers

    def fire(self, resource: object) -> None:  # noqa: ARG002 - there is one
        """Have the callback run, as the event is there."""
        self.disarm()
        self._fire()

    def answer(self, call: object) -> None:
        """Answer no client at once."""

    def arm(self) -> None:
        """Let the event fire once it comes."""
        if isinstance(self.event, TimerAfter):
            self._sleeping = trio.CancelScope()
            self._start_soon(self._sleep, self.event, self._sleeping)
        else:
            self.event.listen(self)

    def disarm(self) -> None:
        """Let the event not fire any more."""
        if not isinstance(self.event, TimerAfter):
            self.event.stop_listening(self)
        elif self._sleeping is not None:
            self._sleeping.cancel()
            self._sleeping = None

    async def _sleep(self, event: TimerAfter, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep_until(event.deadline)
            if self._sleeping is scope:
                self.fire(event)

    def _time_changed(self) -> None:
        if self._sleeping is not None:
            self.disarm()
            self.arm()


class Interrupts:
    """The interrupts of one core, which begin masked: `run` what they may come in."""

    def __init__(self, runtime: Runtime, core: Core) -> None:
        """Belong to a core. Raises InterruptError in device time."""
        if not runtime.has_interrupts:
            raise InterruptError(f"{core}: interrupts are not there in device time; wait in a select")
        self.core: Final = core
        self.is_masked = True
        self._runtime = runtime
        self._hold = _Hold(runtime)
        self._by_resource: dict[int, _Interrupt] = {}
        self._armed: list[_Interrupt] = []
        self._expects = ExitStack()
        self._nursery: trio.Nursery | None = None
        self._context: Context | None = None
        self._is_open = False
        """Whether a callback may run now; else it does as the next part is run in which it may."""
        self._is_due = False
        self._has_failed = False
        self._taken: _Interrupt | None = None

    # Setting up.

    def set_up(self, event: Event, callback: Callback, name: str) -> None:
        """Set the callback of an event, disabled; `name` is what reports call it."""
        self._check(event, "setv")
        key = _key(event)
        if (before := self._by_resource.get(key)) is not None:
            self._disable(before)
        self._by_resource[key] = _Interrupt(self, event, callback, name)

    def enable(self, event: Event) -> None:
        """Let the event interrupt; where it is there, and interrupts are not masked, it does at once."""
        interrupt = self._find(event, "eeu")
        if not interrupt.is_enabled:
            interrupt.is_enabled = True
            self._arm_anew()

    def disable(self, event: Event) -> None:
        """Let the event interrupt no more."""
        self._disable(self._find(event, "edu"))

    def disable_all(self) -> None:
        """Disable all interrupts."""
        for interrupt in self._by_resource.values():
            self._disable(interrupt)

    def _disable(self, interrupt: _Interrupt) -> None:
        if interrupt.is_enabled:
            interrupt.is_enabled = False
            self._arm_anew()

    def mask(self) -> None:
        """Let nothing interrupt. In a callback, where that is so, it changes nothing."""
        if not self._is_in_callback:
            self.is_masked = True
            self._disarm()

    async def unmask(self) -> None:
        """Let what is enabled interrupt, at once where its event is there. In a callback: nothing."""
        if self._is_in_callback:
            return
        self.is_masked = False
        self._arm_anew()
        await self.take_due()

    async def take_due(self) -> None:
        """Run the callbacks that are due, as between two verbs."""
        self._is_open, before = True, self._is_open
        try:
            if self._is_due:
                self._begin()
            await self._until_taken()
        finally:
            self._is_open = before

    @property
    def _is_in_callback(self) -> bool:
        return isinstance(current_core(), InterruptCore)

    def _check(self, event: Event, verb: str) -> None:
        tile = getattr(event, "tile", self.core.tile)
        check_tile(tile, f"{verb} on {event.name}")

    def _find(self, event: Event, verb: str) -> _Interrupt:
        self._check(event, verb)
        found = self._by_resource.get(_key(event))
        if found is None:
            raise InterruptError(f"{verb} on {event.name}, of which {self.core} has no interrupt callback")
        return found

    def core_of_callback(self, name: str) -> InterruptCore:
        """Make what a callback is to resources and reports."""
        return InterruptCore(self.core, name)

    # Events.

    def _arm_anew(self) -> None:
        """Arm what may interrupt now, and note where its event is there."""
        self._disarm()
        if self.is_masked or self._taken is not None or self._nursery is None:
            return
        if self._next() is not None:
            self.fire()
            return
        for each in self._by_resource.values():
            if each.is_enabled:
                each.arm()
                self._armed.append(each)
                if None in each.wakers:
                    self._expects.enter_context(self._runtime.outside_world())

    def _disarm(self) -> None:
        self._is_due = False
        for each in self._armed:
            each.disarm()
        self._armed.clear()
        self._expects.close()

    def fire(self) -> None:
        """Run the callbacks whose event is there, now or as soon as that may be."""
        self._is_due = True
        if self._is_open:
            self._begin()

    def _begin(self) -> None:
        """Start the task of the callbacks; the core's own, where it runs, waits at its next verb."""
        interrupt = self._next()
        if interrupt is None or self._nursery is None or self._context is None:
            self._is_due = False
            return
        self._taken = interrupt
        self._runtime.interrupt_began()
        self._disarm()
        if self.core.task is current_task():
            self._runtime.interrupt_next_verb()
        self._context.copy().run(self._nursery.start_soon, self._take)

    def _next(self) -> _Interrupt | None:
        for each in self._by_resource.values():
            if each.is_enabled and each.event.ready:
                return each
        return None

    async def _take(self) -> None:
        try:
            while (interrupt := self._taken) is not None:
                with self._runtime.in_callback(interrupt.core, interrupt.event):
                    await self._runtime.begin_verb()
                    await interrupt.callback()
                self._taken = self._next()
            self._arm_anew()
        except BaseException:
            self._has_failed, self._taken = True, None
            raise
        finally:
            self._hold.wake(None)
            self._runtime.interrupt_ended()

    # The core's own task.

    async def run(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run a function that may be interrupted wherever it waits."""
        return await self.within(self.interruptible(function, *args))

    async def within(self, body: Awaitable[T]) -> T:
        """Take interrupts while `body`, which runs the parts that may be interrupted, goes on."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._context = current_task().context
                self.core.interrupts = self
                try:
                    self._arm_anew()
                    return await body
                finally:
                    self.core.interrupts = None
                    self._disarm()
                    self._nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            error = _only_error(group)
            if error is None:
                raise
        finally:
            self._nursery = self._context = None
        raise error

    def start_soon(self, function: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Start a task that ends with the core."""
        if self._nursery is not None:
            self._nursery.start_soon(function, *args)

    async def interruptible(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run a part that may be interrupted wherever it waits, after what is due."""
        await self.take_due()
        self._is_open = True
        try:
            return await self._step(_coroutine(function, *args))
        finally:
            self._is_open = False

    @types.coroutine
    def _step(self, interruptible: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Step a coroutine; where it would go on while a callback runs, it is held until that returns."""
        task = current_task()
        send: Callable[[Any], Any] = interruptible.send
        value: Any = None
        while True:
            try:
                message = send(value)
            except StopIteration as done:
                yield from self._until_taken()
                result: T = done.value
                return result
            try:
                value = yield message
                send = interruptible.send
                if self._taken is not None or self._has_failed:
                    came = task.custom_sleep_data  # what the coroutine is woken with: see `Waiter`
                    yield from self._until_taken()
                    task.custom_sleep_data = came
            except BaseException as error:  # the coroutine's
                value, send = error, interruptible.throw

    @types.coroutine
    def _until_taken(self) -> Generator[Any, Any, None]:
        """Wait until no callback runs; where one has failed, the core is cancelled here."""
        while self._taken is not None:
            yield from self._hold.park(INTERRUPT, self)
        if self._has_failed:
            yield from trio.lowlevel.checkpoint()  # noqa: ASYNC105 - a generator

    # Reports.

    @property
    def name(self) -> str:
        """Name of what a core waits for whose callback runs."""
        return "no callback" if self._taken is None else self._taken.event.name

    def wakers(self) -> list[Core | None]:
        """Return the core of the callback that runs."""
        return [] if self._taken is None else [self._taken.core]

    def explain_wait(self) -> str:
        """Name the callback that runs."""
        return "" if self._taken is None else f"until {self._taken.core} returns"

    def interrupters(self) -> list[Core | None]:
        """Return the cores of which any could interrupt now; None is somebody outside."""
        return [waker for each in self._armed for waker in each.wakers]

    def explain_interrupts(self) -> str:
        """Name the callbacks that may run, and on what; empty where none may."""
        return ", ".join(f"{each.core.name} on {each.event.name}" for each in self._armed)


async def _coroutine(function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    return await function(*args)


def _key(event: Event) -> int:
    """Tell the resource of an event: of a timer, whatever its time."""
    return id(event.timer if isinstance(event, TimerAfter) else event)


def _only_error(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return the one error of a group beside cancellations; None where there are none, or several."""
    rest = group.split(trio.Cancelled)[1]
    error: BaseException | None = rest
    while isinstance(error, BaseExceptionGroup):
        if len(error.exceptions) != 1:
            return None
        error = error.exceptions[0]
    return error


# What the tasks of cores call.


def interrupt_permitted(function: Callable[[*Ts], Awaitable[T]]) -> Callable[[*Ts], Awaitable[T]]:
    """Return the function as one that may be interrupted, to be run as a core: INTERRUPT_PERMITTED.

    Interrupts are masked until it unmasks them. Raises InterruptError outside of a core, and in device time.
    """

    @functools.wraps(function)
    async def permitted(*args: *Ts) -> T:
        core, runtime = current_core(), current_runtime()
        if core is None or runtime is None or core.task is not current_task():
            raise InterruptError("interrupts are of cores: start the function by Tile.start")
        if core.interrupts is not None:
            raise InterruptError(f"{core} is interruptible already")
        return await Interrupts(runtime, core).run(function, *args)

    return permitted


def _own() -> Interrupts:
    core = current_core()
    found = None if core is None else core.interrupts
    if not isinstance(found, Interrupts):
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
    """Let nothing interrupt the calling core. In a callback, where that is so, it changes nothing."""
    _own().mask()


async def interrupt_unmask_all() -> None:
    """Let what is enabled interrupt the calling core; callbacks whose event is there run before it returns.

    In a callback it changes nothing: the core is as it was when the callback returns.
    """
    await _own().unmask()
