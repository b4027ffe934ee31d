"""Ports edge by edge: a model from the rules of docs/inside/substrate.md alone, and random programs for it.

One port, one clock, one core and a stimulus on the port's pins. The model goes through all ticks: first the
edges of a tick, which sample what the pins were before it, then the core.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Final

Z: Final = 2
X: Final = 3
END: Final = 600
"""Ticks of a run."""

NONE, SLAVE, MASTER, HANDSHAKE = range(4)
READY: Final = ("none", "slave", "master", "handshake")

Step = tuple[int, str, int]
"""Ticks to wait, operation, argument."""
Entry = tuple[int, str, int | None]
"""Tick at which an operation was done, its name, its result."""


@dataclass
class Program:
    """What is run."""

    port: str
    width: int
    transfer_width: int
    buffered: bool
    falling: bool
    inverted: bool
    source: str
    """`ref`, `core` or `pin`."""
    divide: int
    toggles: list[int]
    """Ticks at which the pin of the clock changes, from 0 on."""
    stimulus: list[tuple[int, int | None]]
    """Tick and value that is driven on the pins; None where they are released."""
    steps: list[Step] = field(default_factory=list)
    ahead: bool = True
    """Whether the stimulus is on the pins from the start, or driven as time passes."""
    ready: int = 0
    """Ready signals: an index of `READY`."""
    gate: list[int] = field(default_factory=list)
    """Ticks at which the ready signal that is read changes, from 0 on."""
    gate_inverted: bool = False
    loops: bool = False
    """Whether what is read is the port's own ready signal, which has a wire to there."""


@dataclass
class Outcome:
    """What came of it."""

    log: list[Entry]
    levels: list[list[int]]
    """Of each pin at each tick."""
    ready: list[int]
    """The ready signal that is driven, at each tick."""


def any_program(random: Random) -> Program:
    """Draw a program."""
    port, width = random.choice([("1A", 1), ("1A", 1), ("4A", 4), ("8A", 8)])
    buffered = random.random() < 0.65
    widths = [each for each in (width, 8, 32) if each >= width]
    transfer_width = random.choice(widths) if buffered else width
    source = random.choice(["ref", "ref", "ref", "core", "pin"])
    divide = random.choice([0, 0, 1, 1, 2, 3, 5])
    if source == "core":
        divide = random.choice([1, 2, 4, 7])
    if source == "pin":
        divide = random.choice([0, 0, 0, 1, 2])
    program = Program(
        port,
        width,
        transfer_width,
        buffered,
        falling=random.random() < 0.3,
        inverted=width == 1 and random.random() < 0.2,
        source=source,
        divide=divide,
        toggles=sorted(random.sample(range(1, END), random.randrange(10, 250))),
        stimulus=_stimulus(random, width),
        ahead=random.random() < 0.6,
    )
    if buffered and random.random() < 0.5:
        program.ready = random.choice([SLAVE, MASTER, HANDSHAKE])
    program.gate = sorted(random.sample(range(END), random.choice([0, 1, 3, 10, 40, 150])))
    program.gate_inverted = random.random() < 0.3
    program.loops = random.random() < 0.2
    period = max(2 * divide, 1)
    for _ in range(random.randrange(3, 16)):
        program.steps.append((_pause(random, period), *_step(random, program)))
    return program


def _stimulus(random: Random, width: int) -> list[tuple[int, int | None]]:
    tick, changes = 0, []
    mean = random.choice([1, 3, 10, 40])
    few = random.random() < 0.5
    while tick < END:
        value = random.choice([0, 1, (1 << width) - 1]) if few else random.getrandbits(width)
        changes.append((tick, None if random.random() < 0.05 else value))
        tick += 1 + int(random.expovariate(1 / mean))
    return changes


def _pause(random: Random, period: int) -> int:
    return 0 if random.random() < 0.5 else random.randrange(0, 12 * period)


