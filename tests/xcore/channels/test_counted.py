"""Tokens that ends output, counted by their class; a tracer, which is told of each run, is the truth."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from aisrv import digits
from aisrv.board import Board
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import get_command, set_command, set_large
from aisrv.xcore.channels.array import receive_array, receive_word, send_word_and_array
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.channels.counted import Tokens, counting
from aisrv.xcore.node import open_node
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.timed.classes import TIMED
from aisrv.xcore.tokens import Control, Run
from aisrv.xcore.trace import TracedEnd, Tracer
from aisrv.xcore.traps import Trap
from tests.support.amounts import in_ci


class Traced(Tracer):
    """Counts what a tracer is told."""

    def __init__(self) -> None:
        self.tokens: Tokens = Counter()

    def output(self, end: TracedEnd, run: Run, *_: object) -> None:
        """Count a run, or the control token that it is."""
        self.tokens[end.resource_id] += 1 if isinstance(run, int) else len(run)


@pytest.mark.parametrize("classes", [PLAIN, TIMED])
async def test_tokens_are_counted_where_they_leave(classes: ResourceClasses) -> None:
    tokens: Tokens = Counter()
    async with open_node(classes=classes) as node:
        a, b = node.channel(*node.tiles)
        await a.outuint(1)
        assert await b.inuint() == 1
        with counting((a, b), tokens):
            await a.outuint(2)
            await a.outct(Control.END)
            assert await b.inuint() == 2
            await b.chkct(Control.END)
        await b.outuint(3)
        assert await a.inuint() == 3
    assert tokens == {a.resource_id: 5}


@pytest.mark.parametrize("classes", [PLAIN, TIMED])
async def test_an_end_has_its_class_again(classes: ResourceClasses) -> None:
    async with open_node(classes=classes) as node:
        ends = node.channel(*node.tiles)
        with counting(ends, Counter()):
            assert classes.chanend not in {type(end) for end in ends}
            with counting(ends[:1], Counter()):
                pass
            assert len({type(end) for end in ends}) == 1
        assert {type(end) for end in ends} == {classes.chanend}


# What two sides do with a size: a normal word, a word and an array, bare tokens.


async def send_word(c: ChanEnd, size: int) -> None:
    await chan_out_word(c, size)


async def take_word(c: ChanEnd, size: int) -> None:
    assert await chan_in_word(c) == size


async def send_both(c: ChanEnd, size: int) -> None:
    await send_word_and_array(c, 0, bytes(size))


async def take_both(c: ChanEnd, size: int) -> None:
    _, array = await receive_word(c, size % 7 * 8)
    assert len(array if array is not None else (await receive_array(c, 100)).data) == size


async def send_tokens(c: ChanEnd, size: int) -> None:
    await c.outbytes(bytes(size))
    await c.outct(Control.END)


async def take_tokens(c: ChanEnd, size: int) -> None:
    await c.inbytes(size)
    await c.chkct(Control.END)


Side = Callable[[ChanEnd, int], Awaitable[None]]
EXCHANGES: dict[str, tuple[Side, Side]] = {
    "word": (send_word, take_word),
    "both": (send_both, take_both),
    "tokens": (send_tokens, take_tokens),
}


async def test_a_verb_that_waits_meanwhile_goes_on() -> None:
    tokens: Tokens = Counter()
    async with open_node() as node, trio.open_nursery() as nursery:
        a, b = node.channel(*node.tiles)
        nursery.start_soon(send_word, a, 7)
        await wait_all_tasks_blocked()
        with counting((a, b), tokens):
            await take_word(b, 7)
    assert tokens == {a.resource_id: 5, b.resource_id: 2}  # the first END was output before


async def test_an_end_without_a_destination_traps_as_ever() -> None:
    tokens: Tokens = Counter()

    async def take(c: ChanEnd) -> None:
        with pytest.raises(Trap, match="no destination"):
            await chan_in_word(c)

    async with open_node() as node, trio.open_nursery() as nursery:
        a, b = node.tiles[0].allocate_chanend(), node.tiles[1].allocate_chanend()
        a.setd(b)
        with counting((a, b), tokens):
            nursery.start_soon(take, b)
            await wait_all_tasks_blocked()
            await a.outct(Control.END)
    assert tokens == {a.resource_id: 1}


STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(EXCHANGES)), st.booleans(), st.booleans(), st.integers(0, 40)),
    max_size=8,
)


@given(STEPS)
@settings(max_examples=in_ci(60, every_day=20))
def test_all_that_crosses_is_counted_as_a_tracer_is_told(steps: list[tuple[str, bool, bool, int]]) -> None:
    async def run() -> None:
        tokens, tracer = Counter[int](), Traced()
        async with open_node() as node:
            ends = node.channel(*node.tiles)
            with counting(ends, tokens), node.tracing(tracer):
                for name, turned, receives_first, size in steps:
                    send, take = EXCHANGES[name]
                    a, b = ends[::-1] if turned else ends
                    sides = [(send, a), (take, b)]
                    async with trio.open_nursery() as nursery:
                        for side, end in sides[::-1] if receives_first else sides:
                            nursery.start_soon(side, end, size)
                            await wait_all_tasks_blocked()
        assert tokens == tracer.tokens

    trio.run(run)


@asynccontextmanager
async def counted(board: Board, tokens: Tokens, tracer: Tracer) -> AsyncIterator[Device]:
    async with open_device(board, runner=inline) as device:
        with ExitStack() as stack:
            ends = [end for channel in device.channels for end in (channel.a, channel.b)]
            assert {type(end) for end in ends} == {ChanEnd}
            stack.enter_context(counting(ends, tokens))
            stack.enter_context(device.node.tracing(tracer))
            yield device


@pytest.mark.plain_time("it counts with the plain channel ends")
async def test_commands_of_a_device_are_counted_as_a_tracer_is_told() -> None:
    tokens, tracer = Counter[int](), Traced()
    image = digits.test_images()[0].image
    async with counted(Board(), tokens, tracer) as device:
        c = device.local[0]
        for _ in range(3):
            assert not await set_large(c, Command.SET_MODEL_ARENA, 0, digits.model_bytes())
            assert not await set_large(c, Command.SET_INPUT_TENSOR, 0, image)
            assert not await set_command(c, Command.START_INFER)
            for command in (Command.GET_ID, Command.GET_STATUS, Command.GET_OUTPUT_TENSOR, Command.GET_SPEC):
                await get_command(c, command)
        assert tokens == tracer.tokens
        assert tokens[c.resource_id] > 3 * len(digits.model_bytes())
