"""What the registers of a port with ready signals do at an edge. Rules: "Ports", section Ready signals."""

from typing import Final

from msgspec import Struct

from aisrv.xcore.ports.clock import PortClock
from aisrv.xcore.ports.registers import Contents, Taken


class ReadyUse(Struct, frozen=True):
    """Which ready signals a port uses."""

    ready_in: bool
    """It samples and shifts only where the ready signal of its clock block is high."""
    ready_out: bool
    """It drives a ready signal: its data are valid, or it has room for a sample."""


class State(Contents):
    """What the registers hold, and the ready signals."""

    ready_in: bool = False
    """What was read at the last sampling edge."""
    ready_out: bool = False
    """What is driven since the last falling edge."""
    syncs: bool = False
    """Whether a core waits until all is out."""
    delivered: Taken | None = None
    """The word that a core has waited for, until it goes on."""


class ReadyRules:
    """What becomes of the registers at each edge."""

    def __init__(self, clock: PortClock, width: int, use: ReadyUse) -> None:
        """Take the clock of a port of `width` bits that uses these signals."""
        self.clock: Final = clock
        self.width: Final = width
        self.transfer_width = width
        self.use = use
        self.waits = False
        """Whether a core waits for a word."""

    @property
    def entries(self) -> int:
        """Samples of a word."""
        return self.transfer_width // self.width

    # Edges.

    def fall(self, state: State) -> None:
        """Take a falling edge, which is counted already."""
        at_time = state.time == self.clock.counter(state.fallen)
        if state.is_output:
            self._fall_as_output(state, at_time=at_time)
        elif at_time and self.use.ready_out:
            state.time, state.valid, state.complete = None, 0, None
        state.ready_out = self.ready_signal(state)

    def _fall_as_output(self, state: State, *, at_time: bool) -> None:
        if at_time:
            state.time, state.left = None, 0
            if state.waiting is None:
                self._become_input(state)
                return
        if self.use.ready_in and not state.ready_in:
            return
        if state.left:
            state.left -= 1
            if state.left:
                state.at += 1
                self._drive_entry(state)
        if state.left == 0:
            if state.waiting is None:
                state.syncs = False
            if state.time is None and state.waiting is not None:
                state.word, state.left = state.waiting
                state.waiting, state.at = None, 0
                state.timestamp = self.clock.counter(state.fallen)
                self._drive_entry(state)
            elif state.time is None and self.waits:
                self._become_input(state)

    def _drive_entry(self, state: State) -> None:
        state.driven = state.word >> state.at * self.width & (1 << self.width) - 1

    def _become_input(self, state: State) -> None:
        state.is_output, state.driven = False, None
        state.shift, state.valid, state.count = 0, 0, state.next_count or self.entries
        state.complete, state.held, state.holds_event = None, (), False

    def sample(self, state: State, value: int) -> None:
        """Sample a value at a sampling edge."""
        state.shift = state.shift >> self.width | value << self.transfer_width - self.width
        state.valid += 1
        counter = self.clock.counter(state.fallen)
        at_time = self.clock.is_sampled_at(state.time, counter)
        if at_time:
            state.time = None
        awaited = self.awaits(state) and state.time is None
        if awaited and (at_time or state.condition is not None) and self.meets(state, value):
            self._take_word(state, counter)
        elif self._is_whole(state, at_time=at_time) and not self._keeps_word(state):
            self._take_word(state, counter, stays=not awaited or state.condition is not None)

    def _take_word(self, state: State, counter: int, *, stays: bool = False) -> None:
        """Move the shift register on, into the transfer register or to the core that waits."""
        word = Taken(state.shift, counter)
        state.valid, state.count, state.next_count = 0, self.entries, None
        if stays:
            state.complete = word
        else:
            self.deliver(state, word)

    def deliver(self, state: State, word: Taken) -> None:
        """Give a word to the core that waits."""
        state.delivered = word
        state.complete = state.time = state.condition = None

    def refill(self, state: State) -> None:
        """Move a full shift register on, as the transfer register is free."""
        if self.use.ready_out and not state.held and state.complete is None:
            self.move_on(state)

    # What they are like.

    def awaits(self, state: State) -> bool:
        """Return whether a core waits for a word that is not there yet."""
        return self.waits and state.delivered is None and not state.held

    def shows(self, state: State) -> bool:
        """Return whether anybody could see what comes of edges."""
        return state.is_output or self.waits or self.use.ready_out or state.ready_out

    def is_wanted(self, state: State, word: Taken) -> bool:
        """Return whether the word in the transfer register can be input."""
        if state.condition is not None:
            return False
        return state.time is None or self.clock.is_sampled_at(state.time, word.timestamp)

    def meets(self, state: State, value: int) -> bool:
        """Return whether a value meets the condition."""
        return state.condition is None or (value == state.data) is state.condition

    def move_on(self, state: State) -> None:
        """Move a full shift register on in any case."""
        if not state.is_output and state.valid >= state.count:
            state.complete = Taken(state.shift, self.clock.counter(state.fallen))
            state.valid, state.count, state.next_count = 0, self.entries, None

    def _is_whole(self, state: State, *, at_time: bool) -> bool:
        """Return whether a word ends here: it is full, or the time has come that nobody waits for."""
        return state.valid >= state.count or (at_time and state.condition is None)

    def _keeps_word(self, state: State) -> bool:
        """Return whether a full shift register waits, as the one who sends is told to."""
        occupied = state.complete is not None or bool(state.held)
        return self.use.ready_out and occupied and state.condition is None

    def is_open(self, state: State) -> bool:
        """Return whether an input samples."""
        if self.use.ready_out and not (state.ready_out and state.time is None):
            return False
        return state.ready_in or not self.use.ready_in

    def ready_signal(self, state: State) -> bool:
        """Return the ready signal as of a falling edge."""
        if not self.use.ready_out:
            return False
        if state.is_output:
            return state.left > 0 and (state.ready_in or not self.use.ready_in)
        full = state.valid >= state.count or len(state.held) + (state.complete is not None) > 1
        return state.time is None and (state.condition is not None or not full)

    def works(self, state: State) -> bool:
        """Return whether an output does something at its next falling edge."""
        if self.use.ready_in and not state.ready_in:
            return False
        starts = state.time is None and (state.waiting is not None or self.waits)
        return bool(state.left) or starts or (state.syncs and state.waiting is None)
