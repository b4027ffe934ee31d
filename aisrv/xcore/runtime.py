"""What the resources of a node share: its switch, clock and tracer, and the count of the cores that can run.

Cores are counted as they park and wake, so that a deadlock is seen the moment it happens.
"""

import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar, TypeVarTuple

import trio
from trio.lowlevel import current_task

from aisrv.xcore.clock import Clock, Poll
from aisrv.xcore.core import INTERRUPT, Core, Resource, current_core
from aisrv.xcore.deadlock_watch import DeadlockWatch
from aisrv.xcore.probes import Xscope
from aisrv.xcore.report import CoreDeadlock, find_deadlock, line_of, name_of
from aisrv.xcore.switch import Switch
from aisrv.xcore.tick_waiter import TickWaiter
from aisrv.xcore.trace import Tracer, fan_out
from aisrv.xcore.traps import Deadlock, trap_of
from aisrv.xcore.waiter import Sleep, Waiter, no_cleanup

if TYPE_CHECKING:
    from aisrv.xcore.alarms import Alarms

logger = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
MAX_VERBS_PER_TURN: Final = 256
"""Verbs that may follow each other without waiting before others get to run; on virtual time, in one tick."""
_INTERRUPT_DUE: Final = 1 << 20
"""Added to the verbs that began since a task last waited, where the next one lets an interrupt run."""
ALL_CORES: Final = 1 << 30
"""More cores than there are."""
OnTrap = Literal["raise", "halt"]


_running_in: ContextVar["Runtime | None"] = ContextVar("current_runtime", default=None)


class CalledOff(Protocol):
    """Something to be done at a tick."""

    def call_off(self) -> None:
        """Do nothing when it comes."""


class CoreOwner(Protocol):
    """Who a core belongs to: its tile."""

    def release_core(self, core: Core) -> None:
        """Take a core back whose task has ended."""


