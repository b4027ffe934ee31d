"""The tracer: hooks that are called as cores run and tokens move. All are empty; override what you need.

A node without a tracer pays one comparison with None per event. Install one with `Node.tracing`.
A worked example is in docs/inside/tracer.md.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from aisrv.xcore.core import Core, Resource
from aisrv.xcore.probes import Probe, ProbeEvent, Value
from aisrv.xcore.tokens import PIECE_BYTES, WORD_BYTES, Control, Run, words_to_wire
from aisrv.xcore.traps import Trap


class TracedNode(Protocol):
    """A node as hooks get it."""

    @property
    def number(self) -> int:
        """Number of the node."""

    @property
    def name(self) -> str:
        """Name that tells it from other nodes; may be empty."""

    @property
    def cores(self) -> tuple[Core, ...]:
        """Cores whose task has not ended, by tile and number."""


class TracedEnd(Resource, Protocol):
    """A channel end as hooks get it."""

    @property
    def tile(self) -> int:
        """Number of its tile."""

    @property
    def number(self) -> int:
        """Number among the ends of its tile."""

    @property
    def resource_id(self) -> int:
        """Resource id."""

    @property
    def destination(self) -> int | None:
        """Resource id of the end that outputs go to; None where none is set."""

    @property
    def user(self) -> Core | None:
        """Core that uses the end, as far as is known; None for a program outside of the node."""

    @property
    def tick(self) -> int:
        """Tick at which its user is."""


class Tracer:
    """Base of all tracers. Hooks run inside the simulation: they must not block and must not raise.

    A node has any number of tracers, which are called in the order in which they were installed. `tick` is
    the time of the core that a hook is about, in ticks of 10 ns since its node started. `core` is None for a
    task outside of any core, such as a test or a host's program; a child task of a core counts as the core.
    """

    hears_verbs: bool = True
    """Whether `verb_began` and `verb_ended` are called, which most of what happens goes through."""

    def tracing_began(self, node: TracedNode, tick: int) -> None:
        """Report that the tracer was installed; the cores of `node` may well be running."""

    def tracing_ended(self, node: TracedNode, tick: int) -> None:
        """Report that the tracer hears no more of `node`."""

    def core_started(self, core: Core, tick: int) -> None:
        """Report that a task took a logical core."""

    def core_ended(self, core: Core, tick: int) -> None:
        """Report that the task of a core returned, or was cancelled."""

    def core_trapped(self, core: Core, trap: Trap, tick: int) -> None:
        """Report that a core broke a rule and stopped."""

    def verb_began(self, core: Core | None, verb: str, resource: Resource, tick: int) -> None:
        """Report that a core began `verb` on `resource`: a channel end, a timer, a lock, a select."""

    def verb_ended(self, core: Core | None, verb: str, resource: Resource, tick: int) -> None:
        """Report that the verb that began last is done, trapped or was cancelled; a lock is granted now."""

    def waits(self, core: Core, verb: str, resource: Resource, tick: int) -> None:
        """Report that the task of a core waits in `verb` for `resource`, be it in the node or outside."""

    def woken(self, core: Core, tick: int) -> None:
        """Report that a core that waited can run again: in the task that woke it, if that is of the node."""

    def command_began(self, core: Core | None, command: str, end: TracedEnd, tick: int) -> None:
        """Report that a core began a client's `command`, which came to `end`, or is answered for it."""

    def command_ended(self, core: Core | None, command: str, end: TracedEnd, tick: int) -> None:
        """Report that the command was answered, or given up."""

    def probe_registered(self, tile: int, probe: Probe) -> None:
        """Report that the cores of a tile may record on a probe of xscope."""

    def probed(
        self, core: Core | None, tile: int, probe: Probe, event: ProbeEvent, value: Value, tick: int
    ) -> None:
        """Report that a core of a tile recorded on a probe: a value, or the start or end of a block."""

    def output(self, end: TracedEnd, run: Run, tick: int) -> None:
        """Report that `end` sent a run of tokens towards its destination."""

    def input(self, end: TracedEnd, run: Run, tick: int) -> None:
        """Report that a run of tokens was taken out of the buffer of `end`."""

    def withdrawn(self, end: TracedEnd, count: int, tick: int) -> None:
        """Report that the last `count` tokens that `end` sent were taken back, as its verb was cancelled."""

    def route_opened(self, source: TracedEnd, destination: TracedEnd, tick: int) -> None:
        """Report that `destination` now belongs to `source`."""

    def route_closed(self, source: TracedEnd, destination: TracedEnd, tick: int) -> None:
        """Report that the route from `source` to `destination` was closed by END or PAUSE."""


_HOOKS = tuple(name for name, value in vars(Tracer).items() if callable(value) and not name.startswith("_"))


def fan_out(tracers: Sequence[Tracer]) -> Tracer | None:
    """Return a tracer that calls each of several in turn: the only one itself, None for none."""
    if len(tracers) < 2:
        return tracers[0] if tracers else None
    fan = Tracer()
    for name in _HOOKS:
        setattr(fan, name, partial(_call_each, [getattr(tracer, name) for tracer in tracers]))
    return fan


def _call_each(hooks: Sequence[Any], *args: object) -> None:
    for hook in hooks:
        hook(*args)


# What shortcuts report: the hooks of the tokens that they stand for, at each end in the order of these.


def report_packet(tracer: Tracer, source: TracedEnd, destination: TracedEnd, *data: bytes) -> None:
    """Report runs of `data` and END from `source` to `destination`, as output and input, to `tracer`.

    They open and close a route.
    """
    runs: tuple[Run, ...] = (*filter(None, data), int(Control.END))
    tracer.route_opened(source, destination, source.tick)
    for run in runs:
        tracer.output(source, run, source.tick)
    tracer.route_closed(source, destination, source.tick)
    for run in runs:
        tracer.input(destination, run, destination.tick)


def report_normal_output(tracer: Tracer, source: TracedEnd, destination: TracedEnd, data: bytes) -> None:
    """Report a normal output of `data` from `source`, and the input at `destination`, to `tracer`."""
    report_packet(tracer, source, destination)
    report_rest_of_normal_output(tracer, source, destination, data)


def report_rest_of_normal_output(
    tracer: Tracer, source: TracedEnd, destination: TracedEnd, data: bytes
) -> None:
    """Report a normal output of `data` from `source` to `destination` after its first END, to `tracer`."""
    report_packet(tracer, destination, source)
    report_packet(tracer, source, destination, data)
    report_packet(tracer, destination, source)


def report_array(
    tracer: Tracer, source: TracedEnd, destination: TracedEnd, array: bytes | bytearray | memoryview
) -> None:
    """Report `array` from `source` to `destination`, as `array.send_array` sends it, to `tracer`.

    It goes in pieces of words, then what is left over.
    """
    whole = len(array) & -WORD_BYTES
    starts = range(0, whole, PIECE_BYTES)
    words = (words_to_wire(array[start : min(start + PIECE_BYTES, whole)]) for start in starts)
    report_packet(tracer, source, destination, *words)
    report_packet(tracer, source, destination, bytes(array[whole:]))
