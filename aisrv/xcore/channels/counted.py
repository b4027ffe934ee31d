"""Channel ends that count the tokens that they output, while somebody wants to know.

An end that is counted has another class meanwhile, so that one that is not pays nothing. A tracer would hear
of each verb and wait, too, which takes as long as the verbs themselves. What shortcuts carry across is
counted as the tokens that it stands for, as tracers are told of it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.handover import Input, Output
from aisrv.xcore.channels.listener import Answer, Call, CallReport, HandedCall
from aisrv.xcore.channels.routes import RoutedEnd
from aisrv.xcore.tokens import Run
from aisrv.xcore.trace import TracedEnd, Tracer

Tokens = Counter[int]
"""Tokens that ends have output, by resource id."""

_SHAPES: Final = 256
"""Kinds of calls whose tokens are remembered: reports, lengths and statuses."""


@contextmanager
def counting(ends: Iterable[ChanEnd], tokens: Tokens) -> Iterator[None]:
    """Count what the ends output within the block. Blocks may lie within each other."""
    before = [(end, type(end)) for end in ends]
    classes = {kind: _counted(kind, tokens) for kind in {kind for _, kind in before}}
    for end, kind in before:
        end.__class__ = classes[kind]
    try:
        yield
    finally:
        for end, kind in before:
            end.__class__ = kind


def _counted(kind: type[ChanEnd], tokens: Tokens) -> type[ChanEnd]:
    """Derive a class whose ends count into `tokens`."""
    # Bound here, as `super()` takes longer than what is counted.
    deliver, output_packet, resume, call_at = (
        kind._deliver,
        kind._output_packet_at_once,
        kind.resume,
        kind.call,
    )

    class CountedEnd(kind):  # type: ignore[misc,valid-type]
        __slots__ = ()

        def _deliver(self, target: RoutedEnd, run: Run) -> None:
            tokens[self.resource_id] += 1 if isinstance(run, int) else len(run)
            deliver(self, target, run)

        def _output_packet_at_once(self, data: bytes) -> bool:
            if not output_packet(self, data):
                return False
            tokens[self.resource_id] += len(data) + 1
            return True

        def resume(self) -> None:
            if self.noted is not None:
                _count_handed_over(self, tokens)
            resume(self)

        async def call(self, call: Call, report: CallReport) -> Answer | None:
            answer = await call_at(self, call, report)
            if answer is not None:
                status, data = answer
                asked, answered = _tokens_of_call(report, len(call.array), status, len(data))
                tokens[self.resource_id] += asked
                tokens[self.destination] += answered
            return answer

        def hand_over(self, call: Call) -> HandedCall | None:
            """Hand nothing over: its tokens cross, and are counted."""

    return CountedEnd


def _count_handed_over(end: ChanEnd, tokens: Tokens) -> None:
    """Count what a shortcut has carried across to a verb, or from it, that goes on now."""
    noted, peer = end.noted, end.destination
    if peer is None:
        return  # nothing is handed over to an end that cannot answer
    if isinstance(noted, Input) and noted.data:  # END, data and END; of an array words and rest, an END each
        array = 0 if noted.array is None else len(noted.array) + 2
        tokens[peer] += len(noted.data) + 2 + array
        tokens[end.resource_id] += 2
    elif isinstance(noted, Output) and noted.taken:  # its first END was counted
        tokens[end.resource_id] += len(noted.data) + 1
        tokens[peer] += 2


@lru_cache(_SHAPES)
def _tokens_of_call(report: CallReport, sent: int, status: int, answered: int) -> tuple[int, int]:
    """Return the tokens of a call's two sides, as `report` tells a tracer of them."""
    counts = _Outputs()
    client, server = _Place(0), _Place(1)
    report(counts, client, server, Call(0, 0, bytes(sent), 0), (status, bytes(answered)))
    return counts.tokens[0], counts.tokens[1]


class _Outputs(Tracer):
    """Counts the tokens of a report."""

    def __init__(self) -> None:
        self.tokens = [0, 0]

    def output(self, end: TracedEnd, run: Run, *_: object) -> None:
        self.tokens[end.resource_id] += 1 if isinstance(run, int) else len(run)


class _Place:
    """Stands for an end in a report."""

    def __init__(self, number: int) -> None:
        self.resource_id = self.number = self.tile = number
        self.name = ""
        self.destination = self.user = None
        self.tick = 0