class Runtime:
    """One for each node; every resource of the node is handed it."""

    parking: "Callable[[Runtime], Parking[Any]]"
    """Creates a place where a core sleeps until another wakes it."""
    event_parking: "Callable[[Runtime], Parking[Any]]"
    """Creates a place where a core waits for one of several events."""

    def __init__(
        self,
        nursery: trio.Nursery,
        switch: Switch[Any],
        *,
        number: int,
        tiles: int,
        name: str,
        on_trap: OnTrap,
        seed: int | None,
        core_clock_mhz: int,  # noqa: ARG002 - for other classes
        clock: Clock | None = None,
    ) -> None:
        self.make_interrupts: Callable[[Runtime, Core], Any] | None = None
        """Makes the interrupts of a core, of the classes of the node."""
        self._nursery = nursery
        self._on_trap = on_trap
        self._seed = seed
        self._live: list[Core] = []
        self._outsiders = 0
        self.number: Final = number
        """The node's number."""
        self.name: Final = name
        """A name that tells it from other nodes; may be empty."""
        self.tiles: Final = tiles
        """The number of its tiles."""
        self.switch: Final = switch
        """Its ends are `ChanEnd`s, which are made with a runtime."""
        self.clock: Final = clock or Clock()
        self._tracers: tuple[Tracer, ...] = ()
        self.tracer: Tracer | None = None
        """Calls all tracers; None where there is none."""
        self.verb_tracer: Tracer | None = None
        """Calls those that hear of verbs."""
        self.runnable = 0
        """Cores that run, or wait for something that is sure to come."""
        self.verbs_at_once = 0
        """Verbs that began since a task last waited, on virtual time at `_tick`; see `yield_to_others`."""
        self._tick = 0
        self.has_ended = False
        """Whether nothing runs any more; what is freed from now on needs no care."""
        self.halted: Final[list[Core]] = []
        """Cores that a trap or another error stopped, in the order of that."""
        self._watch: DeadlockWatch | None = None
        self._watch_below = 0  # as few cores running, a core that parks is looked at
        self._reported: set[Core] = set()

    @cached_property
    def random(self) -> random.Random:
        """Chooses among ready events; made at its first use, as its state is larger than that of a core."""
        return random.Random(self._seed)  # noqa: S311 - keeps no secret

    @cached_property
    def xscope(self) -> Xscope:
        """The probes of its tiles."""
        return Xscope(self)

    @cached_property
    def poll(self) -> Poll:
        """Polling loops on virtual time outside of any core."""
        return Poll()

    @cached_property
    def _alarms(self) -> "Alarms":
        from aisrv.xcore.alarms import Alarms  # most programs have none

        return Alarms(self, self._nursery)

    def at_tick(self, tick: int, act: Callable[[], object]) -> "CalledOff":
        """Have something done at a tick, while which is to come no deadlock is reported.

        It does not wait and does not raise. The value returned calls it off.
        """
        return self._alarms.at(tick, act)

    def tick_waiter(self) -> TickWaiter:
        """Make a place where a task sleeps that stands for something at the pins."""
        return TickWaiter(self.clock)

    def hold(self) -> None:
        """Let no time pass before the running task sleeps in its `TickWaiter`; other classes can."""

    def outside_awaited(self) -> None:
        """Note that something other than a core is awaited, which may wake one: no deadlock is reported."""
        self.runnable += 1

    def outside_came(self) -> None:
        """Note that it is awaited no more."""
        self.runnable -= 1
        self._check_deadlock()

    @property
    def cores(self) -> tuple[Core, ...]:
        """Cores whose task has not ended, by tile and number."""
        return tuple(sorted(self._live, key=lambda core: (core.tile, core.number)))

    def resource_id(self, tile: int, resource_type: int, number: int) -> int:
        """Compose a resource id: type in bits 0 to 7, number in 8 to 15, node and tile above."""
        return (0x8000 | self.number << 1 | tile) << 16 | number << 8 | resource_type

    @contextmanager
    def tracing(self, tracer: Tracer) -> Iterator[Tracer]:
        """Call the hooks of `tracer`, too, within the block."""
        self._trace_by((*self._tracers, tracer))
        tracer.tracing_began(self, self.clock.ticks())
        try:
            yield tracer
        finally:
            self._trace_by(tuple(each for each in self._tracers if each is not tracer))
            tracer.tracing_ended(self, self.clock.ticks())

    def _trace_by(self, tracers: tuple[Tracer, ...]) -> None:
        self._tracers = tracers
        self.tracer = fan_out(tracers)
        self.verb_tracer = fan_out([tracer for tracer in tracers if tracer.hears_verbs])

    def tick_of(self, core: Core | None) -> int:  # noqa: ARG002 - other classes give each core its own
        """Return the tick at which a core is, or a task outside of any core."""
        return self.clock.ticks()

    @contextmanager
    def outside_world(self) -> Iterator[None]:
        """Report no deadlock within the block: something other than the cores may wake them."""
        self._outsiders += 1
        try:
            yield
        finally:
            self._outsiders -= 1
            self._check_deadlock()

    def run_core(
        self,
        core: Core,
        owner: CoreOwner,
        function: Callable[[*Ts], Awaitable[object]],
        *args: *Ts,
    ) -> None:
        """Start the task of a core; `owner` gets the core back when it returns, not where it trapped."""
        self._live.append(core)
        self.runnable += 1
        self._nursery.start_soon(self._run_core, core, owner, function, *args, name=str(core))

    async def _run_core(
        self, core: Core, owner: CoreOwner, function: Callable[[*Ts], Awaitable[object]], *args: *Ts
    ) -> None:
        core.enter()
        _running_in.set(self)
        if self.tracer is not None:
            self.tracer.core_started(core, self.tick_of(core))
        try:
            await function(*args)
        except trio.Cancelled as cancelled:
            cancelled.__traceback__ = None  # keeps frames of a thousand devices until the last of them ends
            raise
        except BaseExceptionGroup as group:
            errors, rest = group.split(Exception)
            if errors is not None and not self._halts(core, errors):
                raise
            if rest is not None:
                raise rest from None
        except Exception as error:
            if not self._halts(core, error):
                raise
        else:
            owner.release_core(core)
        finally:
            core.has_ended = True
            self._live.remove(core)
            self.runnable -= 1
            if self.tracer is not None:
                self.tracer.core_ended(core, self.tick_of(core))
            core.task = None  # its task has the core in its context: a cycle
            self._check_deadlock()

    def start_task(
        self, nursery: trio.Nursery, function: Callable[[*Ts], Awaitable[object]], *args: *Ts
    ) -> None:
        """Start a further task of the running core in a nursery of it."""
        nursery.start_soon(function, *args)

    async def begin_verb(self) -> None:
        """Count a verb, and let others run before it where there were too many in a row."""
        if self.verbs_at_once >= MAX_VERBS_PER_TURN:
            await self.yield_to_others()
        self.verbs_at_once += 1

    async def yield_to_others(self) -> None:
        """Let other tasks run, and after `MAX_VERBS_PER_TURN` verbs virtual time pass.

        On virtual time the verbs of all cores at one tick are a row, as nothing that they do takes time.
        """
        if self.verbs_at_once >= _INTERRUPT_DUE:
            self.verbs_at_once %= _INTERRUPT_DUE
        elif not self.clock.is_virtual:
            self.verbs_at_once = 0
        elif self.verbs_at_once >= MAX_VERBS_PER_TURN:
            self.verbs_at_once = 0
            self._tick = self.clock.leave_tick(self._tick)
        await trio.lowlevel.checkpoint()

    async def let_others_run(self) -> None:
        """Let other tasks run in the middle of long work."""
        await trio.lowlevel.checkpoint()

    async def default_case(self) -> None:
        """Let others run, as a select takes its default case."""
        await trio.lowlevel.checkpoint()

    def core_taken(self, core: Core) -> None:
        """Note that a core of a tile is in use now, with a task or without; other classes count them."""

    def core_given_back(self, core: Core) -> None:
        """Note that a core is not in use any more; other classes count them."""

    def end(self) -> None:
        """Note that nothing runs any more."""
        self.has_ended = True

    def verb_parks(self) -> None:
        """Count a verb that waits, which ends a row, but on virtual time lets no time pass."""
        self.verbs_at_once = self.verbs_at_once + 1 if self.clock.is_virtual else 0

    def stop(self) -> None:
        """Stop all cores, as taking the power away does."""
        self._nursery.cancel_scope.cancel()

    def core_parked(self, core: Core, verb: str, resource: Resource) -> None:
        """Count a core out until it is woken; with a timer running it still counts."""
        core.verb, core.waits_on = verb, resource
        self.runnable -= 1
        if self.tracer is not None:
            self.tracer.waits(core, verb, resource, self.tick_of(core))
        if self.runnable <= self._watch_below:
            if self._watch is not None:
                self._watch_below = 0
                self._watch.look_later(self)
            self._check_deadlock()

    def core_woken(self, core: Core) -> None:
        """Count a core in again that was counted out: a timed wait is not, and only reported."""
        if core.verb is not None:
            core.verb, core.waits_on = None, None
            self.runnable += 1
        if self.tracer is not None:
            self.tracer.woken(core, self.tick_of(core))

    # Interrupts: while a callback runs, its core is among those that run.

    def interrupt_next_verb(self) -> None:
        """Let others run before the next verb, as the running core's callback is to run before it."""
        self.verbs_at_once += _INTERRUPT_DUE

    def interrupt_began(self) -> None:
        """Count a core that runs callbacks."""
        self.runnable += 1

    def interrupt_ended(self) -> None:
        """Count it out."""
        self.runnable -= 1
        self._check_deadlock()

    @contextmanager
    def in_callback(self, core: Core, resource: Resource) -> Iterator[None]:
        """Run a callback of a resource within the block, as the running task; `core` is it in reports."""
        core.enter()
        self._live.append(core)
        tracer = self.verb_tracer or Tracer()
        tracer.verb_began(core, INTERRUPT, resource, self.tick_of(core))
        try:
            yield
        finally:
            tracer.verb_ended(core, INTERRUPT, resource, self.tick_of(core))
            self._live.remove(core)
            core.task = None

    def report(self) -> str:
        """Describe what each core waits for, who could wake it, and which are halted, a line each."""
        cores = sorted((*self._live, *self.halted), key=lambda core: (core.tile, core.number))
        return "\n".join(map(line_of, cores))

    def find_deadlock(self) -> CoreDeadlock | None:
        """Find the cores that only each other, or halted ones, could wake."""
        return find_deadlock(self._live)

    def watch_deadlocks(self, watch: DeadlockWatch | None = None) -> None:
        """Log cores that only each other could wake, once; they do not end the node.

        Cores are looked at a while after one has parked, and not at all while none does. Nodes may share
        `watch`; without it the node has one of its own.
        """
        self._watch = watch or DeadlockWatch(self._nursery)
        self._watch_below = ALL_CORES

    def look(self) -> None:
        """Log cores that only each other could wake, where that was not logged yet."""
        self._watch_below = ALL_CORES
        deadlock = self.find_deadlock()
        if deadlock is not None and not self._reported.issuperset(deadlock.cores):
            self._reported.update(deadlock.cores)
            logger.error("%s%s", self._prefix, str(deadlock))  # as it is now

    @property
    def _deadlocked(self) -> bool:
        return self.runnable == 0 and bool(self._live) and not self._outsiders

    def _check_deadlock(self) -> None:
        if self._deadlocked:
            self._nursery.start_soon(self._fail)

    async def _fail(self) -> None:
        """Raise Deadlock, unless another error ends the node first or a core parked only to be cancelled."""
        if self._deadlocked:
            raise Deadlock(f"no core can run again:\n{self.report()}")

    def _halts(self, core: Core, error: Exception) -> bool:
        """Note what trapped a core, and return whether that halts it; else the error ends the node.

        An error that is no trap is a fault of the program. Its frames are logged, with `-v` where a note says
        its place.
        """
        cause, trap = trap_of(error)
        core.trap = trap
        self.halted.append(core)
        if self.tracer is not None:
            self.tracer.core_trapped(core, trap, self.tick_of(core))
        place = f" in {trap.place}" if trap.place else ""
        note = f"{self._prefix}{core} trapped at tick {self.clock.ticks()}{place}"
        if self._on_trap == "raise":
            if cause is trap:
                trap.add_note(note)
            return False
        if cause is not trap:
            level = logging.INFO if getattr(cause, "__notes__", ()) else logging.ERROR  # notes say the place
            logger.log(level, "frames of an error of %s", core, exc_info=cause)
        logger.error("%s: %s; the core is halted", note, trap)
        return True

    @property
    def _prefix(self) -> str:
        """Begins what is logged, where several nodes are to be told apart."""
        return f"{self.name}: " if self.name else ""


