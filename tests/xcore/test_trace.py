"""The tracer: which hooks are called, in which order, and that none are without one."""

from typing import Any

import pytest
import trio

from aisrv.protocol.commands import Command, Status, command_name
from aisrv.protocol.engine_channel import answer_get, get_command, receive_command
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.core import Core, Resource, current_core
from aisrv.xcore.node import open_node
from aisrv.xcore.select import Selection, select
from aisrv.xcore.tokens import Control, Run
from aisrv.xcore.trace import TracedEnd, TracedNode, Tracer
from aisrv.xcore.traced import traced_command
from aisrv.xcore.traps import Trap
from tests.support.benches.simulation import bench, settle, simulated


class _Log(Tracer):
    """Every hook as a tuple of its name and what it was told."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def core_started(self, core: Core, tick: int) -> None:
        self.lines.append(("started", core.name))

    def core_ended(self, core: Core, tick: int) -> None:
        self.lines.append(("ended", core.name))

    def core_trapped(self, core: Core, trap: Trap, tick: int) -> None:
        self.lines.append(("trapped", core.name, trap.kind))

    def waits(self, core: Core, verb: str, resource: Resource, tick: int) -> None:
        self.lines.append(("waits", core.name, verb, resource.name))

    def woken(self, core: Core, tick: int) -> None:
        self.lines.append(("woken", core.name))

    def output(self, end: TracedEnd, run: Run, tick: int) -> None:
        self.lines.append(("output", end.resource_id, run))

    def input(self, end: TracedEnd, run: Run, tick: int) -> None:
        self.lines.append(("input", end.resource_id, run))

    def route_opened(self, source: TracedEnd, destination: TracedEnd, tick: int) -> None:
        self.lines.append(("opened", source.resource_id, destination.resource_id))

    def route_closed(self, source: TracedEnd, destination: TracedEnd, tick: int) -> None:
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
        ("waits", "sink", "inuint", "chanend 0x80010002"),
        ("opened", A, B),
        ("output", A, b"\x01\x02\x03\x04"),
        ("input", B, b"\x01\x02\x03\x04"),
        ("woken", "sink"),
        ("waits", "sink", "chkct", "chanend 0x80010002"),
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
    assert [line for line in log.lines if line[0] in ("waits", "woken")] == [
        ("waits", "chan_out_word", "chan_out_word", "chanend 0x80000002"),
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
async def test_each_tracer_of_a_node_hears_all_within_its_block() -> None:
    async with bench() as (node, a, b, _tasks):
        outer, inner = _Log(), _Log()
        with node.tracing(outer):
            with node.tracing(inner):
                await a.outuchar(1)
            await b.inuchar()
        await a.outct(Control.END)
        await b.chkct(Control.END)
    assert inner.lines == [("opened", A, B), ("output", A, b"\x01")]
    assert outer.lines == [("opened", A, B), ("output", A, b"\x01"), ("input", B, b"\x01")]


class _Times(Tracer):
    """The hooks of verbs, waits and commands, each with its tick; what a tracer is told as it begins."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def tracing_began(self, node: TracedNode, tick: int) -> None:
        self.lines.append((tick, "tracing", node.name, [core.name for core in node.cores]))

    def tracing_ended(self, node: TracedNode, tick: int) -> None:
        self.lines.append((tick, "ended", node.name))

    def verb_began(self, core: Core | None, verb: str, resource: Resource, tick: int) -> None:
        self.lines.append((tick, "began", core and core.name, verb, resource.name))

    def verb_ended(self, core: Core | None, verb: str, resource: Resource, tick: int) -> None:
        self.lines.append((tick, "done", core and core.name, verb, resource.name))

    def waits(self, core: Core, verb: str, resource: Resource, tick: int) -> None:
        self.lines.append((tick, "waits", core.name, verb, resource.name))

    def woken(self, core: Core, tick: int) -> None:
        waker = current_core()
        self.lines.append((tick, "woken", core.name, waker and waker.name))

    def withdrawn(self, end: TracedEnd, count: int, tick: int) -> None:
        self.lines.append((tick, "withdrawn", end.name, count))

    def command_began(self, core: Core | None, command: str, end: TracedEnd, tick: int) -> None:
        self.lines.append((tick, "command", core and core.name, command, end.name))

    def command_ended(self, core: Core | None, command: str, end: TracedEnd, tick: int) -> None:
        self.lines.append((tick, "answered", core and core.name, command, end.name))