def _step(random: Random, program: Program) -> tuple[str, int]:
    width, transfer = program.width, program.transfer_width
    entries = transfer // width
    names = ["out"] * 4 + ["in"] * 5 + ["time"] * 3 + ["equal", "not_equal", "no_time", "any_value"]
    names += ["clear", "sync", "peek", "timestamp", "stop", "start"]
    if program.buffered:
        names += ["out_part", "in_part", "count", "endin"]
    if program.ready:
        names += ["mode"]
    name = random.choice(names)
    argument = 0
    if name == "out":
        argument = random.getrandbits(transfer)
    elif name == "out_part":
        argument = random.getrandbits(transfer) << 8 | width * random.randint(1, entries)
    elif name == "mode":
        argument = random.randrange(4)
    elif name in ("in_part", "count"):
        argument = width * random.randint(1, entries)
    elif name == "time":
        argument = random.randrange(0, 60)
    elif name in ("equal", "not_equal"):
        argument = random.choice([0, 1, random.getrandbits(width)])
    return name, argument


class EdgePort:
    """The registers of a port."""

    def __init__(self, program: Program) -> None:
        self.width = program.width
        self.transfer_width = program.transfer_width
        self.entries = self.transfer_width // self.width
        self.buffered = program.buffered
        self.flip = int(program.inverted)
        self.early = int(program.falling)  # a time is compared with the counter before the edge
        self.ready_mode = program.ready
        self.ready = False  # the ready signal that is driven
        self.open = True  # the one that was read last
        self.output = False
        self.counter = 0
        self.timestamp = 0
        self.time: int | None = None
        self.condition: tuple[bool, int] | None = None
        self.waits = False  # a core waits for an input
        self.delivered: int | None = None
        self.synced = False
        # Output.
        self.to_load: tuple[int, int] | None = None
        self.next_count: int | None = None
        self.word, self.at, self.left = 0, 0, 0
        self.driven: int | None = None
        # Input.
        self._become_input()

    def _become_input(self) -> None:
        self.output, self.driven = False, None
        self.shift, self.valid, self.count = 0, 0, self.next_count or self.entries
        self.complete: tuple[int, int] | None = None
        self.held: deque[tuple[int, int]] = deque()

    def meets(self, value: int) -> bool:
        if self.condition is None:
            return True
        equal, wanted = self.condition
        return (value == wanted) == equal

    @property
    def reads_ready(self) -> bool:
        return self.ready_mode in (SLAVE, HANDSHAKE)

    @property
    def drives_ready(self) -> bool:
        return self.ready_mode in (MASTER, HANDSHAKE)

    # Edges.

    def falling(self) -> None:
        self.counter = (self.counter + 1) % 65536
        if self.output:
            self._output_falls()
        elif self.drives_ready and self.time == self.counter:
            self.time, self.valid, self.complete = None, 0, None
        self.ready = self.drives_ready and self._is_ready()

    def _output_falls(self) -> None:
        if self.time == self.counter:
            self.time, self.left = None, 0
            if self.to_load is None:
                self._become_input()
                return
        if self.reads_ready and not self.open:
            return
        if self.left:
            self.left -= 1
            if self.left:
                self.at += 1
                self._drive()
        if self.left == 0:
            if self.to_load is None:
                self.synced = True
            if self.time is None and self.to_load is not None:
                self._load()
            elif self.time is None and self.waits:
                self._become_input()

    def _is_ready(self) -> bool:
        if self.output:
            return self.left > 0 and (self.open or not self.reads_ready)
        if self.time is not None:
            return False
        words = len(self.held) + (self.complete is not None)
        return self.condition is not None or not (self.valid >= self.count or words >= 2)

    def _load(self) -> None:
        assert self.to_load is not None
        self.word, self.left = self.to_load
        self.to_load, self.at = None, 0
        self.timestamp = self.counter
        self._drive()

    def _drive(self) -> None:
        self.driven = (self.word >> self.at * self.width & (1 << self.width) - 1) ^ self.flip

    def sampling(self, pins: int, gate: int) -> None:
        self.open = bool(gate)
        if self.output:
            return
        if self.drives_ready and (not self.ready or self.time is not None):
            return
        if self.reads_ready and not self.open:
            return
        value = pins ^ self.flip
        self.shift = self.shift >> self.width | value << self.transfer_width - self.width
        self.valid += 1
        if self.buffered:
            self._sample_buffered(value)
        else:
            self.complete = (value, self.counter)
            self.valid = 0
            if (self.time is None or self._is_at(self.counter)) and self.meets(value):
                if self.waits:
                    self._deliver(*self.complete)
                elif self.time is not None:
                    self.time = None

    def _sample_buffered(self, value: int) -> None:
        at_time = self._is_at(self.counter)
        if at_time:
            self.time = None
        elif self.time is not None or self.condition is None:
            at_time = False
        if (
            self.waits
            and self.meets(value)
            and (at_time or (self.time is None and self.condition is not None))
        ):
            self.valid, self.count, self.next_count = 0, self.entries, None
            self.condition = None
            self._deliver(self.shift, self.counter)
            return
        full = self.complete is not None or len(self.held) > 0
        ends = self.valid >= self.count or (at_time and self.condition is None)
        if ends and not (self.drives_ready and full and self.condition is None):
            self.valid, self.count, self.next_count = 0, self.entries, None
            self.complete = (self.shift, self.counter)
            if self.waits and self.time is None and self.condition is None:
                self._deliver(*self.complete)

    def _is_at(self, timestamp: int) -> bool:
        return self.time is not None and self.time == (timestamp - self.early) % 65536

    def _deliver(self, value: int, timestamp: int) -> None:
        self.complete, self.time, self.waits = None, None, False
        self.delivered, self.timestamp = value, timestamp

    # The core.

    def take(self) -> bool:
        """Input what is there; a word that waits in the shift register moves on."""
        taken = self._take()
        if taken and self.drives_ready and self.valid >= self.count and not self.held and not self.complete:
            self._move_on()
        return taken

    def _move_on(self) -> None:
        self.complete = (self.shift, self.counter)
        self.valid, self.count, self.next_count = 0, self.entries, None

    def _take(self) -> bool:
        if self.output:
            return False
        if self.held:
            word = self.held.popleft()
            rest = self.complete
            self._deliver(*word)
            self.complete = rest
            if self.buffered:
                self.condition = None
            return True
        if self.complete is None:
            return False
        value, timestamp = self.complete
        if self.time is not None and not self._is_at(timestamp):
            return False
        if self.condition is not None and (self.buffered or not self.meets(value)):
            return False
        self._deliver(value, timestamp)
        return True

    def put(self, value: int, entries: int) -> None:
        if not self.output:
            self.output, self.left, self.at = True, 0, 0
        if self.next_count is not None:
            entries, self.next_count = self.next_count, None
        self.to_load = (value, entries)

    def set_count(self, entries: int) -> None:
        self.next_count = entries
        if self.valid < self.count:
            self.count = max(entries, self.valid + 1)

    def set_mode(self, mode: int) -> None:
        self.ready_mode = mode
        if mode == NONE:
            self.ready = False
            if not self.output and self.valid >= self.count:
                self._move_on()

    def clear(self) -> None:
        self.ready = False
        if self.output:
            self.to_load, self.left = None, 0
        else:
            self.complete, self.valid = None, 0
            self.held.clear()

    def end(self) -> int:
        entries = self.valid + self.entries * len(self.held)
        if self.complete is not None:
            entries += self.entries
            self.held.append(self.complete)
        if self.valid or not self.held:
            self.held.append((self.shift, self.counter))
        self.valid, self.count, self.next_count, self.complete = 0, self.entries, None, None
        return entries * self.width


