"""A tracer that writes what the cores of a device do as events of a trace.

A core is a thread. Its slices are commands, in them waits, and in full detail every verb. What a task outside
of any core does, such as a program that has a device, stands on a track of the channel end that it uses.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from aisrv.monitor.trace.detail import Detail
from aisrv.monitor.trace.operators import share_out
from aisrv.monitor.trace.requests import Requests
from aisrv.monitor.trace.writer import TraceWriter
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.core import Core, Resource, current_core
from aisrv.xcore.probes import Probe, ProbeEvent, ProbeKind, Value
from aisrv.xcore.report import wakers_of
from aisrv.xcore.select import Event, Selection
from aisrv.xcore.tokens import Run
from aisrv.xcore.trace import TracedEnd, TracedNode, Tracer
from aisrv.xcore.traps import Trap

if TYPE_CHECKING:
    from aisrv.inference.timings import OperatorTime

_CORES_OF_TILE = 8
_WAYS = (("_out", "to"), ("_call", "to"), ("_in", "from"), ("_chkct", "from"))
"""How a wait and its peer are joined, by a part of the verb's name."""


_NEXT_TASK: Final = 100
"""Between the thread ids of tasks of different names that have a core one after the other."""

MOST_RUNS: Final = 4096
"""Runs on their way to an end; where more are, the flows of these end nowhere."""


class EventClock(Protocol):
    """Says at which time of the trace an event is."""

    def begin(self, tick: int) -> None:
        """Note that the node is at this tick now."""

    def at(self, tick: int) -> int:
        """Return the time since the trace began, in its unit, of what a core does at a tick of its node."""


class _Flight:
    """Runs of tokens on their way to an end: the flow of each, and how many of its tokens are left."""

    __slots__ = ("runs", "tokens", "track")

    def __init__(self) -> None:
        self.runs: deque[list[int]] = deque()
        self.tokens = 0
        self.track = 0


class _Sample:
    """A counter that is read when a core waits or is woken, and written where it has changed."""

    __slots__ = ("last", "read", "track")

    def __init__(self, track: int, read: Callable[[], int]) -> None:
        self.track = track
        self.read = read
        self.last = -1


