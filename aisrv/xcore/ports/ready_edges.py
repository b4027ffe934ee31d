"""A walk over the edges of a port with ready signals, past stretches of which nothing comes."""

import copy
from typing import Final

from aisrv.xcore.ports.port_pins import PortPins
from aisrv.xcore.ports.ready import ReadyRules, State
from aisrv.xcore.ports.registers import Gate

NEVER: Final = float("inf")


class ReadyEdges:
    """Takes registers over the edges of their clock. Each edge reads what the pins were before its tick."""

    def __init__(self, rules: ReadyRules, pins: PortPins) -> None:
        self._rules = rules
        self._clock: Final = rules.clock
        self._pins = pins

    @property
    def gate(self) -> Gate | None:
        """The port whose pin is the ready signal; None where there is none, or none is used."""
        return self._clock.block.ready_source if self._rules.use.ready_in else None

    def _gate_at(self, tick: int) -> bool:
        """Return the ready signal that is read, as it is at the end of a tick; high where none is."""
        return not self._rules.use.ready_in or self._clock.ready_at(tick)

    def read_last_ready(self, state: State) -> None:
        """Read the ready signal as of the last sampling edge, as it is used from now on."""
        state.ready_in = not self._rules.use.ready_in or self._clock.last_ready(state.sampled)

    def next_edge(self, state: State) -> int | None:
        """Return the tick of the next edge; None where none is known."""
        sample = self._clock.sample_tick(state.sampled + 1)
        falling = self._clock.block.edges.falling(state.fallen + 1)
        if sample is None or falling is None:
            return falling if sample is None else sample
        return min(sample, falling)

    def step(self, state: State, tick: int) -> None:
        """Take all edges of a tick."""
        while self.next_edge(state) == tick:
            samples = self._clock.sample_tick(state.sampled + 1) == tick
            if samples and self._clock.block.edges.falling(state.fallen + 1) == tick:
                samples = self._clock.samples_first(state.sampled + 1, state.fallen + 1)
            if samples:
                state.sampled += 1
                self._sample(state, tick - 1)
            else:
                state.fallen += 1
                self._rules.fall(state)

    def _sample(self, state: State, tick: int) -> None:
        state.ready_in = self._gate_at(tick)
        if state.is_output or not self._rules.is_open(state):
            return
        self._rules.sample(state, self._pins.value_at(tick))

    def _quiet_until(self, state: State, edge: int) -> float:
        """Return the tick before which nothing but samples comes of edges, the next being at tick `edge`.

        0 where something comes of the next one; infinity where nothing does until something changes.
        """
        if state.ready_out != self._rules.ready_signal(state):
            return 0
        until = NEVER
        if (gate := self.gate) is not None:
            if state.ready_in != self._gate_at(edge - 1):
                return 0
            until = _after(gate.pins[0].next_change(edge - 1))
        elif not state.ready_in:
            return 0
        is_closed = not state.is_output and not self._rules.use.ready_out and not state.ready_in
        if state.time is not None and not is_closed:
            if state.time == self._clock.counter(state.fallen):
                return 0
            tick = self._clock.block.edges.falling(self._clock.falling_at(state.time, state.fallen))
            until = until if tick is None else min(until, tick)
        if state.is_output:
            return 0 if self._rules.works(state) else until
        return min(until, self._quiet_input_until(state, edge))

    def _quiet_input_until(self, state: State, edge: int) -> float:
        if not self._rules.is_open(state):
            return NEVER
        if state.count != self._rules.entries:
            return 0
        wanted = self._rules.awaits(state) and state.time is None
        if state.condition is None:
            return 0 if wanted or self._rules.use.ready_out else NEVER
        if not wanted:
            return NEVER
        if self._rules.meets(state, self._pins.value_at(edge - 1)):
            return 0
        return _after(self._pins.next_change(edge - 1))

    def skip(self, state: State, until: float) -> None:
        """Pass over edges up to a tick of which nothing comes; whole words of samples are left out."""
        samples = 0 if state.is_output or not self._rules.is_open(state) else self._rules.entries
        edges = self._clock.block.edges
        last = int(until)
        passed = min(edges.falling_until(last) - state.fallen, self._clock.sampled(last) - state.sampled)
        if passed <= 2 * samples + 2:
            return
        edge = self.next_edge(state)
        if edge is None:
            return
        quiet = self._quiet_until(state, edge)
        if quiet <= last:
            last = int(quiet) - 1
            passed = min(edges.falling_until(last) - state.fallen, self._clock.sampled(last) - state.sampled)
        passed -= 2 * samples + 1
        if samples:
            passed -= passed % samples
        if passed > 0:
            state.fallen += passed
            state.sampled += passed

    def ahead_of(self, now: State) -> tuple[State, int | None]:
        """Return the registers after the next edges of which something comes, and their tick."""
        edge = self.next_edge(now)
        if edge is None or not self._rules.shows(now):
            return now, None
        quiet = self._quiet_until(now, edge)
        if quiet == NEVER:
            return now, None
        state = copy.copy(now)
        while (tick := self.next_edge(state)) is not None and tick < quiet:
            self.skip(state, quiet - 1)
            if (tick := self.next_edge(state)) is None or tick >= quiet:
                break
            self.step(state, tick)
        if tick is not None:
            self.step(state, tick)
        return state, tick


def _after(changed: int | None) -> float:
    """Return the first tick whose edges read a change: they read what was before their tick."""
    return NEVER if changed is None else changed + 1
