"""What a port inputs: samples that enter the shift register at sampling edges, and the words they make.

Rules: "Ports", section Input. Edges are sampling ones, by number. Nothing is sampled before somebody asks:
the pins know their past, and mostly the edge is known at which a word will be there.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from aisrv.xcore.ports.clock import PortClock
from aisrv.xcore.ports.registers import Contents, Taken

_LOOK_AHEAD: Final = 1024
"""Changes of the pins that one search looks through."""


class Found(Struct, frozen=True):
    """Where the next word is, as far as is known."""

    sample: int | None = None
    """The sampling edge at which it is there; None where that depends on what the pins do."""
    look_at: int | None = None
    """Tick at which to look again, where the pins' future is longer than a search."""


class Pins(Struct, frozen=True):
    """How a port reads its pins."""

    value_at: Callable[[int], int]
    """The port's value at a tick."""
    values_at: Callable[[Sequence[int]], int]
    """Its values at some ticks in one word, the first one lowest."""
    next_change: Callable[[int], int | None]
    """The first tick after one at which any pin changes, as far as is known."""


class PortInput:
    """Shift and transfer register of a port that inputs."""

    def __init__(self, clock: PortClock, pins: Pins, width: int) -> None:
        self._clock = clock
        self._pins = pins
        self._width: Final = width
        self.buffered = False
        self.condition: bool | None = None
        """True where a value is to be equal, False where it must not be, None where any is taken."""
        self.data = 0
        """The value of the condition."""
        self.time: int | None = None
        """The counter at which a value is taken."""
        self.begin(0, width)

    def begin(self, sampled: int, transfer_width: int) -> None:
        """Become an input as of an edge, with empty registers."""
        self.transfer_width = transfer_width
        self.entries = transfer_width // self._width
        """Samples of a word."""
        self._from = sampled  # samples after this edge are in the pins' past
        self._shifted = 0  # the shift register as of that edge
        self._whole = sampled  # the shift register was last empty here
        self._count = self.entries  # of the next word
        self.next_count: int | None = None
        """What was set for that, until a word has used it."""
        self._last: int | None = None  # the edge at which the word in the transfer register was complete
        self._kept: Taken | None = None  # that word, where it was read already
        self._words: deque[Taken] = deque()  # held until they are input
        self._holds_event = False
        self._time_edge: int | None = None
        self._in_vain = sampled  # the edge of a time at which the condition was not met

    # What the registers do by themselves.

    def advance(self, sampled: int, *, waits: bool) -> None:
        """Let edges pass. While a core `waits`, time and condition are for it to meet."""
        if not waits:
            self._let_time_pass(sampled)
        first = self._whole + self._count
        if sampled >= first:
            entries = self.entries
            self._whole = first + (sampled - first) // entries * entries
            self._count, self.next_count = entries, None
            self._last, self._kept = self._whole, None

    def _let_time_pass(self, sampled: int) -> None:
        """Have a time pass that nobody waits for: a word of a buffered port ends there all the same."""
        while (edge := self._time_edge) is not None and sampled >= edge:
            if not self.buffered and not self.meets(self.sample(edge)):
                self._time_edge = edge + (1 << 16)
                continue
            self.time = self._time_edge = None
            if self.buffered and self.condition is None:
                self._whole, self._count, self.next_count = edge, self.entries, None
                self._last, self._kept = edge, None

    # Words.

    def meets(self, value: int) -> bool:
        """Return whether a value meets the condition."""
        return self.condition is None or (value == self.data) is self.condition

    def sample(self, sample: int) -> int:
        """Return the value at a sampling edge: what the pins were before it."""
        tick = self._clock.sample_tick(sample)
        return 0 if tick is None else self._pins.value_at(tick - 1)

    def word(self, sample: int) -> int:
        """Return the shift register after a sampling edge: the newest sample in its highest bits."""
        new = min(sample - self._from, self.entries)
        if new <= 0:
            return self._shifted
        ticks = [self._clock.sample_tick(each) for each in range(sample - new + 1, sample + 1)]
        known = [tick - 1 for tick in ticks if tick is not None]
        bits = self._pins.values_at(known) if known else 0
        rest = self.entries - new
        return bits << rest * self._width | self._shifted >> new * self._width

    def available(self, sampled: int) -> Found | None:
        """Return the word that can be input now, without a wait; None where none can."""
        if self._words:
            return Found(sampled)
        last, kept = self._last, self._kept
        if last is None:
            return None
        timestamp = self._clock.sample_counter(last) if kept is None else kept.timestamp
        if self.time is not None and not self._clock.is_sampled_at(self.time, timestamp):
            return None
        if self.condition is not None:
            value = self.sample(last) if kept is None else kept.value
            if self.buffered or not self.meets(value):
                return None
        return Found(last)

    def find(self, since: int, sampled: int) -> Found:
        """Find the next word for a core that waits since an edge, `sampled` edges having passed."""
        if self._words:
            return Found(sampled)
        edge = self._time_edge
        if edge is not None:
            while edge <= sampled and not self.meets(self.sample(edge)):
                if self.buffered:
                    self.time = self._time_edge = None
                    self._in_vain = edge
                    return self._search(edge + 1)
                edge += 1 << 16
            return Found(edge)
        if self.condition is not None:
            return self._search(max(since, self._from, self._in_vain) + 1)
        if not self.buffered:
            return Found(since + 1)
        last = self._last
        if last is not None and last > since:  # of the words since then, the first
            return Found(last - (last - since - 1) // self.entries * self.entries)
        return Found(self._whole + self._count)

    def take(self, found: Found, sampled: int) -> Taken:
        """Take the word that was found."""
        sample = found.sample
        assert sample is not None  # noqa: S101 - for the type checker
        if self._words:
            taken = self._words.popleft()
            self._holds_event = False
        else:
            taken = self._take_sample(sample, sampled)
        self.time = self._time_edge = None
        if self.buffered:
            self.condition = None
        return taken

    def _take_sample(self, sample: int, sampled: int) -> Taken:
        if sample == self._last and self._kept is not None:
            taken = self._kept
        else:
            taken = Taken(self.word(sample), self._clock.sample_counter(sample))
        if self.buffered and (self.condition is not None or self.time is not None) and sample != self._last:
            self._whole, self._count, self._last = sample, self.entries, None  # the next word begins here
            self.next_count = None
            self.advance(sampled, waits=True)
        elif sample == self._last:
            self._last = self._kept = None
        return taken

    def hold(self, found: Found, sampled: int) -> None:
        """Keep the word that was found, for a select or a wait, until it is input."""
        if not self._words:
            self._words.append(self.take(found, sampled))
            self._holds_event = True

    def _let_event_go(self) -> None:
        """Hold the word of an event no more, as another one is wanted."""
        if self._holds_event:
            self._holds_event = False
            self._words.clear()

    def collapse(self, sampled: int) -> None:
        """Read the pins as far as they are past, so that their past may be dropped."""
        self.advance(sampled, waits=True)
        if self._last is not None and self._kept is None:
            self._kept = Taken(self.word(self._last), self._clock.sample_counter(self._last))
        self._shifted = self.word(sampled)
        self._from = sampled

    # What the core sets.

    def set_time(self, time: int, sampled: int) -> None:
        """Take a value as the counter is `time`."""
        self._let_event_go()
        self.time = time
        self._time_edge = self._clock.sample_at(time, sampled)

    def set_condition(self, data: int, *, equal: bool | None) -> None:
        """Take a value that is equal to `data`, or not, or any."""
        self._let_event_go()
        self.condition, self.data = equal, data

    def clear_time(self) -> None:
        """Take a value at any time."""
        self._let_event_go()
        self.time = self._time_edge = None

    def set_count(self, entries: int, sampled: int) -> None:
        """Have the next word complete after so many samples, once."""
        self.next_count = entries
        self._count = max(entries, sampled - self._whole + 1)

    def clear(self, sampled: int) -> None:
        """Empty the registers."""
        self._words.clear()
        self._last = self._kept = None
        self._whole = sampled

    def end(self, sampled: int, counter: int) -> int:
        """Have what is left input by itself, and return the samples that are left."""
        left = sampled - self._whole
        partial = Taken(self.word(sampled), counter)
        entries = left + self.entries * len(self._words)
        if self._last is not None:
            kept = self._kept
            entries += self.entries
            self._words.append(kept or Taken(self.word(self._last), self._clock.sample_counter(self._last)))
        if left or not self._words:
            self._words.append(partial)
        self._whole, self._count, self._last, self._kept = sampled, self.entries, None, None
        self.next_count = None
        return entries

    def move(self, edges: int, sampled: int) -> None:
        """Count the edges anew: each is `edges` later, and `sampled` of them have passed."""
        self._from += edges
        self._whole += edges
        self._in_vain += edges
        if self._last is not None:
            self._last += edges
        if self.time is not None:
            self._time_edge = self._clock.sample_at(self.time, sampled)

    # Exchange with other registers.

    def give(self, contents: Contents) -> None:
        """Say what the registers hold after as many sampling edges as `contents` says."""
        sampled = contents.sampled
        self.collapse(sampled)
        contents.time, contents.condition, contents.data = self.time, self.condition, self.data
        contents.shift, contents.valid, contents.count = self._shifted, sampled - self._whole, self._count
        contents.next_count = self.next_count
        contents.complete, contents.held = self._kept, tuple(self._words)
        contents.holds_event = self._holds_event

    def adopt(self, contents: Contents) -> None:
        """Hold what others held, after as many sampling edges as `contents` says."""
        sampled = contents.sampled
        self._shifted, self._whole, self._count = contents.shift, sampled - contents.valid, contents.count
        self.next_count = None if contents.is_output else contents.next_count
        self._kept, self._last = contents.complete, None if contents.complete is None else self._whole
        self._words, self._holds_event = deque(contents.held), contents.holds_event
        self.condition, self.data, self.time = contents.condition, contents.data, None
        if contents.time is not None and not contents.is_output:
            self.time = contents.time
            self._time_edge = self._clock.sample_at(contents.time, sampled)

    # Inside.

    def _search(self, sample: int) -> Found:
        """Find the first sample, from an edge on, that meets the condition, in the pins' known future."""
        clock, pins = self._clock, self._pins
        for _ in range(_LOOK_AHEAD):
            tick = clock.sample_tick(sample)
            if tick is None:
                return Found()
            if self.meets(pins.value_at(tick - 1)):
                return Found(sample)
            changed = pins.next_change(tick - 1)
            if changed is None:
                return Found()
            sample = max(sample, clock.sampled(changed)) + 1
        return Found(look_at=tick)