class DeviceTracer(Tracer):
    """Writes the events of one node."""

    def __init__(
        self, writer: TraceWriter, clock: EventClock, process: int, pid: int, detail: Detail
    ) -> None:
        """Take the writer, the clock of events, and the process of the device: its track, and `pid`."""
        self._writer = writer
        self._clock = clock
        self.process: Final = process
        """Track of the device's process."""
        self.requests: Final = Requests(writer)
        """Requests of hosts, whose flows end at their commands."""
        self.operators: Final[dict[str, Callable[[], Sequence[OperatorTime]]]] = {}
        """By the name of an engine's core, the operators of its model, which share a run in device time."""
        self._runs_of_models: dict[Core, tuple[int, int]] = {}
        self._pid = pid
        self._waits = detail >= Detail.WAITS
        self._runs = detail >= Detail.RUNS
        self._verbs = self.hears_verbs = detail >= Detail.TOKENS
        self._threads: dict[Core, int] = {}
        self._ends: dict[int, int] = {}
        self._by_name: dict[str, int] = {}
        self._samples: dict[str, list[_Sample]] = {}
        self._waiting: Counter[Core] = Counter()
        self._names: dict[tuple[object, ...], str] = {}
        self._flights: dict[int, _Flight] = {}
        self._routes: Counter[tuple[int, int]] = Counter()
        self._route_tracks: dict[tuple[int, int], int] = {}
        self._probes: dict[tuple[int, str], int] = {}
        self._running = 0
        self._running_track = writer.counter(process, "running cores", "cores") if self._waits else 0

    def tracing_began(self, node: TracedNode, tick: int) -> None:
        """Add the cores that run already; what they are in the middle of is not known."""
        self._clock.begin(tick)
        for core in node.cores:
            self._thread(core)
        self._count_running(sum(core.verb is None for core in node.cores), tick)

    def tracing_ended(self, _node: TracedNode, tick: int) -> None:
        """End all slices."""
        for track in (*self._threads.values(), *self._ends.values()):
            self._end_all(track, tick)

    def core_started(self, core: Core, tick: int) -> None:
        """Add a thread."""
        self._thread(core)
        self._count_running(self._running + 1, tick)

    def core_ended(self, core: Core, tick: int) -> None:
        """End the slices of a core."""
        self._end_all(self._thread(core), tick)
        self._threads.pop(core)
        del self._waiting[core]
        self._runs_of_models.pop(core, None)
        self._count_running(self._running - 1, tick)

    def core_trapped(self, core: Core, trap: Trap, tick: int) -> None:
        """Mark a trap."""
        self._writer.instant(
            self._thread(core), self._clock.at(tick), f"trap {trap.kind.name}", "trap", {"reason": str(trap)}
        )

    def verb_began(self, core: Core | None, verb: str, resource: Resource, tick: int) -> None:
        """Begin a slice in full detail."""
        if self._verbs and core is not None:
            self._writer.begin(self._thread(core), self._clock.at(tick), f"{verb} on {resource.name}", "verb")

    def verb_ended(self, core: Core | None, _verb: str, _resource: Resource, tick: int) -> None:
        """End it."""
        if self._verbs and core is not None:
            self._writer.end(self._thread(core), self._clock.at(tick))

    def probed(
        self, _core: Core | None, tile: int, probe: Probe, event: ProbeEvent, value: Value, tick: int
    ) -> None:
        """Give a probe's counter its value; blocks count 1 from start to stop, and bytes their number."""
        key = tile, probe.name
        if key not in self._probes:
            name = f"{probe.name} of tile {tile}"
            self._probes[key] = self._writer.counter(self.process, name, probe.unit)
        if probe.kind is ProbeKind.STARTSTOP:
            value = int(event is ProbeEvent.START)
        elif isinstance(value, bytes):
            value = len(value)
        if isinstance(value, int) and value >> 63:
            value = float(value)
        self._writer.count(self._probes[key], self._clock.at(tick), value or 0)

    def waits(self, core: Core, verb: str, resource: Resource, tick: int) -> None:
        """Begin a slice with the name of who could end the wait."""
        if self._waits:
            self._waiting[core] += 1
            if verb == "invoke" and core.name in self.operators:
                self._runs_of_models[core] = self._waiting[core], self._clock.at(tick)
            self._writer.begin(self._thread(core), self._clock.at(tick), self._name(verb, resource), "wait")
            self._count_running(self._running - 1, tick)
            if core.name in self._samples:
                self._take_samples(core.name, tick)

    def woken(self, core: Core, tick: int) -> None:
        """End it, with the name of who did."""
        if not self._waiting[core]:  # the wait began before the trace
            return
        if core in self._runs_of_models and self._runs_of_models[core][0] == self._waiting[core]:
            self._show_operators(core, self._runs_of_models.pop(core)[1], self._clock.at(tick))
        self._waiting[core] -= 1
        waker = current_core()  # the hook runs in the task that wakes
        by = {} if waker in (None, core) else {"woken by": str(waker)}
        self._writer.end(self._thread(core), self._clock.at(tick), by)
        self._count_running(self._running + 1, tick)

    def sample(self, core: str, name: str, unit: str, read: Callable[[], int]) -> None:
        """Have a counter read whenever the core of that name begins to wait: it changes no value else."""
        track = self._writer.counter(self.process, name, unit)
        self._samples.setdefault(core, []).append(_Sample(track, read))

    def _take_samples(self, core: str, tick: int) -> None:
        for sample in self._samples[core]:
            value = sample.read()
            if value != sample.last:
                sample.last = value
                self._writer.count(sample.track, self._clock.at(tick), value)

    def command_began(self, core: Core | None, command: str, end: TracedEnd, tick: int) -> None:
        """Begin the slice of a command."""
        self._writer.begin(
            self._track(core, end),
            self._clock.at(tick),
            command,
            "command",
            {"came to": end.name} if self._runs else {},
            last_flow=self.requests.begin(command),
        )

    def command_ended(self, core: Core | None, _command: str, end: TracedEnd, tick: int) -> None:
        """End it."""
        self._writer.end(self._track(core, end), self._clock.at(tick))

    def output(self, end: TracedEnd, run: Run, tick: int) -> None:
        """Begin the arrow of a run."""
        if not self._runs or end.destination is None:
            return
        tokens = 1 if isinstance(run, int) else len(run)
        flight = self._flight(end.destination)
        flow = self._writer.next_flow()
        flight.runs.append([flow, tokens])
        flight.tokens += tokens
        if len(flight.runs) > MOST_RUNS:  # nobody takes them: the end is not there
            flight.runs.clear()
            flight.tokens = 0
        now = self._clock.at(tick)
        name = f"control {run}" if isinstance(run, int) else "output"
        self._writer.instant(self._track(end.user, end), now, name, "run", {"tokens": tokens}, flow=flow)
        self._count_tokens(flight, end.destination, now)

    def input(self, end: TracedEnd, run: Run, tick: int) -> None:
        """End the arrows of the runs that are taken out."""
        if not self._runs:
            return
        tokens = 1 if isinstance(run, int) else len(run)
        flight = self._flight(end.resource_id)
        now = self._clock.at(tick)
        left = tokens
        while left and flight.runs:
            first = flight.runs[0]
            taken = min(left, first[1])
            left -= taken
            first[1] -= taken
            flight.tokens -= taken
            if not first[1]:
                flight.runs.popleft()
                track = self._track(end.user, end)
                self._writer.instant(track, now, "input", "run", {"tokens": taken}, last_flow=first[0])
        self._count_tokens(flight, end.resource_id, now)

    def withdrawn(self, end: TracedEnd, count: int, tick: int) -> None:
        """Forget the last tokens that an end sent, whose arrows end nowhere."""
        if not self._runs or end.destination is None:
            return
        flight = self._flight(end.destination)
        while count and flight.runs:
            last = flight.runs[-1]
            taken = min(count, last[1])
            count -= taken
            last[1] -= taken
            flight.tokens -= taken
            if not last[1]:
                flight.runs.pop()
        now = self._clock.at(tick)
        self._writer.instant(self._track(end.user, end), now, "withdrawn", "run")
        self._count_tokens(flight, end.destination, now)

    def route_opened(self, source: TracedEnd, destination: TracedEnd, tick: int) -> None:
        """Count a route between tiles, in full detail."""
        self._count_routes(source, destination, 1, tick)

    def route_closed(self, source: TracedEnd, destination: TracedEnd, tick: int) -> None:
        """Count one less."""
        self._count_routes(source, destination, -1, tick)

    # Inside.

    def _show_operators(self, core: Core, begin: int, end: int) -> None:
        track = self._thread(core)
        for each in share_out(begin, end, self.operators[core.name]()):
            said: dict[str, int | str] = {"ticks": each.ticks, "basis": each.basis}
            self._writer.begin(track, each.begin, each.name, "operator", said)
            self._writer.end(track, each.end)

    def _thread(self, core: Core) -> int:
        track = self._threads.get(core)
        if track is None:
            track = self._by_name.get(str(core))  # of a task of this name that had the core before
            if track is None:
                tid = _CORES_OF_TILE * core.tile + core.number + 1 + _NEXT_TASK * self._tasks_of(core)
                track = self._writer.thread(self.process, self._pid, tid, str(core))
                self._by_name[str(core)] = track
            self._threads[core] = track
        return track

    def _tasks_of(self, core: Core) -> int:
        """Count the tasks of other names that had a core before."""
        place = str(core).partition("(")[0]
        return sum(name.startswith(place) for name in self._by_name)

    def _track(self, core: Core | None, end: TracedEnd) -> int:
        if core is not None and not core.has_ended:
            return self._thread(core)
        track = self._ends.get(end.resource_id)
        if track is None:
            track = self._writer.track(self.process, f"program at {end.name}")
            self._ends[end.resource_id] = track
        return track

    def _name(self, verb: str, resource: Resource) -> str:
        """Name a wait: the verb, and the cores that can end it or else the resource."""
        wakers: Sequence[Core | None] | None = None
        key: tuple[object, ...]
        if isinstance(resource, ChanEnd):
            key = (verb, resource.resource_id, _peer(resource))
        elif isinstance(resource, Selection):
            key = (verb, *map(_source, resource.awaited))
        else:
            wakers = wakers_of(resource) or ()
            key = (verb, resource.name, *wakers)
        name = self._names.get(key)
        if name is None:
            if wakers is None:
                wakers = wakers_of(resource) or ()
            peers = " or ".join(dict.fromkeys(str(each) for each in wakers if each is not None))
            if not peers:
                name = f"{verb} on {resource.name}"
            else:
                way = next((way for part, way in _WAYS if part in f"_{verb}"), "for")
                name = f"{verb} {way} {peers}"
            self._names[key] = name
        return name

    def _flight(self, resource_id: int) -> _Flight:
        flight = self._flights.get(resource_id)
        if flight is None:
            flight = self._flights[resource_id] = _Flight()
        return flight

    def _count_running(self, running: int, tick: int) -> None:
        self._running = running
        if self._waits:
            self._writer.count(self._running_track, self._clock.at(tick), running)

    def _count_tokens(self, flight: _Flight, resource_id: int, now: int) -> None:
        if self._verbs:
            if not flight.track:
                flight.track = self._writer.counter(
                    self.process, f"tokens to chanend 0x{resource_id:08x}", "tokens"
                )
            self._writer.count(flight.track, now, flight.tokens)

    def _count_routes(self, source: TracedEnd, destination: TracedEnd, change: int, tick: int) -> None:
        way = source.tile, destination.tile
        if not self._verbs or source.tile == destination.tile:
            return
        self._routes[way] = max(0, self._routes[way] + change)  # one may have opened before the trace
        if way not in self._route_tracks:
            name = f"routes from tile {source.tile} to tile {destination.tile}"
            self._route_tracks[way] = self._writer.counter(self.process, name, "routes")
        self._writer.count(self._route_tracks[way], self._clock.at(tick), self._routes[way])

    def _end_all(self, track: int, tick: int) -> None:
        while self._writer.depth(track):
            self._writer.end(track, self._clock.at(tick))


def _peer(end: ChanEnd) -> Core | None:
    """Return who uses the end at the other side, as far as is known."""
    peer = None if end.destination is None else end.runtime.switch.find(end.destination)
    return None if peer is None else peer.user


def _source(event: Event) -> tuple[int | str, Core | None]:
    """Tell an event from others: its resource, and who could bring it."""
    if isinstance(event, ChanEnd):
        return event.resource_id, _peer(event)
    return event.name, None