current_runtime: Final = _running_in.get
"""Return the runtime of the node whose core the running task is, None outside of any core."""


async def let_others_run() -> None:
    """Let other tasks run in the middle of long work, as the node of the running core does that."""
    runtime = current_runtime()
    if runtime is None:
        await trio.lowlevel.checkpoint()
    else:
        await runtime.let_others_run()


class AwaitedEvent(Protocol):
    """An event that is sure to come."""

    @property
    def due(self) -> int:
        """Tick at which it comes."""

    @property
    def deadline(self) -> float:
        """Trio's time at which that tick begins."""


class EventSource(Resource, Protocol):
    """A select, as the place knows it where its core waits."""

    def ready_event(self) -> Any:  # noqa: ANN401 - an event of a select
        """Choose an event that is there; None where there is none."""

    def next_clocks(self) -> Iterator[int]:
        """Clocks of events that are on their way; only in device time is there any."""


class Parking(Waiter[T]):
    """A waiter of a node's resource: the core that sleeps in it is counted as parked."""

    __slots__ = ("_core", "_runtime", "user")

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime
        self._core: Core | None = None
        self.user: Core | None = None
        """The core that uses the resource, as far as is known; None outside of any core."""

    @property
    def user_name(self) -> str:
        """Name of the core that sleeps here, or of the task outside of any core."""
        return name_of(self.user or self.task)

    def park(
        self,
        verb: str,
        resource: Resource,
        withdraw: Callable[[], object] = no_cleanup,
        *,
        timed: bool = False,
    ) -> "Sleep[T]":
        """Count the core as parked in `verb` on `resource`, and `wait`.

        With `timed` something is sure to wake the core: it does not count as parked.
        """
        task = current_task()
        self._runtime.verb_parks()
        self.user = core = current_core()
        if core is not None and core.task is task:  # a child task parks alone: its core may well be running
            if not timed:
                self._core = core
                self._runtime.core_parked(core, verb, resource)
            elif (tracer := self._runtime.tracer) is not None:
                self._core = core
                tracer.waits(core, verb, resource, self._runtime.tick_of(core))
        return self._sleep(task, withdraw)

    # Of one class with the other waits, so that their code stays specialized: two cost a select 5 %.

    park_for_event: Callable[..., Awaitable[Any]] = park
    """Wait in a select for one of its events: `park`, with the select as the resource."""

    async def park_to_tick(self, tick: int, verb: str, resource: Resource) -> None:
        """Wait until it is woken, or until a tick."""
        with trio.CancelScope(deadline=self._runtime.clock.deadline(tick)):
            await self.park(verb, resource, timed=True)

    async def park_until(self, last: AwaitedEvent, source: EventSource) -> Any:  # noqa: ANN401 - an event
        """Wait in a select for one of its events, of which `last` comes for sure, others maybe with it."""
        with trio.CancelScope(deadline=last.deadline):
            return await self.park("select", source, timed=True)
        return source.ready_event() or last

    def _leave(self) -> None:
        self.task = None
        self._withdraw = no_cleanup
        core, self._core = self._core, None
        if core is not None:
            self._runtime.core_woken(core)


Runtime.parking = Parking
Runtime.event_parking = Parking
