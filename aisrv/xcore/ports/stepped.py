"""Registers of a port with ready signals: edge by edge, as what comes depends on what others answer.

Rules: "Ports", section Ready signals. The registers go one tick with edges ahead of the present, so that what
is driven then is on the pins before anybody reads them.
"""

from typing import TYPE_CHECKING

from aisrv.xcore.ports.clock import PortClock
from aisrv.xcore.ports.pin import Pin
from aisrv.xcore.ports.port_pins import PortPins
from aisrv.xcore.ports.ready import ReadyRules, ReadyUse, State
from aisrv.xcore.ports.ready_edges import ReadyEdges
from aisrv.xcore.ports.registers import Contents, Gate, Registers, Taken
from aisrv.xcore.runtime import CalledOff, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class SteppedRegisters(Registers):
    """The registers of a buffered port with ready signals."""

    buffered = True

    def __init__(self, clock: PortClock, pins: PortPins, width: int, runtime: Runtime, use: ReadyUse) -> None:
        """Create them for a port of `width` bits that uses these signals."""
        super().__init__(clock, pins, width)
        self.ready_lines: Sequence[PortPins] = ()
        """What is to be driven with the ready signal."""
        self.changed: Callable[[], object] = _do_nothing
        """Called where a core that waits is to look again."""
        self._rules = ReadyRules(clock, width, use)
        self._edges = ReadyEdges(self._rules, pins)
        self._runtime = runtime
        self._state = State()
        self._ahead: tuple[int, int | None, bool] | None = None  # tick, data and ready signal on the pins
        self._next: int | None = None  # the tick at which edges are looked at
        self._alarm: CalledOff | None = None
        self._gate: Pin | None = None
        self._looks = self._looks_again = False

    def contents(self, now: int) -> Contents:
        """Return what they hold."""
        self.advance(now)
        self._rules.move_on(self._state)
        return self._state

    def adopt(self, contents: Contents, now: int) -> None:
        """Hold what others held; what is on the pins stays there."""
        fields = {name: getattr(contents, name) for name in Contents.__struct_fields__}
        self._state = State(**fields)
        self.is_output = contents.is_output
        self._rules.waits, self._rules.transfer_width = self.waits, self.transfer_width
        self._edges.read_last_ready(self._state)
        for pin in self.pins.pins:
            pin.listen(self)
        self.lay_anew(now)

    def stop(self, now: int) -> None:
        """Output no more, and forget what was to be: the pins are released."""
        state = self._state
        self.is_output = state.is_output = False
        state.driven = state.waiting = state.next_count = None
        state.left = 0
        self._look(now)

    def set_buffered(self, *, buffered: bool) -> None:
        """Have a buffer or none: one that uses ready signals needs it."""
        assert buffered  # noqa: S101 - the port refuses before

    def close(self, now: int) -> None:
        """Do nothing more: others go on from here."""
        self.advance(now)
        self._unlay()
        self._set_alarm(None)
        self._listen_to_gate(None)
        for pin in self.pins.pins:
            pin.stop_listening(self)
        self._drive_ready(now, level=False)

    def use_signals(self, use: ReadyUse, now: int) -> None:
        """Use other ready signals."""
        self.advance(now)
        self._rules.use = use
        self._edges.read_last_ready(self._state)
        self._look(now)

    @property
    def gate(self) -> Gate | None:
        """The port whose pin is the ready signal that is read; None where there is none, or none is used."""
        return self._edges.gate

    @property
    def ready_out(self) -> bool:
        """The ready signal that is driven."""
        return self._state.ready_out

    def advance(self, now: int) -> None:
        """Do what they have done by themselves up to a tick, and put it on the pins."""
        state = self._state
        while (tick := self._edges.next_edge(state)) is not None and tick <= now:
            self._edges.skip(state, now)
            if (tick := self._edges.next_edge(state)) is None or tick > now:
                break
            before = state.driven, state.ready_out
            self._edges.step(state, tick)
            if before != (state.driven, state.ready_out):
                self._show(tick, before)
        self.is_output = state.is_output

    # Output.

    def is_full(self) -> bool:
        """Return whether a word waits in the transfer register."""
        return self._state.is_output and self._state.waiting is not None

    def next_load(self) -> int | None:
        """Return the tick of the next edges that matter; None where that depends on the ready signal."""
        return self._next

    def put(self, value: int, entries: int, now: int) -> None:
        """Output a word of so many entries, as the transfer register is free."""
        state = self._state
        if not state.is_output:
            state.is_output = self.is_output = True
            state.left = state.at = 0
            state.driven, state.waiting = None, None
        if state.next_count is not None:
            entries, state.next_count = state.next_count, None
        state.waiting = value, entries
        self._look(now)

    def begin_sync(self, now: int) -> None:
        """Begin to wait until all is out."""
        self._state.syncs = True
        self._look(now)

    def is_synced(self, now: int) -> bool:  # noqa: ARG002 - as in Registers
        """Return whether all that was there at the begin is out, or the port is an input."""
        return not (self._state.is_output and self._state.syncs)

    def next_sync(self) -> int | None:
        """Return the tick of the next edges that matter; None where that depends on the ready signal."""
        return self._next

    # Input.

    def available(self, now: int) -> Taken | None:
        """Take the word that can be input without a wait; None where there is none."""
        state = self._state
        if state.is_output:
            return None
        if state.delivered is not None:
            taken, state.delivered = state.delivered, None
        elif state.held:
            taken, *rest = state.held
            state.held = tuple(rest)
            state.holds_event = False
        elif state.complete is not None and self._rules.is_wanted(state, state.complete):
            taken, state.complete = state.complete, None
        else:
            return None
        state.time = state.condition = None
        state.timestamp = taken.timestamp
        self._rules.refill(state)
        self._look(now)
        return taken

    def begin_wait(self, now: int) -> None:
        """Have a core wait for a word from now on; an output turns round as soon as all is out."""
        self.waits = self._rules.waits = True
        self._look(now)

    def end_wait(self) -> None:
        """Have nobody wait any more."""
        self.waits = self._rules.waits = False
        self._state.syncs = False

    def awaited(self, now: int) -> Taken | None:
        """Take the word that a core waited for; None where it is not there yet."""
        state = self._state
        return self.available(now) if state.held or state.delivered is not None else None

    def next_look(self, now: int) -> int | None:  # noqa: ARG002 - as in Registers
        """Return the tick of the next edges that matter; None where that depends on pins or a clock."""
        return self._next

    def hold(self, now: int) -> bool:
        """Hold the word of an event until it is input; return whether there is one."""
        state = self._state
        if state.is_output:
            return False
        if not state.held and state.complete is not None and self._rules.is_wanted(state, state.complete):
            self._rules.deliver(state, state.complete)
        if state.delivered is not None:
            state.held, state.holds_event, state.delivered = (state.delivered,), True, None
            self._look(now)
        return bool(state.held)

    def wait_anew(self, now: int) -> None:
        """Look for what is wanted from now on, for a select that waits."""
        self.hold(now)

    @property
    def needs_pins(self) -> bool:
        """Return whether the next word depends on what the port's pins do."""
        return not self.is_output and self._state.condition is not None

    def end(self, now: int) -> int:
        """Have what is left input by itself, and return the samples that are left."""
        state = self._state
        words = list(state.held)
        entries = state.valid + self.entries * len(words)
        if state.complete is not None:
            entries += self.entries
            words.append(state.complete)
        if state.valid or not words:
            words.append(Taken(state.shift, self.clock.counter(state.fallen)))
        state.held, state.complete = tuple(words), None
        state.valid, state.count, state.next_count = 0, self.entries, None
        self._look(now)
        return entries

    # Settings.

    def clear(self, now: int) -> None:
        """Empty the registers; the value that is driven stays, and the ready signal falls."""
        state = self._state
        if state.is_output:
            state.waiting, state.left = None, 0
        else:
            state.complete, state.held, state.valid = None, (), 0
        if state.ready_out:
            state.ready_out = False
            self._unlay()
            self._drive_ready(now, level=False)
        self._look(now)

    def set_time(self, time: int, now: int) -> None:
        """Load or take the next word as the counter is `time`."""
        self._let_event_go()
        self._state.time = time
        self._look(now)

    def clear_time(self, now: int) -> None:
        """Load or take the next word at any time."""
        self._let_event_go()
        self._state.time = None
        self._look(now)

    def set_condition(self, now: int, data: int | None, *, equal: bool | None) -> None:
        """Take a value that is equal to `data`, or not, or any; None leaves the data as it is."""
        self._let_event_go()
        self._state.condition = equal
        if data is not None:
            self._state.data = data
        self._look(now)

    def forget_condition(self) -> None:
        """Take any value from now on; a word that is held stays so."""
        self._state.condition = None

    @property
    def condition(self) -> bool | None:
        """True where a value is to be equal, False where it must not be, None where any is taken."""
        return self._state.condition

    def set_count(self, entries: int, now: int) -> None:
        """Have the next word of so many samples, once; where the shift register is full, it stays so."""
        state = self._state
        state.next_count = entries
        if not state.is_output and state.valid < state.count:
            state.count = max(entries, state.valid + 1)
        self._look(now)

    def set_transfer_width(self, width: int, now: int) -> None:
        """Have words of so many bits."""
        self.transfer_width = self._rules.transfer_width = width
        state = self._state
        state.shift, state.valid, state.count, state.next_count = 0, 0, self.entries, None
        state.complete, state.held = None, ()
        self._look(now)

    def set_sampling(self, now: int, *, falling: bool) -> None:
        """Sample at falling edges, or at rising ones."""
        self.clock.samples_falling = falling
        self._state.sampled = self.clock.sampled(now)
        self._look(now)

    def timestamp(self) -> int:
        """Return the counter at the last word that was input, or loaded."""
        return self._state.timestamp

    # What others tell them.

    def read_pins(self, now: int) -> None:
        """Read the pins up to now, as their past is dropped, or the edges are about to be others."""
        self.advance(now)

    def clock_begins(self, before: tuple[int, int], now: int) -> None:  # noqa: ARG002 - as in Registers
        """Go on with other edges."""
        self._state.fallen, self._state.sampled = self.clock.fallen(now), self.clock.sampled(now)
        self._unlay()
        self._look(now)

    def edges_changed(self, tick: int) -> None:  # noqa: ARG002 - as in Registers
        """Follow the edges of the clock, which are others from a tick on."""
        self._look(self._runtime.clock.ticks())

    def pin_changed(self, pin: Pin, tick: int) -> None:
        """Look again where a level is another before the edges that are looked at next."""
        if self._next is not None and tick >= self._next:
            return
        if pin is self._gate or (self.needs_pins and self.waits):
            self._look(self._runtime.clock.ticks())
            self.changed()

    def lay_anew(self, now: int) -> None:
        """Lay down on the pins what is driven now, and what is known of what comes."""
        state = self._state
        self._unlay()
        self.pins.withdraw(now)
        if state.driven is not None:
            self.pins.drive((now,), (state.driven,))
        self._drive_ready(now, level=state.ready_out)
        self._look(now)

    # Inside.

    def _let_event_go(self) -> None:
        self._state.delivered = None
        if self._state.holds_event:
            self._state.held, self._state.holds_event = (), False

    def _look(self, now: int) -> None:
        """Find the next edges of which something comes, and lay down what is driven then."""
        self._looks_again = True
        if self._looks:
            return
        self._looks = True
        while self._looks_again:
            self._looks_again = False
            self.advance(now)
            gate = self.gate
            self._listen_to_gate(None if gate is None else gate.pins[0])
            state, tick = self._edges.ahead_of(self._state)
            new = None
            if tick is not None and (state.driven, state.ready_out) != self._shown:
                new = tick, state.driven, state.ready_out
            if new != self._ahead:
                if self._ahead is not None:  # what others answered to it must not come back as true
                    self._unlay()
                    self._looks_again = True
                    continue
                if new is not None:
                    self._ahead = new
                    self._lay(*new, before=self._shown)
            self._set_alarm(tick)
        self._looks = False

    @property
    def _shown(self) -> tuple[int | None, bool]:
        return self._state.driven, self._state.ready_out

    def _set_alarm(self, tick: int | None) -> None:
        if tick == self._next:
            return
        if self._alarm is not None:
            self._alarm.call_off()
        self._next = tick
        self._alarm = None if tick is None else self._runtime.at_tick(tick, self._edges_came)

    def _edges_came(self) -> None:
        tick, self._next, self._alarm = self._next, None, None
        assert tick is not None  # noqa: S101 - for the type checker
        self._look(max(tick, self._runtime.clock.ticks()))
        self.changed()

    def _listen_to_gate(self, pin: Pin | None) -> None:
        if pin is self._gate:
            return
        if self._gate is not None:
            self._gate.stop_listening(self)
            self._gate.read_no_more(self)
        self._gate = pin
        if pin is not None:
            pin.listen(self)
            pin.read_by(self)

    # Pins.

    def _show(self, tick: int, before: tuple[int | None, bool]) -> None:
        """Drive what came of an edge, where that is not on the pins already."""
        now = tick, *self._shown
        if self._ahead == now:
            self._ahead = None
            return
        self._unlay()
        self._lay(*now, before=before)

    def _lay(self, tick: int, driven: int | None, ready: bool, *, before: tuple[int | None, bool]) -> None:
        if driven != before[0]:
            if driven is None:
                self.pins.release(tick)
            else:
                self.pins.drive((tick,), (driven,))
        if ready != before[1]:
            self._drive_ready(tick, level=ready)

    def _drive_ready(self, tick: int, *, level: bool) -> None:
        for line in self.ready_lines:
            line.drive((tick,), (int(level),))

    def _unlay(self) -> None:
        """Take back what is laid down ahead."""
        if self._ahead is not None:
            tick, self._ahead = self._ahead[0], None
            self.pins.withdraw(tick - 1)
            for line in self.ready_lines:
                line.withdraw(tick - 1)


def _do_nothing() -> None:
    """Be called where nobody is to look again yet."""
