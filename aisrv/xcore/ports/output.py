"""What a port outputs: words that are loaded and driven at falling edges, laid down on the pins ahead.

Rules: "Ports", section Output. All edges are falling ones, by number.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from aisrv.xcore.ports.clock import PortClock
from aisrv.xcore.ports.registers import Contents

Drive = Callable[[Sequence[int], Sequence[int]], None]
"""Lays down values of the port from ticks on."""


class Word(Struct):
    """A word on its way out: its first entry is driven at the falling edge `load`, one more at each next."""

    load: int
    entries: int
    value: int

    @property
    def end(self) -> int:
        """The edge at which the shift register is empty again."""
        return self.load + self.entries


class PortOutput:
    """Transfer and shift register of a port that outputs."""

    def __init__(self, clock: PortClock, drive: Drive, width: int) -> None:
        self._clock = clock
        self._drive = drive
        self._width: Final = width
        self._mask: Final = (1 << width) - 1
        self.begin(0)

    def begin(self, fallen: int) -> None:
        """Become an output as of an edge, with nothing on its way; what was driven stays."""
        self.shifting: Word | None = None
        self.waiting: Word | None = None
        """What is in the transfer register, with the edge at which it will be loaded."""
        self.time: int | None = None
        """The counter at which the next word is loaded."""
        self.time_edge: int | None = None
        """The edge at which the port's time comes; nothing is loaded before."""
        self.turn: int | None = None
        """The edge at which the port becomes an input."""
        self.timestamp = 0
        """The counter at which a word was loaded last."""
        self.withdrawn: int | None = None
        """The edge from which on the pins are to forget what was laid down."""
        self._laid = fallen

    # What the registers do by themselves.

    def advance(self, fallen: int) -> int | None:
        """Let edges pass; return the edge at which the port has become an input, None where it has not."""
        waiting = self.waiting
        if waiting is not None and fallen >= waiting.load:
            self.shifting, self.waiting = waiting, None
            self.timestamp = self._clock.counter(waiting.load)
            self.time = self.time_edge = None  # it was loaded then
        if self.turn is not None and fallen >= self.turn:
            return self.turn
        return None

    def empty_edge(self, fallen: int) -> int:
        """Return the edge at which both registers are empty, as far as they are filled now."""
        if self.waiting is not None:
            return self.waiting.end
        return max(fallen + 1, self.shifting.end if self.shifting is not None else 0)

    def done_edge(self, fallen: int) -> int:
        """Return the edge at which both registers are empty, or the port an input."""
        edge = self.empty_edge(fallen)
        return edge if self.turn is None else min(edge, self.turn)

    # What the core does.

    def put(self, value: int, entries: int, fallen: int) -> None:
        """Fill the transfer register, which is free; the word is loaded as soon as it may."""
        if self.time_edge is not None:
            load = self.time_edge
            self._take_back(load)  # the turn, and what is still to be shifted then
        else:
            load = self.empty_edge(fallen)
        if self.turn is not None:
            self._take_back(self.turn)
            self.turn = None
        self.waiting = Word(load, entries, value)

    def set_time(self, time: int, fallen: int) -> None:
        """Load the next word at a time; where none is there, the port becomes an input then."""
        self.clear_time(fallen)
        self.time = time
        self.time_edge = self.turn = edge = self._clock.falling_at(time, fallen)
        self._take_back(edge)

    def clear_time(self, fallen: int) -> None:
        """Load the next word as soon as that may be."""
        if self.time_edge is None:
            return
        self._take_back(min(self.time_edge, fallen + 1))
        self.time = self.time_edge = self.turn = None
        if self.waiting is not None:
            word, self.waiting = self.waiting, None
            self.put(word.value, word.entries, fallen)

    def turn_round(self, fallen: int) -> None:
        """Become an input as soon as all is out, or at the time that is set."""
        if self.turn is None:
            self.turn = self.empty_edge(fallen)

    def clear(self, fallen: int) -> None:
        """Forget what is not driven yet; the last value stays."""
        shifting = self.shifting
        self._take_back(fallen + 1)
        self.waiting = None
        if shifting is not None and shifting.end > fallen + 1:
            shifting.entries = max(fallen + 1 - shifting.load, 0)
        if self.time_edge is not None:
            self.turn = self.time_edge

    # What is laid down on the pins.

    def value_at(self, fallen: int) -> int | None:
        """Return what is driven after an edge; None where nothing was loaded."""
        word = self.shifting
        if word is None or fallen < word.load:
            return None
        return self._entry(word, fallen - word.load)

    def _take_back(self, edge: int) -> None:
        self._laid = min(self._laid, edge - 1)
        self.withdrawn = edge if self.withdrawn is None else min(self.withdrawn, edge)

    def forget_laid(self, fallen: int) -> None:
        """Note that the pins know nothing later than an edge."""
        self._laid = min(self._laid, fallen)

    def lay_down(self) -> int | None:
        """Lay down what is known of the edges to come; return the edge of the turn where it is reached."""
        shifting, waiting = self.shifting, self.waiting
        if shifting is not None:
            stop = shifting.end
            if waiting is not None:
                stop = min(stop, waiting.load)
            if self.turn is not None:
                stop = min(stop, self.turn)
            if not self._lay_word(shifting, stop):
                return None
        if waiting is not None and not self._lay_word(waiting, waiting.end):
            return None
        return self.turn

    def _lay_word(self, word: Word, stop: int) -> bool:
        """Lay down the entries of a word before an edge; False where not all edges are known."""
        first = max(word.load, self._laid + 1)
        if first >= stop:
            return True
        ticks = self._clock.block.edges.falling_ticks(first, stop)
        if ticks:
            width, mask = self._width, self._mask
            shifted = word.value >> (first - word.load) * width
            if width == 1:
                values = [shifted >> at & 1 for at in range(len(ticks))]
            else:
                values = [shifted >> at * width & mask for at in range(len(ticks))]
            self._drive(ticks, values)
            self._laid = first + len(ticks) - 1
        return len(ticks) == stop - first

    def _entry(self, word: Word, at: int) -> int:
        return word.value >> min(at, word.entries - 1) * self._width & self._mask

    def move(self, edges: int, fallen: int) -> None:
        """Count the edges anew: each is `edges` later, and `fallen` of them have passed."""
        time, turn = self.time, self.turn
        self.withdrawn = None
        for word in (self.shifting, self.waiting):
            if word is not None:
                word.load += edges
        self._laid = fallen
        if turn is not None:
            self.turn = turn + edges
        if time is not None:
            self.time_edge = self._clock.falling_at(time, fallen)
            if self.waiting is None:
                self.turn = self.time_edge
            else:
                self.waiting.load = self.time_edge

    # Exchange with other registers.

    def give(self, contents: Contents) -> None:
        """Say what the registers hold after as many falling edges as `contents` says."""
        fallen, word = contents.fallen, self.shifting
        contents.time = self.time
        if word is not None:
            contents.word, contents.driven = word.value, self.value_at(fallen)
            contents.at = min(fallen - word.load, word.entries - 1)
            contents.left = max(word.end - fallen, 0)
        if self.waiting is not None:
            contents.waiting = self.waiting.value, self.waiting.entries

    def adopt(self, contents: Contents) -> None:
        """Hold what others held, after as many falling edges as `contents` says."""
        fallen, left = contents.fallen, contents.left
        if contents.driven is not None:
            behind = contents.at + (not left)
            self.shifting = Word(fallen - behind, behind + left, contents.word)
        self.timestamp = contents.timestamp
        if contents.time is not None:
            self.set_time(contents.time, fallen)
        if contents.waiting is not None:
            value, entries = contents.waiting
            self.put(value, entries, fallen)
