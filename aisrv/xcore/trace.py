"""The tracer: hooks that are called as cores run and tokens move. All are empty; override what you need.

A node without a tracer pays one comparison with None per event. Install one with `Node.tracing`.
"""

from typing import Protocol

from aisrv.xcore.core import Core, Resource
from aisrv.xcore.tokens import PIECE_BYTES, WORD_BYTES, Control, Run, words_to_wire
from aisrv.xcore.traps import Trap


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


class Tracer:
    """Base of all tracers. Hooks run inside the simulation: they must not block and must not raise."""

    def core_started(self, core: Core) -> None:
        """Report that a task took a logical core."""

    def core_ended(self, core: Core) -> None:
        """Report that the task of a core returned, or was cancelled."""

    def core_trapped(self, core: Core, trap: Trap) -> None:
        """Report that a core broke a rule and stopped."""

    def parked(self, core: Core, verb: str, resource: Resource) -> None:
        """Report that a core waits in `verb` for `resource`."""

    def woken(self, core: Core) -> None:
        """Report that a parked core can run again."""

    def output(self, end: TracedEnd, run: Run) -> None:
        """Report that `end` sent a run of tokens towards its destination."""

    def input(self, end: TracedEnd, run: Run) -> None:
        """Report that a run of tokens was taken out of the buffer of `end`."""

    def route_opened(self, source: TracedEnd, destination: TracedEnd) -> None:
        """Report that `destination` now belongs to `source`."""

    def route_closed(self, source: TracedEnd, destination: TracedEnd) -> None:
        """Report that the route from `source` to `destination` was closed by END or PAUSE."""


# What shortcuts report: the hooks of the tokens that they stand for, at each end in the order of these.


def report_packet(tracer: Tracer, source: TracedEnd, destination: TracedEnd, *data: bytes) -> None:
    """Report runs of `data` and END from `source` to `destination`, as output and input, to `tracer`.

    They open and close a route.
    """
    runs: tuple[Run, ...] = (*filter(None, data), int(Control.END))
    tracer.route_opened(source, destination)
    for run in runs:
        tracer.output(source, run)
    tracer.route_closed(source, destination)
    for run in runs:
        tracer.input(destination, run)


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
