"""The interrupts of a core: callbacks that it runs as events come, between its verbs and while it waits.

A core that may be interrupted has its task stepped by `CoreInterrupts`. A callback runs as a second task with
the core's number, and what the core waits for goes on as before: the switch steps its verb, and what comes
meanwhile stays until the callback has returned. So only one of the two runs at a time, as on silicon.

A callback may unmask interrupts, but not be interrupted: lib_xcore's wrappers save neither SPC nor SSR, and
their kernel stack is not re-entrant (its interrupt_wrappers.h). Where that would happen the core traps.
Rules: "Firmware in C on the substrate", section Ports, clock blocks and pins, item 12.
"""

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple

import trio
from trio.lowlevel import Abort, current_task

from aisrv.xcore.core import INTERRUPT, Core, current_core
from aisrv.xcore.interrupts.source import Callback, InterruptSource
from aisrv.xcore.interrupts.table import InterruptTable
from aisrv.xcore.runtime import CalledOff, Parking, Runtime
from aisrv.xcore.select import Event
from aisrv.xcore.timer import TimerAfter
from aisrv.xcore.traps import Trap, TrapKind

if TYPE_CHECKING:
    from contextvars import Context

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Hold(Parking[None]):
    """Where a core waits for its callback, which it has to: nothing cancels that but the callback's end."""

    __slots__ = ()

    def _abort(self, _: object) -> Abort:
        return Abort.FAILED


class _Alarm:
    """The time of a timer."""

    def __init__(self) -> None:
        self._scope = trio.CancelScope()

    async def ring(self, deadline: float, act: Callable[[], None]) -> None:
        """Wait for a time, and do something."""
        with self._scope:
            await trio.sleep_until(deadline)
            act()

    def call_off(self) -> None:
        """Do nothing when it comes."""
        self._scope.cancel()