class Clock:
    """Edges of each tick."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._start: int | None = None
        self._edge = 0
        self._seen = 0
        self._level = 0

    def level(self, tick: int) -> int:
        return sum(toggle <= tick for toggle in self._program.toggles) % 2

    def start(self, tick: int) -> None:
        self._start, self._edge, self._seen, self._level = tick, 1, 0, 0

    def stop(self) -> None:
        self._start = None

    def edges(self, tick: int) -> list[str]:
        """Return the edges of a tick, in order."""
        if self._start is None:
            return []
        if self._program.source == "pin":
            return self._at_pin(tick)
        mhz = 600 if self._program.source == "core" else 100
        half = Fraction(100 * max(2 * self._program.divide, 1), 2 * mhz)
        found = []
        while math.ceil(self._start + self._edge * half) == tick:
            found.append("rising" if self._edge % 2 else "falling")
            self._edge += 1
        return found

    def _at_pin(self, tick: int) -> list[str]:
        before, now = self.level(tick - 1), self.level(tick)
        if before == now or tick == self._start:
            return []
        if not self._program.divide:
            return ["rising" if now else "falling"]
        self._seen += now
        if not now or self._seen % self._program.divide:
            return []
        self._level ^= 1
        return ["rising" if self._level else "falling"]


def run(program: Program) -> Outcome:
    """Go through all ticks."""
    port, clock = EdgePort(program), Clock(program)
    clock.start(0)
    log: list[Entry] = []
    levels: list[list[int]] = []
    stimulus: int | None = None
    changes = dict(program.stimulus)
    driven: list[int] = []
    gate_before = 0
    steps = deque(program.steps)
    due = steps[0][0] if steps else END
    blocked = False
    previous = 0
    for tick in range(END):
        for edge in clock.edges(tick):
            if edge == "falling":
                port.falling()
            if (edge == "falling") == program.falling:
                port.sampling(previous, gate_before)
        stimulus = changes.get(tick, stimulus)
        while steps and (blocked or due <= tick):
            _, name, argument = steps[0]
            done, result = _perform(port, clock, name, argument, tick, stimulus, first=not blocked)
            blocked = not done
            if blocked:
                break
            log.append((tick, name, result))
            steps.popleft()
            due = tick + steps[0][0] if steps else END
        pins = _resolve(port, stimulus)
        levels.append(pins)
        driven.append(int(port.ready))
        gate = driven[-1] if program.loops else sum(change <= tick for change in program.gate) % 2
        gate_before = gate ^ program.gate_inverted
        previous = sum((level == 1) << bit for bit, level in enumerate(pins))
    return Outcome(log, levels, driven)


def _resolve(port: EdgePort, stimulus: int | None) -> list[int]:
    levels = []
    for bit in range(port.width):
        drives = {value >> bit & 1 for value in (port.driven, stimulus) if value is not None}
        levels.append(Z if not drives else X if len(drives) == 2 else drives.pop())
    return levels


def _perform(
    port: EdgePort, clock: Clock, name: str, argument: int, tick: int, stimulus: int | None, *, first: bool
) -> tuple[bool, int | None]:
    """Perform an operation of the core; return whether it is done, and its result."""
    if name in ("out", "out_part", "time", "count") and port.output and port.to_load is not None:
        return False, None
    if name == "out":
        port.put(argument, port.entries)
    elif name == "out_part":
        port.put(argument >> 8, (argument & 0xFF) // port.width)
    elif name == "time":
        port.time = argument
    elif name == "no_time":
        port.time = None
    elif name == "count" and port.output:
        port.next_count = argument // port.width
    elif name == "count":
        port.set_count(argument // port.width)
    elif name == "mode":
        port.set_mode(argument)
    elif name in ("equal", "not_equal"):
        port.condition = (name == "equal", argument)
    elif name == "any_value":
        port.condition = None
    elif name == "clear":
        port.clear()
    elif name == "timestamp":
        return True, port.timestamp
    elif name == "peek":
        pins = _resolve(port, stimulus)
        return True, sum((level == 1) << bit for bit, level in enumerate(pins)) ^ port.flip
    elif name == "endin":
        return True, None if port.output else port.end()
    elif name == "stop":
        clock.stop()
    elif name == "start":
        clock.start(tick)
        port.counter = 0
    elif name == "sync":
        if first:
            port.synced = False
        return not port.output or port.synced, None
    else:
        return _input(port, name, argument, first=first)
    return True, None


def _input(port: EdgePort, name: str, argument: int, *, first: bool) -> tuple[bool, int | None]:
    if first:
        port.delivered = None
        if not port.take():
            port.waits = True
            if name == "in_part" and not port.output:
                port.set_count(argument // port.width)
    return port.delivered is not None, port.delivered
