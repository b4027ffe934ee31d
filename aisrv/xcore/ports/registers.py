"""Shift and transfer register of a port: what they do between the verbs of cores. Rules: "Ports".

`ArithmeticRegisters` and `SteppedRegisters` are what a port has: the second where it uses ready signals.
"""

from abc import ABC, abstractmethod
from typing import Protocol

from msgspec import Struct

from aisrv.xcore.ports.clock import PortClock
from aisrv.xcore.ports.pin import Pin
from aisrv.xcore.ports.port_pins import PortPins


class Taken(Struct, frozen=True):
    """A word, and the counter as it was complete."""

    value: int
    timestamp: int


class Contents(Struct):
    """What the registers hold between two edges, of which some have passed since the clock's start."""

    fallen: int = 0
    """Falling edges that have passed."""
    sampled: int = 0
    """Sampling edges that have passed."""
    is_output: bool = False
    timestamp: int = 0
    time: int | None = None
    """The counter at which the next word is loaded, or taken."""
    # Output.
    word: int = 0
    """The contents of the shift register."""
    at: int = 0
    """Its entry that is driven."""
    left: int = 0
    """Its entries that are not driven for a whole period yet, with the one that is."""
    driven: int | None = None
    """The levels on the pins; None where nothing was loaded."""
    waiting: tuple[int, int] | None = None
    """Value and entries of the word in the transfer register."""
    next_count: int | None = None
    """Entries of the next word, where they are set: also of one that is output after a turn."""
    # Input.
    shift: int = 0
    """The contents of the shift register, the newest sample in its highest bits."""
    valid: int = 0
    """Samples that have come in since the last word."""
    count: int = 1
    """Samples of the next word."""
    complete: Taken | None = None
    """The word in the transfer register."""
    held: tuple[Taken, ...] = ()
    """Words that are held until they are input."""
    holds_event: bool = False
    """Whether what is held is the word of an event."""
    condition: bool | None = None
    """True where a value is to be equal, False where it must not be, None where any is taken."""
    data: int = 0
    """The value of the condition."""


class Gate(Protocol):
    """The port from which a ready signal is read."""

    @property
    def pins(self) -> tuple[Pin, ...]:
        """Its pin."""

    @property
    def is_inverted(self) -> bool:
        """Return whether it reads the opposite."""


class Registers(ABC):
    """The registers of a port, for both directions. Times are ticks."""

    is_output = False
    """Whether the port outputs, as far as it has been told of time."""
    buffered = False
    waits = False
    """Whether a core waits for a word."""

    def __init__(self, clock: PortClock, pins: PortPins, width: int) -> None:
        """Create them for a port of `width` bits, as an input without a buffer."""
        self.clock = clock
        self.pins = pins
        self.width = width
        self.transfer_width = width

    @property
    def gate(self) -> Gate | None:
        """The port whose pin is the ready signal that is read; None where none is."""
        return None

    @property
    def ready_out(self) -> bool:
        """The ready signal that is driven."""
        return False

    @property
    def entries(self) -> int:
        """Samples of a word."""
        return self.transfer_width // self.width

    @abstractmethod
    def contents(self, now: int) -> Contents:
        """Return what they hold."""

    @abstractmethod
    def adopt(self, contents: Contents, now: int) -> None:
        """Hold what others held; what is on the pins stays there."""

    @abstractmethod
    def stop(self, now: int) -> None:
        """Output no more, and forget what was to be: the pins are released."""

    @abstractmethod
    def set_buffered(self, *, buffered: bool) -> None:
        """Have a buffer or none."""

    @abstractmethod
    def close(self, now: int) -> None:
        """Do nothing more: others go on from here."""

    @abstractmethod
    def advance(self, now: int) -> None:
        """Do what they have done by themselves up to a tick."""

    # Output.

    @abstractmethod
    def is_full(self) -> bool:
        """Return whether a word waits in the transfer register."""

    @abstractmethod
    def next_load(self) -> int | None:
        """Return the tick at which it may be loaded; None where that is not known."""

    @abstractmethod
    def put(self, value: int, entries: int, now: int) -> None:
        """Output a word of so many entries, as the transfer register is free."""

    @abstractmethod
    def begin_sync(self, now: int) -> None:
        """Begin to wait until all is out."""

    @abstractmethod
    def is_synced(self, now: int) -> bool:
        """Return whether all that was there at the begin is out, or the port is an input."""

    @abstractmethod
    def next_sync(self) -> int | None:
        """Return the tick at which that may be; None where it is not known."""

    # Input.

    @abstractmethod
    def available(self, now: int) -> Taken | None:
        """Take the word that can be input without a wait; None where there is none."""

    @abstractmethod
    def begin_wait(self, now: int) -> None:
        """Have a core wait for a word from now on; an output turns round as soon as all is out."""

    @abstractmethod
    def end_wait(self) -> None:
        """Have nobody wait any more."""

    @abstractmethod
    def awaited(self, now: int) -> Taken | None:
        """Take the word that a core waited for; None where it is not there yet."""

    @abstractmethod
    def next_look(self, now: int) -> int | None:
        """Return the tick at which it may be there; None where that depends on pins or a clock."""

    @abstractmethod
    def hold(self, now: int) -> bool:
        """Hold the word of an event until it is input; return whether there is one."""

    @abstractmethod
    def wait_anew(self, now: int) -> None:
        """Look for what is wanted from now on, for a select that waits."""

    @property
    @abstractmethod
    def needs_pins(self) -> bool:
        """Return whether the next word depends on what the port's pins do."""

    @abstractmethod
    def end(self, now: int) -> int:
        """Have what is left input by itself, and return the samples that are left."""

    # Settings.

    @abstractmethod
    def clear(self, now: int) -> None:
        """Empty the registers; the value that is driven stays."""

    @abstractmethod
    def set_time(self, time: int, now: int) -> None:
        """Load or take the next word as the counter is `time`."""

    @abstractmethod
    def clear_time(self, now: int) -> None:
        """Load or take the next word at any time."""

    @abstractmethod
    def set_condition(self, now: int, data: int | None, *, equal: bool | None) -> None:
        """Take a value that is equal to `data`, or not, or any; None leaves the data as it is."""

    @abstractmethod
    def forget_condition(self) -> None:
        """Take any value from now on; a word that is held stays so."""

    @property
    @abstractmethod
    def condition(self) -> bool | None:
        """True where a value is to be equal, False where it must not be, None where any is taken."""

    @abstractmethod
    def set_count(self, entries: int, now: int) -> None:
        """Have the next word of so many samples, once."""

    @abstractmethod
    def set_transfer_width(self, width: int, now: int) -> None:
        """Have words of so many bits."""

    @abstractmethod
    def set_sampling(self, now: int, *, falling: bool) -> None:
        """Sample at falling edges, or at rising ones."""

    @abstractmethod
    def timestamp(self) -> int:
        """Return the counter at the last word that was input, or loaded."""

    # What others tell them.

    @abstractmethod
    def read_pins(self, now: int) -> None:
        """Read the pins up to now, as their past is dropped, or the edges are about to be others."""

    @abstractmethod
    def clock_begins(self, before: tuple[int, int], now: int) -> None:
        """Go on with other edges, where so many falling and sampling ones had passed before."""

    @abstractmethod
    def edges_changed(self, tick: int) -> None:
        """Follow the edges of the clock, which are others from a tick on."""

    @abstractmethod
    def lay_anew(self, now: int) -> None:
        """Lay down on the pins what is driven now, and what is known of what comes."""