class CoreInterrupts:
    """The interrupts of one core, which begin masked: `run` what they may come in.

    Make them with `interrupts_of` of `aisrv.xcore.interrupts.api`.
    """

    def __init__(self, runtime: Runtime, core: Core) -> None:
        """Belong to a core."""
        self.core: Final = core
        self.is_masked = True
        """Whether nothing interrupts the core's own task."""
        self._runtime = runtime
        self._hold: Parking[None] = _Hold(runtime)
        self._table = InterruptTable(runtime, core)
        self._nursery: trio.Nursery | None = None
        self._context: Context | None = None
        self._is_open = False
        """Whether a callback may run now; else it does as the next part is run in which it may."""
        self._is_due = False
        self._has_failed = False
        self._taken: InterruptSource | None = None
        """The source whose callback is running."""
        self._is_callback_masked = True
        self._callback_scope = trio.CancelScope()
        self._nested: Trap | None = None
        """What a callback meets at its next verb, as another one would interrupt it."""

    # Setting up.

    def set_up(self, event: Event, callback: Callback, name: str) -> None:
        """Set the callback of an event, disabled; `name` is what reports call it."""
        self._operate()
        if self._table.set_up(event, callback, name, self):
            self._arm_anew()

    def enable(self, event: Event) -> None:
        """Let the event interrupt; where it is there, and interrupts are not masked, it does at once."""
        self._operate()
        if self._table.enable(event):
            self._arm_anew()

    def disable(self, event: Event) -> None:
        """Let the event interrupt no more."""
        self._operate()
        if self._table.disable(event):
            self._arm_anew()

    def disable_all(self) -> None:
        """Disable all interrupts."""
        self._operate()
        self._table.disable_all()
        self._arm_anew()

    def mask(self) -> None:
        """Let nothing interrupt; in a callback that is so at first, and lasts until it returns."""
        self._operate()
        if self._is_in_callback:
            self._is_callback_masked = True
        else:
            self.is_masked = True
        self._disarm()

    async def unmask(self) -> None:
        """Let what is enabled interrupt, at once where its event is there.

        Traps in a callback where an event is there, or comes before the callback has returned.
        """
        self._operate()
        if self._is_in_callback:
            self._is_callback_masked = False
            self._arm_anew()
            if self._nested is not None:
                raise self._nested
        else:
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

    def _operate(self) -> None:
        """Begin a setting; in device time it takes a slot."""

    @property
    def _is_in_callback(self) -> bool:
        core = current_core()
        return core is not None and core.below is self.core

    # Events.

    def _arm_anew(self) -> None:
        """Arm what may interrupt now, and note where its event is there."""
        self._disarm()
        if not self._allows:
            return
        if self._table.next() is not None:
            self._come()
        else:
            self._table.arm()

    @property
    def _allows(self) -> bool:
        """Return whether an event would be taken, by whatever of the core runs."""
        masked = self.is_masked if self._taken is None else self._is_callback_masked
        return not masked and self._nursery is not None

    def _disarm(self) -> None:
        self._is_due = False
        self._table.disarm()

    def fire(self, source: InterruptSource) -> None:  # noqa: ARG002 - in device time it has its tick
        """Run the callbacks whose event is there, now or as soon as that may be."""
        self._come()

    def _come(self) -> None:
        self._is_due = True
        if self._is_open:
            self._begin()

    def _come_late(self) -> None:
        """Run the callback of an event that is there: where a clock is late, the core may be woken first."""
        if self._taken is None and self._table.armed and self._table.next() is not None:
            self._come()

    def at(self, event: TimerAfter, act: Callable[[], None]) -> CalledOff:
        """Have something done at the time of a timer's event, while the core runs."""
        alarm = _Alarm()
        if self._nursery is not None:
            self._nursery.start_soon(alarm.ring, event.deadline, act)
        return alarm

    def _begin(self) -> None:
        """Start the task of the callbacks; the core's own, where it runs, waits at its next verb."""
        source = self._table.next()
        if source is None or self._nursery is None or self._context is None:
            self._is_due = False
            return
        self._disarm()
        if self._taken is not None:
            self._nest(source, self._taken)
            return
        self._taken = source
        self._runtime.interrupt_began()
        if self.core.task is current_task():
            self._runtime.interrupt_next_verb()
        self._context.copy().run(self._nursery.start_soon, self._take)

    # Callbacks.

    async def _take(self) -> None:
        """Run callbacks as long as there are events."""
        try:
            while self._taken is not None:
                await self._call(self._taken)
                self._is_callback_masked = True
                self._disarm()
                self._taken = self._table.next()
            self._arm_anew()
        except BaseException:
            self._has_failed, self._taken = True, None
            raise
        finally:
            self._hold.wake(None)
            self._runtime.interrupt_ended()

    async def _call(self, source: InterruptSource) -> None:
        """Run one callback."""
        with self._runtime.in_callback(source.core, source.event):
            await self._runtime.begin_verb()
            await self._run_callback(source)

    async def _run_callback(self, source: InterruptSource) -> None:
        with trio.CancelScope() as self._callback_scope:
            await self._step_callback(_coroutine(source.callback))
        if self._nested is not None:
            raise self._nested

    def _nest(self, source: InterruptSource, below: InterruptSource) -> None:
        """Have the callback that runs trap, at the verb that it is in or its next one."""
        reason = (
            f"{source} interrupts {below}, which has unmasked interrupts: "
            "the way back to what that interrupted is lost, as lib_xcore saves neither SPC nor SSR"
        )
        self._nested = Trap(TrapKind.ECALL, reason)
        self._callback_scope.cancel()

    @types.coroutine
    def _step_callback(self, interruptible: Coroutine[Any, Any, object]) -> Generator[Any, Any, None]:
        """Step a callback; where another would interrupt it, it traps in the verb that it is in."""
        send: Callable[[Any], Any] = interruptible.send
        value: Any = None
        while True:
            try:
                message = send(value)
            except StopIteration:
                return
            try:
                value, send = (yield message), interruptible.send
            except BaseException as error:  # the callback's
                value, send = error, interruptible.throw
            if self._nested is not None:
                value, send = self._nested, interruptible.throw

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
                self._come_late()
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
        return [waker for each in self._table.armed for waker in each.wakers]

    def explain_interrupts(self) -> str:
        """Name the callbacks that may run, and on what; empty where none may."""
        return ", ".join(map(str, self._table.armed))


async def _coroutine(function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    return await function(*args)


def _only_error(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return the one error of a group beside cancellations; None where there are none, or several."""
    rest = group.split(trio.Cancelled)[1]
    error: BaseException | None = rest
    while isinstance(error, BaseExceptionGroup):
        if len(error.exceptions) != 1:
            return None
        error = error.exceptions[0]
    return error
