"""What a trace says in short: who was busy, who waited for whom, and what held up the longest command."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aisrv.monitor.trace.reading import Slice, TraceError, TraceReader, Track
from aisrv.monitor.trace.requests import HOST_OF

NOBODY: Final = "nobody here"
"""Who ended a wait that no core ended: a timer, a host, an interpreter's process."""
MOST_WAITS: Final = 1_000_000
"""Waits within one command that are looked at for its path."""


@dataclass(slots=True)
class CoreTime:
    """A core's time in nanoseconds."""

    process: str
    name: str
    waiting: int = 0
    commands: int = 0
    """Time within commands, waits in them included."""


@dataclass(slots=True)
class CommandTime:
    """The time of all commands of a name on a device, in nanoseconds."""

    process: str
    name: str
    count: int = 0
    total: int = 0
    longest: Slice | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A step on the path of a command: in this time, this core did or waited for this."""

    core: str
    what: str
    start: int
    end: int


@dataclass(slots=True)
class Summary:
    """All of it; times in nanoseconds since the trace began."""

    path: Path
    start: int = 0
    end: int = 0
    events: int = 0
    is_cut: bool = False
    cores: list[CoreTime] = field(default_factory=list)
    waits: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Time that a core of a device waited for whom: device, core, who ended it."""
    commands: list[CommandTime] = field(default_factory=list)
    transfers: dict[tuple[str, str], tuple[int, int, int]] = field(default_factory=dict)
    """Count, bytes and time of what a bus, a flash chip or a sensor of a device has moved."""
    traps: list[tuple[int, str, str]] = field(default_factory=list)
    """Time, core and reason of each trap."""
    critical: Slice | None = None
    """The command whose path is given."""
    steps: list[Step] = field(default_factory=list)
    """What it took its time for, from its beginning."""


def summarize(path: Path, command: str | None = None) -> Summary:
    """Read a trace twice and return what it says; TraceError, OSError.

    The path is that of the longest command, or of the longest called `command`.
    """
    reader = TraceReader(path)
    summary = Summary(path)
    waiting: Counter[int] = Counter()
    within: Counter[int] = Counter()
    commands: dict[tuple[str, str], CommandTime] = {}
    transfers: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for each in reader.slices():
        track = reader.tracks.get(each.track) or Track("?")
        took = each.end - each.start
        if each.category == "wait":
            waiting[each.track] += took
            summary.waits[track.process, track.name, _ended_by(each)] += took
        elif each.category == "command":
            within[each.track] += took
            key = (track.process, each.name)
            row = commands.setdefault(key, CommandTime(*key))
            row.count += 1
            row.total += took
            if row.longest is None or took > row.longest.end - row.longest.start:
                row.longest = each
        elif each.category in ("usb", "spi", "flash", "sensor"):
            name = track.name.partition(" (")[0]
            sums = transfers[track.process.removeprefix(HOST_OF), name]
            sums[0] += 1
            sums[1] += int(each.arguments.get("bytes", 0))
            sums[2] += took
    summary.start, summary.end = reader.first or 0, reader.last
    summary.events, summary.is_cut = reader.events, reader.is_cut
    summary.cores = [
        CoreTime(track.process, track.name, waiting[number], within[number])
        for number, track in reader.tracks.items()
        if track.is_thread
    ]
    summary.commands = sorted(commands.values(), key=lambda row: -row.total)
    summary.transfers = {key: (sums[0], sums[1], sums[2]) for key, sums in transfers.items()}
    summary.traps = [
        (at, (reader.tracks.get(track) or Track("?")).name, reason) for at, track, _, reason in reader.traps
    ]
    wanted = [row for row in summary.commands if command in (None, row.name) and row.longest is not None]
    if command is not None and not wanted:
        there = ", ".join(dict.fromkeys(row.name for row in summary.commands)) or "none"
        raise TraceError(f"{path}: no command {command} in it; there are: {there}")
    if wanted:
        longest = (row.longest for row in wanted if row.longest is not None)
        summary.critical = max(longest, key=lambda each: each.end - each.start)
        summary.steps = list(_path(path, summary.critical))
    return summary


def _ended_by(wait: Slice) -> str:
    return str(wait.arguments.get("woken by", NOBODY))


def _path(path: Path, command: Slice) -> Iterator[Step]:
    """Yield what a command waited for: from its end back to who ended each wait, and on with that core."""
    reader = TraceReader(path)
    waits: dict[tuple[str, str], list[Slice]] = defaultdict(list)
    count = 0
    for each in reader.slices():
        if each.category == "wait" and each.end > command.start and each.start < command.end:
            count += 1
            if count > MOST_WAITS:
                raise TraceError(f"{path}: {command.name} has more than {MOST_WAITS:,} waits in it")
            track = reader.tracks.get(each.track) or Track("?")
            waits[track.process, track.name].append(each)
    own = reader.tracks.get(command.track) or Track("?")
    for of_core in waits.values():
        of_core.sort(key=lambda wait: (wait.end, wait.start))
    steps: list[Step] = []
    core, at = own.name, command.end
    while at > command.start:
        wait = _last_before(waits.get((own.process, core), []), at)
        if wait is None or wait.end <= command.start:
            steps.append(Step(core, "runs", command.start, at))
            break
        if wait.end < at:
            steps.append(Step(core, "runs", wait.end, at))
        start, waker = max(wait.start, command.start), _ended_by(wait)
        if waker in (NOBODY, core) or (own.process, waker) not in waits:
            steps.append(Step(core, wait.name, start, wait.end))
            at = start
        else:  # what the waker did until then is what the wait was for
            core, at = waker, wait.end
    yield from reversed(steps)


def _last_before(waits: list[Slice], at: int) -> Slice | None:
    """Return the last wait that ended at `at` or before, and take it and those after it out."""
    while waits and waits[-1].end > at:
        waits.pop()
    return waits.pop() if waits else None


def as_json(summary: Summary) -> dict[str, Any]:
    """Return it for JSON; times in nanoseconds."""
    critical = summary.critical
    return {
        "file": str(summary.path),
        "events": summary.events,
        "cut": summary.is_cut,
        "ns": summary.end - summary.start,
        "cores": [
            {
                "device": each.process,
                "core": each.name,
                "waiting_ns": each.waiting,
                "commands_ns": each.commands,
            }
            for each in summary.cores
        ],
        "waits": [
            {"device": device, "core": core, "for": waker, "ns": took}
            for (device, core, waker), took in summary.waits.most_common()
        ],
        "commands": [
            {
                "device": each.process,
                "command": each.name,
                "count": each.count,
                "ns": each.total,
                "longest_ns": 0 if each.longest is None else each.longest.end - each.longest.start,
            }
            for each in summary.commands
        ],
        "transfers": [
            {"device": device, "bus": bus, "count": count, "bytes": size, "ns": took}
            for (device, bus), (count, size, took) in summary.transfers.items()
        ],
        "traps": [{"ns": at, "core": core, "reason": reason} for at, core, reason in summary.traps],
        "path": None
        if critical is None
        else {
            "command": critical.name,
            "start_ns": critical.start,
            "ns": critical.end - critical.start,
            "steps": [
                {"core": each.core, "what": each.what, "start_ns": each.start, "ns": each.end - each.start}
                for each in summary.steps
            ],
        },
    }
