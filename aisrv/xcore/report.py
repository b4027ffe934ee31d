"""Reports of a node: what each core waits for, who could wake it, and which cores nobody can wake any more.

A parked core is woken by another one: an input by a core that outputs to its end, an output by the core at
its destination or the one that holds the route, a lock by its owner. Cores that only each other could wake
are in deadlock. Whoever is not known, such as a program outside of the node, may wake anybody.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, Final, Protocol, runtime_checkable

import trio
from msgspec import Struct

from aisrv.xcore.core import Core, Resource, User
from aisrv.xcore.waiter import Waiter

_SKIPPED: Final = ("trio.", "aisrv.xcore.runtime.", "aisrv.xcore.waiter.")
"""Beginnings of the modules whose calls say nothing of the firmware."""


@runtime_checkable
class WokenByCores(Protocol):
    """A resource whose waiting core is woken by other cores."""

    def wakers(self) -> Sequence[Core | None]:
        """Return the cores of which any could wake the one that waits here; None is somebody outside.

        None at all are known where nobody has come to it yet, and anybody may.
        """

    def explain_wait(self) -> str:
        """Describe what the core that waits here waits for, with the names of those that could wake it."""


class Wait(Struct, frozen=True):
    """The call in which a core waits."""

    verb: str
    resource: str
    """Name of the resource that the call is on, empty where it is on none."""


class CoreDeadlock(Struct, frozen=True):
    """Cores of a node that can never run again."""

    cores: tuple[Core, ...]
    """By tile and number."""
    cycle: tuple[Core, ...]
    """Each waits for the next one, and the last for the first; empty where all wait for a halted core."""

    def __str__(self) -> str:
        lines = [f"{len(self.cores)} cores can never run again, as only each other could wake them:"]
        lines += [line_of(core) for core in self.cores]
        if self.cycle:
            lines.append(f"  cycle: {self.path}")
        return "\n".join(lines)

    @property
    def path(self) -> str:
        """The names of the tasks that wait for each other, in order."""
        around = (*self.cycle, *self.cycle[:1]) or self.cores
        return " -> ".join(core.name for core in around)


def wait_of(core: Core) -> Wait | None:
    """Return the call in which a core waits; None while it runs, or after it ended.

    A core that is parked on a resource of its tile says so itself. One that waits for the outside, such as an
    endpoint or an interpreter's process, is found in the call of ours that its task awaits innermost.
    """
    if core.verb is not None:
        return Wait(core.verb, "" if core.waits_on is None else core.waits_on.name)
    if core.task is None or core.has_ended or core.task is trio.lowlevel.current_task():
        return None
    frame = _innermost(core.task)
    return None if frame is None else Wait(frame.f_code.co_name, _owner(frame))


def line_of(core: Core) -> str:
    """Describe a core on one line."""
    if core.trap is not None:
        return f"  {core}: halted by {core.trap}"
    wait = wait_of(core)
    if wait is None:
        return f"  {core}: running"
    on = f" on {wait.resource}" if wait.resource else ""
    resource: Resource | None = core.waits_on
    why = resource.explain_wait() if isinstance(resource, WokenByCores) else ""
    callbacks = "" if core.interrupts is None else core.interrupts.explain_interrupts()
    interrupted = f", or interrupted by {callbacks}" if callbacks else ""
    return f"  {core}: {wait.verb}{on}{f' ({why})' if why else ''}{interrupted}"


def name_of(core: User | None) -> str:
    """Name a core, or a task outside of any core, that could wake another one."""
    if core is None:
        return "no known core"
    if not isinstance(core, Core):
        return f"task {core.name}"
    if core.trap is not None:
        return f"{core}, which is halted"
    return f"{core}, which has ended" if core.has_ended else str(core)


def verb_of(task: trio.lowlevel.Task | None) -> str:
    """Find the verb of a channel end that a task is parked in, whether it is a core or not."""
    frames = [] if task is None else list(_frames(task))
    verbs = [frame.f_locals["verb"] for frame in frames if frame.f_code.co_name == "run_verb"]
    return str(verbs[-1]) if verbs else "a verb"


def known_to_use(core: User | None) -> Core | None:
    """Return the core that uses a resource where that is certain.

    What an ended core has used anybody may use, and what a task outside of any core does nobody knows.
    """
    if not isinstance(core, Core) or (core.has_ended and core.trap is None):
        return None
    return core


def wakers_of(resource: object) -> Sequence[Core | None] | None:
    """Return the cores of which any could wake one that waits for a resource; None where no core wakes it.

    Looks for the method, since `isinstance` of a protocol takes far longer, and a watch asks for each core.
    """
    wakers: Callable[[], Sequence[Core | None]] | None = getattr(resource, "wakers", None)
    return None if wakers is None else wakers()


def peers_of(core: Core) -> tuple[Core, ...]:
    """Return the cores, each once, that are known to be able to wake one that waits; none where it runs."""
    wakers = wakers_of(core.waits_on) or ()
    return tuple(dict.fromkeys(waker for waker in wakers if waker is not None))


def find_deadlock(cores: Iterable[Core]) -> CoreDeadlock | None:
    """Find the parked cores that only each other, or halted cores, could wake."""
    wakers: dict[Core, Sequence[Core | None]] = {}
    for core in cores:
        if core.verb is not None and (others := wakers_of(core.waits_on)):
            more = () if core.interrupts is None else core.interrupts.interrupters()
            wakers[core] = (*others, *more) if more else others
    stuck = True
    while stuck and wakers:
        awake = [core for core, others in wakers.items() if any(_may_wake(each, wakers) for each in others)]
        for core in awake:
            del wakers[core]
        stuck = bool(awake)
    if not wakers:
        return None
    found = tuple(sorted(wakers, key=lambda core: (core.tile, core.number)))
    return CoreDeadlock(found, _cycle(found[0], wakers))


def _may_wake(core: Core | None, stuck: Iterable[Core]) -> bool:
    return core is None or (core.trap is None and core not in stuck)


def _cycle(first: Core, wakers: dict[Core, Sequence[Core | None]]) -> tuple[Core, ...]:
    """Follow who waits for whom from a core until that comes to a core again, or to a halted one."""
    path: list[Core] = []
    core: Core | None = first
    while core is not None and core not in path:
        path.append(core)
        core = next((each for each in wakers[core] if each in wakers), None)
    return () if core is None else tuple(path[path.index(core) :])


def _innermost(task: trio.lowlevel.Task) -> FrameType | None:
    """Find the last public function on the way to what the task awaits; None where it awaits nothing."""
    frames = list(_frames(task))
    waiters = [owner for frame in frames if isinstance(owner := frame.f_locals.get("self"), Waiter)]
    if any(waiter.task is None for waiter in waiters):
        return None
    ours = [frame for frame in frames if _is_public(frame)]
    return ours[-1] if ours else None


def _frames(task: trio.lowlevel.Task) -> Iterator[FrameType]:
    """Give the calls that a task is in, outermost first, also those that `Interrupts` steps."""
    for frame, _ in task.iter_await_frames():
        yield frame
    inner: Any = frame.f_locals.get("interruptible")
    while inner is not None:
        call: FrameType | None = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
        if call is not None:
            yield call
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)


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
