"""Registers of a port without ready signals: what they do is computed, and nothing runs for each edge."""

from aisrv.xcore.ports.clock import PortClock
from aisrv.xcore.ports.input import Found, PortInput
from aisrv.xcore.ports.input import Pins as InputPins
from aisrv.xcore.ports.output import PortOutput
from aisrv.xcore.ports.port_pins import PortPins
from aisrv.xcore.ports.registers import Contents, Registers, Taken


class ArithmeticRegisters(Registers):
    """An output is laid down on the pins ahead; an input is found in their past."""

    def __init__(self, clock: PortClock, pins: PortPins, width: int) -> None:
        """Create them for a port of `width` bits, as an input without a buffer."""
        super().__init__(clock, pins, width)
        self._out = PortOutput(clock, pins.drive, width)
        self._in = PortInput(clock, InputPins(pins.value_at, pins.values_at, pins.next_change), width)
        self._since = 0
        """The sampling edge since which a core waits."""
        self._timestamp = 0
        """The counter at the last word that was input, or loaded before it became an input."""
        self._next_count: int | None = None
        """Entries of the next word that is output, where they are set."""
        self._synced = 0

    def contents(self, now: int) -> Contents:
        """Return what they hold."""
        fallen, sampled = self.clock.fallen(now), self.clock.sampled(now)
        held = Contents(fallen, sampled, self.is_output, self.timestamp())
        self._in.give(held)
        if self.is_output:
            self._out.give(held)
            held.next_count = self._next_count
        return held

    def adopt(self, contents: Contents, now: int) -> None:  # noqa: ARG002
        """Hold what others held; what is on the pins stays there."""
        self._in.buffered = self.buffered
        self._in.begin(contents.sampled, self.transfer_width)
        self._in.adopt(contents)
        self.is_output, self._next_count = contents.is_output, contents.next_count
        self._timestamp = contents.timestamp
        if contents.is_output:
            self._out.begin(contents.fallen)
            self._out.adopt(contents)
            self._lay()

    def stop(self, now: int) -> None:
        """Output no more, and forget what was to be: the pins are released."""
        self._out.begin(self.clock.fallen(now))
        self._next_count = None
        self.is_output = False

    def set_buffered(self, *, buffered: bool) -> None:
        """Have a buffer or none."""
        self.buffered = self._in.buffered = buffered

    def close(self, now: int) -> None:
        """Do nothing more: others go on from here."""
        self.pins.withdraw(now)

    def advance(self, now: int) -> None:
        """Do what they have done by themselves up to a tick."""
        if self.is_output:
            turned = self._out.advance(self.clock.fallen(now))
            if turned is None:
                return
            self.is_output = False
            if self._out.shifting is not None:
                self._timestamp = self._out.timestamp
            self._since = self.clock.samples_before(turned)
            self._in.begin(self._since, self.transfer_width)
            if self._next_count is not None:
                self._in.set_count(self._next_count, self._since)
        self._in.advance(self.clock.sampled(now), waits=self.waits)

    # Output.

    def is_full(self) -> bool:
        """Return whether a word waits in the transfer register."""
        return self._out.waiting is not None

    def next_load(self) -> int | None:
        """Return the tick at which it may be loaded; None where that is not known."""
        waiting = self._out.waiting
        return None if waiting is None else self.clock.block.edges.falling(waiting.load)

    def put(self, value: int, entries: int, now: int) -> None:
        """Output a word of so many entries, as the transfer register is free."""
        fallen = self.clock.fallen(now)
        if not self.is_output:
            time = self._in.time
            self._next_count = self._in.next_count
            self._out.begin(fallen)
            self.is_output = True
            if time is not None:
                self._out.set_time(time, fallen)
                self._in.clear_time()
        if self._next_count is not None:
            entries, self._next_count = self._next_count, None
        self._out.put(value, entries, fallen)
        self._lay()

    def begin_sync(self, now: int) -> None:
        """Begin to wait until all is out."""
        self._synced = self._out.done_edge(self.clock.fallen(now))

    def is_synced(self, now: int) -> bool:
        """Return whether all that was there at the begin is out, or the port is an input."""
        return not self.is_output or self.clock.fallen(now) >= self._synced

    def next_sync(self) -> int | None:
        """Return the tick at which that may be; None where it is not known."""
        return self.clock.block.edges.falling(self._synced)

    # Input.

    def available(self, now: int) -> Taken | None:
        """Take the word that can be input without a wait; None where there is none."""
        if self.is_output:
            return None
        sampled = self.clock.sampled(now)
        found = self._in.available(sampled)
        if found is None:
            return None
        self._since = sampled  # for a core that waits on, below the callback that takes this
        return self._take(found, sampled)

    def begin_wait(self, now: int) -> None:
        """Have a core wait for a word from now on; an output turns round as soon as all is out."""
        self._since = self.clock.sampled(now)
        self.waits = True
        if self.is_output:
            self._out.turn_round(self.clock.fallen(now))
            self._lay()

    def end_wait(self) -> None:
        """Have nobody wait any more."""
        self.waits = False

    def awaited(self, now: int) -> Taken | None:
        """Take the word that a core waited for; None where it is not there yet."""
        found, _ = self._next_word(now)
        return None if found is None else self._take(found, self.clock.sampled(now))

    def next_look(self, now: int) -> int | None:
        """Return the tick at which it may be there; None where that depends on pins or a clock."""
        return self._next_word(now)[1]

    def hold(self, now: int) -> bool:
        """Hold the word of an event until it is input; return whether there is one."""
        if self.is_output:
            return False
        sampled = self.clock.sampled(now)
        found = self._next_word(now)[0] if self.waits else self._in.available(sampled)
        if found is not None:
            self._in.hold(found, sampled)
        return found is not None

    def wait_anew(self, now: int) -> None:
        """Look for what is wanted from now on, for a select that waits."""
        if self.is_output:
            return
        self._since = sampled = self.clock.sampled(now)
        found = self._in.available(sampled)
        if found is not None:
            self._in.hold(found, sampled)

    @property
    def needs_pins(self) -> bool:
        """Return whether the next word depends on what the port's pins do."""
        return not self.is_output and self._in.condition is not None

    def end(self, now: int) -> int:
        """Have what is left input by itself, and return the samples that are left."""
        self._since = sampled = self.clock.sampled(now)
        return self._in.end(sampled, self.clock.counter(self.clock.fallen(now)))

    # Settings.

    def clear(self, now: int) -> None:
        """Empty the registers; the value that is driven stays."""
        if self.is_output:
            self._out.clear(self.clock.fallen(now))
            self._lay()
        else:
            self._since = sampled = self.clock.sampled(now)
            self._in.clear(sampled)

    def set_time(self, time: int, now: int) -> None:
        """Load or take the next word as the counter is `time`."""
        if self.is_output:
            self._out.set_time(time, self.clock.fallen(now))
            self._lay()
        else:
            self._in.set_time(time, self.clock.sampled(now))

    def clear_time(self, now: int) -> None:
        """Load or take the next word at any time."""
        self._in.clear_time()
        if self.is_output:
            self._out.clear_time(self.clock.fallen(now))
            self._lay()

    def set_condition(self, now: int, data: int | None, *, equal: bool | None) -> None:  # noqa: ARG002
        """Take a value that is equal to `data`, or not, or any; None leaves the data as it is."""
        self._in.set_condition(self._in.data if data is None else data, equal=equal)

    def forget_condition(self) -> None:
        """Take any value from now on; a word that is held stays so."""
        self._in.condition = None

    @property
    def condition(self) -> bool | None:
        """True where a value is to be equal, False where it must not be, None where any is taken."""
        return self._in.condition

    def set_count(self, entries: int, now: int) -> None:
        """Have the next word of so many samples, once."""
        if self.is_output:
            self._next_count = entries
        else:
            self._in.set_count(entries, self.clock.sampled(now))

    def set_transfer_width(self, width: int, now: int) -> None:
        """Have words of so many bits."""
        self.transfer_width, self._next_count = width, None
        self._in.begin(self.clock.sampled(now), width)

    def set_sampling(self, now: int, *, falling: bool) -> None:
        """Sample at falling edges, or at rising ones."""
        self._in.collapse(self.clock.sampled(now))
        before = self.clock.sampled(now)
        self.clock.samples_falling = falling
        after = self.clock.sampled(now)
        self._in.move(after - before, after)

    def timestamp(self) -> int:
        """Return the counter at the last word that was input, or loaded."""
        loaded = self.is_output and self._out.shifting is not None
        return self._out.timestamp if loaded else self._timestamp

    # What others tell them.

    def read_pins(self, now: int) -> None:
        """Read the pins up to now, as their past is dropped, or the edges are about to be others."""
        self.advance(now)
        if self.is_output:
            return
        sampled = self.clock.sampled(now)
        if self.waits and (found := self._next_word(now)[0]) is not None:
            self._in.hold(found, sampled)
        self._in.collapse(sampled)

    def clock_begins(self, before: tuple[int, int], now: int) -> None:
        """Go on with other edges, where so many falling and sampling ones had passed before."""
        fallen, sampled = self.clock.fallen(now), self.clock.sampled(now)
        self._in.move(sampled - before[1], sampled)
        self._out.move(fallen - before[0], fallen)
        self._since += sampled - before[1]
        self._synced = self._out.done_edge(fallen)

    def edges_changed(self, tick: int) -> None:
        """Follow the edges of the clock, which are others from a tick on."""
        if self.is_output:
            self.pins.withdraw(tick - 1)
            self._out.forget_laid(self.clock.fallen(tick - 1))
            self._lay()

    def lay_anew(self, now: int) -> None:
        """Lay down on the pins what is driven now, and what is known of what comes."""
        if not self.is_output:
            return
        self.pins.withdraw(now)
        fallen = self.clock.fallen(now)
        value = self._out.value_at(fallen)
        if value is not None:
            self.pins.drive((now,), (value,))
        self._out.forget_laid(fallen)
        self._lay()

    # Inside.

    def _take(self, found: Found, sampled: int) -> Taken:
        taken = self._in.take(found, sampled)
        self._timestamp = taken.timestamp
        return taken

    def _next_word(self, now: int) -> tuple[Found | None, int | None]:
        """Return the word that a core waited for, or the tick at which to look again, as far as is known."""
        if self.is_output:
            turn = self._out.turn
            return None, None if turn is None else self.clock.block.edges.falling(turn)
        sampled = self.clock.sampled(now)
        found = self._in.find(self._since, sampled)
        if found.sample is None:
            return None, found.look_at
        if found.sample <= sampled:
            return found, None
        return None, self.clock.sample_tick(found.sample)

    def _lay(self) -> None:
        """Lay down on the pins what is known of the output to come."""
        out, edges = self._out, self.clock.block.edges
        if out.withdrawn is not None:
            tick = edges.falling(out.withdrawn)
            if tick is not None:
                self.pins.withdraw(tick - 1)
            out.withdrawn = None
        turn = out.lay_down()
        if turn is not None and (tick := edges.falling(turn)) is not None:
            self.pins.release(tick)