@simulated
async def test_a_timer_is_a_verb_that_waits() -> None:
    times = _Times()
    async with open_node(name="N") as node:
        timer = node.tiles[0].allocate_timer()

        async def sleep() -> None:
            await timer.wait_after(timer.now() + 99)

        node.tiles[0].start(sleep)
        with node.tracing(times):
            await trio.sleep(1)
    name = "timer 0x80000001"
    assert times.lines == [
        (0, "tracing", "N", ["sleep"]),
        (0, "began", "sleep", "in", name),
        (0, "waits", "sleep", "in", name),
        (100, "woken", "sleep", "sleep"),
        (100, "done", "sleep", "in", name),
        (100_000_000, "ended", "N"),
    ]


@simulated
async def test_a_timed_select_is_a_wait_that_another_core_ends() -> None:
    times = _Times()
    async with open_node() as node:
        a, b = node.channel(node.tiles[0], node.tiles[1])
        timers = [tile.allocate_timer() for tile in node.tiles]

        async def chooser() -> None:
            await select(b, timers[1].after(timers[1].now() + 1000))

        async def sender() -> None:
            await timers[0].wait_after(timers[0].now() + 9)
            await a.outuchar(1)

        node.tiles[1].start(chooser)
        node.tiles[0].start(sender)
        with node.tracing(times):
            await trio.sleep(1)
        await b.inuchar()
    what = "chanend 0x80010002 or timer 0x80010001"
    assert [line for line in times.lines if line[2] == "chooser"] == [
        (0, "began", "chooser", "select", what),
        (0, "waits", "chooser", "select", what),
        (10, "woken", "chooser", "sender"),
        (10, "done", "chooser", "select", what),
    ]


@simulated
async def test_the_end_of_lock_acquire_is_its_grant() -> None:
    times = _Times()
    async with open_node() as node:
        tile = node.tiles[0]
        lock, timer = tile.allocate_lock(), tile.allocate_timer()

        async def holder() -> None:
            await lock.acquire()
            await timer.wait_after(timer.now() + 49)
            lock.release()

        async def waiter() -> None:
            await lock.acquire()

        tile.start(holder)
        await settle()
        with node.tracing(times):
            tile.start(waiter)
            await trio.sleep(1)
    name = "lock 0x80000005"
    assert [line for line in times.lines if line[2] == "waiter"] == [
        (0, "began", "waiter", "lock_acquire", name),
        (0, "waits", "waiter", "lock_acquire", name),
        (50, "woken", "waiter", "holder"),
        (50, "done", "waiter", "lock_acquire", name),
    ]


@simulated
async def test_a_verb_that_traps_ends() -> None:
    times = _Times()
    async with bench() as (node, a, b, _tasks):
        await a.outct(Control.END)
        with node.tracing(times), pytest.raises(Trap):
            await b.inuint()
    assert times.lines[1:3] == [
        (0, "began", None, "inuint", "chanend 0x80010002"),
        (0, "done", None, "inuint", "chanend 0x80010002"),
    ]


@simulated
async def test_tokens_that_a_cancellation_takes_back_are_withdrawn() -> None:
    times = _Times()
    async with bench() as test:
        with test.node.tracing(times):
            sent = test.start(test.a.outbytes, bytes(20))
            await settle()
            await sent.cancel()
    assert [line[1:] for line in times.lines if line[1] == "withdrawn"] == [("withdrawn", test.a.name, 12)]


@simulated
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_command_is_reported_at_once_or_not(at_once: bool) -> None:
    times = _Times()
    async with bench() as (node, a, b, _tasks):

        async def engine() -> None:
            selection = Selection(b, on_call=lambda _: (0, b"abcd") if at_once else None)
            await selection.wait()
            command, _ = await receive_command(b)
            with traced_command(command_name(command), b, node.runtime):
                await answer_get(b, b"abcd")

        async def client(c: ChanEnd) -> None:
            assert await get_command(c, Command.GET_ID) == (Status.OKAY, b"abcd")

        serving = node.tiles[1].start(engine)
        await settle()
        with node.tracing(times):
            node.tiles[0].start(client, a)
            await settle()
        assert serving.has_ended is not at_once
        node.stop()
    who = "client" if at_once else "engine"
    assert [line[1:] for line in times.lines if line[1] in ("command", "answered")] == [
        ("command", who, "GET_ID", b.name),
        ("answered", who, "GET_ID", b.name),
    ]
