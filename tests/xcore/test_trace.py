"""The tracer: which hooks are called, in which order, and that none are without one."""

from typing import Any

from aisrv.xcore.channel import chan_in_word, chan_out_word
from aisrv.xcore.core import Core, Resource
from aisrv.xcore.tokens import Control, Run
from aisrv.xcore.trace import TracedEnd, Tracer
from aisrv.xcore.traps import Trap
from tests.support.simulation import bench, settle, simulated


class _Log(Tracer):
    """Every hook as a tuple of its name and what it was told."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def core_started(self, core: Core) -> None:
        self.lines.append(("started", core.name))

    def core_ended(self, core: Core) -> None:
        self.lines.append(("ended", core.name))

    def core_trapped(self, core: Core, trap: Trap) -> None:
        self.lines.append(("trapped", core.name, trap.kind))

    def parked(self, core: Core, verb: str, resource: Resource) -> None:
        self.lines.append(("parked", core.name, verb, resource.name))

    def woken(self, core: Core) -> None:
        self.lines.append(("woken", core.name))

    def output(self, end: TracedEnd, run: Run) -> None:
        self.lines.append(("output", end.resource_id, run))

    def input(self, end: TracedEnd, run: Run) -> None:
        self.lines.append(("input", end.resource_id, run))

    def route_opened(self, source: TracedEnd, destination: TracedEnd) -> None:
        self.lines.append(("opened", source.resource_id, destination.resource_id))

    def route_closed(self, source: TracedEnd, destination: TracedEnd) -> None:
        self.lines.append(("closed", source.resource_id, destination.resource_id))


A, B = 0x80000002, 0x80010002


@simulated
async def test_every_step_of_a_word_and_its_end_is_reported_in_order() -> None:
    async with bench() as test:
        log = _Log()
        with test.node.tracing(log):

            async def sink() -> None:
                await test.b.inuint()
                await test.b.chkct(Control.END)

            test.node.tiles[1].start(sink)
            await settle()
            await test.a.outuint(0x01020304)
            await settle()
            await test.a.outct(Control.END)
            await settle()
    assert log.lines == [
        ("started", "sink"),
        ("parked", "sink", "inuint", "chanend 0x80010002"),
        ("opened", A, B),
        ("output", A, b"\x01\x02\x03\x04"),
        ("input", B, b"\x01\x02\x03\x04"),
        ("woken", "sink"),
        ("parked", "sink", "chkct", "chanend 0x80010002"),
        ("output", A, 1),
        ("closed", A, B),
        ("input", B, 1),
        ("woken", "sink"),
        ("ended", "sink"),
    ]


@simulated
async def test_no_token_is_input_before_it_is_output() -> None:
    async with bench() as test:
        log = _Log()
        with test.node.tracing(log):
            for word in range(3):
                received = test.start(test.b.inuint)
                await settle()
                await test.a.outuint(word)  # from the second on over an open route, with a waiting receiver
                await settle()
                assert received.value() == word
    moves = [
        (line[0], int.from_bytes(line[2], "big")) for line in log.lines if line[0] in ("output", "input")
    ]
    assert moves == [(kind, word) for word in range(3) for kind in ("output", "input")]


@simulated
async def test_a_normal_channel_word_wakes_each_core_once() -> None:
    async with bench() as test:
        log = _Log()
        with test.node.tracing(log):
            test.node.tiles[0].start(chan_out_word, test.a, 5)
            await settle()
            test.node.tiles[1].start(chan_in_word, test.b)
            await settle()
    assert [line for line in log.lines if line[0] in ("parked", "woken")] == [
        ("parked", "chan_out_word", "chan_out_word", "chanend 0x80000002"),
        ("woken", "chan_out_word"),
    ]


@simulated
async def test_a_block_read_in_pieces_is_reported_as_it_is_taken() -> None:
    async with bench() as test:
        log = _Log()
        with test.node.tracing(log):
            await test.a.outbytes(b"abcdefgh")
            await test.b.inbytes(3)
            await test.b.inbytes(5)
    assert [line[2] for line in log.lines if line[0] == "input"] == [b"abc", b"defgh"]


@simulated
async def test_tracing_ends_with_its_block_and_gives_back_the_tracer_before() -> None:
    async with bench() as (node, a, b, _tasks):
        outer, inner = _Log(), _Log()
        with node.tracing(outer):
            with node.tracing(inner):
                await a.outuchar(1)
            await b.inuchar()
        await a.outct(Control.END)
        await b.chkct(Control.END)
    assert inner.lines == [("opened", A, B), ("output", A, b"\x01")]
    assert outer.lines == [("input", B, b"\x01")]
