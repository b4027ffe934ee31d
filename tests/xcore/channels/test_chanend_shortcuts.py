"""The invariant of the shortcuts: with them and without, the same results, and both ends left the same.

The same random program runs as it is, with a tracer, and with every shortcut refusing, so that all tokens
cross: then a tracer is told the same of each end. The two sides need not match: all runs must trap and wait
alike.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.protocol.commands import Status
from aisrv.protocol.engine_channel import (
    answer_get,
    answer_set,
    begin_get,
    get_command,
    receive_command,
    receive_set,
    refuse_get,
    set_command,
)
from aisrv.xcore.channels import array, channel
from aisrv.xcore.channels.array import ArrayAbandoned, receive_array, send_array
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import (
    chan_in_buf_byte,
    chan_in_word,
    chan_out_buf_byte,
    chan_out_two_words,
    chan_out_word,
)
from aisrv.xcore.channels.tokenbuffer import TokenBuffer
from aisrv.xcore.channels.verb import Steps
from aisrv.xcore.traps import Trap
from tests.support.amounts import amount, in_ci
from tests.support.benches.simulation import Bench, EndTrace, bench, settle, simulated

data = st.binary(max_size=10)
sends = st.one_of(
    st.tuples(st.just("word"), st.integers(0, 0xFFFFFFFF)),
    st.tuples(st.sampled_from(("buffer", "bytes", "array")), data),
    st.tuples(st.just("control"), st.sampled_from((1, 2, 3, 5))),
    st.tuples(st.sampled_from(("get", "begin get", "set", "two words")), data),
    st.tuples(st.just("refused get"), st.just(b"")),
)
STEP_SECONDS = 10
patience = st.one_of(st.none(), st.integers(0, 3))


@dataclass(frozen=True)
class Step:
    """What one side sends and the other receives, when each begins, and when each gives up."""

    a_sends: bool
    kind: str
    what: Any
    begins: tuple[int, int]
    mismatch: int
    gives_up: tuple[int | None, int | None]


def programs(mismatch: st.SearchStrategy[int], gives_up: st.SearchStrategy[int | None]) -> Any:
    waits = st.tuples(st.integers(0, 2), st.integers(0, 2))
    step = st.builds(
        lambda a_sends, send, *rest: Step(a_sends, *send, *rest),
        st.booleans(),
        sends,
        waits,
        mismatch,
        st.tuples(gives_up, gives_up),
    )
    return st.lists(step, max_size=8)


def _nothing_crosses_at_once(*_: object) -> Steps[None]:
    return
    yield


@contextmanager
def no_shortcuts() -> Iterator[None]:
    with (
        patch.object(TokenBuffer, "take_run", lambda *_: b""),
        patch.object(ChanEnd, "_output_packet_at_once", lambda *_: False),
        patch.object(channel, "deliver_directly", lambda *_: False),
        patch.object(channel, "await_direct", _nothing_crosses_at_once),
        patch.object(channel, "publish", _nothing_crosses_at_once),
        patch.object(channel, "take_published", lambda *_: b""),
        patch.object(array, "deliver_directly", lambda *_: False),
        patch.object(array, "await_direct", _nothing_crosses_at_once),
    ):
        yield


async def _send(end: ChanEnd, kind: str, what: Any) -> object:
    match kind:
        case "word":
            await chan_out_word(end, what)
        case "buffer":
            await chan_out_buf_byte(end, what)
        case "bytes":
            await end.outbytes(what)
        case "array":
            await send_array(end, what)
        case "two words":
            await chan_out_two_words(end, len(what), 7)
        case "get" | "refused get":
            return await get_command(end, 0x08, len(what))
        case "begin get":
            return await begin_get(end, 0x08, len(what), 8)
        case "set":
            return await set_command(end, 0x88, 0, what)
        case _:
            await end.outct(what)
    return "sent"


async def _receive(end: ChanEnd, kind: str, what: Any, mismatch: int) -> Any:
    """Receive what the other side sends; with a mismatch another size of it, or by bare inputs."""
    if mismatch == 1 and kind in ("word", "buffer"):
        return await end.inbytes(4)
    match kind:
        case "word":
            return await (chan_in_buf_byte(end, 3) if mismatch else chan_in_word(end))
        case "buffer":
            return await chan_in_buf_byte(end, len(what) + bool(mismatch))
        case "bytes":
            return await end.inbytes(len(what))
        case "array":
            return await receive_array(end, 100)
        case "two words" | "get" | "begin get" | "refused get" | "set":
            return await _serve(end, kind, what, mismatch)
        case _:
            return what == 2 or await end.inct()


async def _serve(end: ChanEnd, kind: str, what: bytes, mismatch: int) -> Any:
    """Be the engine; with a mismatch by words one at a time, or with bare inputs between them."""
    if mismatch == 2:
        return await end.inct()
    if mismatch == 1:
        request = (await chan_in_word(end), await chan_in_word(end))
    else:
        request = await receive_command(end)
    match kind:
        case "refused get":
            await refuse_get(end, Status.ERROR_BAD_CMD)
        case "get" | "begin get" if mismatch:
            await chan_out_word(end, Status.OKAY)
            await send_array(end, what)
        case "get" | "begin get":
            await answer_get(end, what)
        case "set":
            kept = await receive_set(end, 8)
            await answer_set(end, Status.OKAY)
            return request, kept
    return request


async def _side(end: ChanEnd, number: int, program: list[Step], seen: list[Any]) -> None:
    for index, step in enumerate(program):
        begin = index * STEP_SECONDS + step.begins[number]
        await trio.sleep_until(max(trio.current_time(), begin))
        patience = step.gives_up[number]
        # Half a second apart from all else, so that nothing happens at the same time.
        with trio.CancelScope() as scope:
            scope.deadline = math.inf if patience is None else begin + patience + 0.5
            try:
                if step.a_sends is (number == 0):
                    seen.append(await _send(end, step.kind, step.what))
                else:
                    seen.append(await _receive(end, step.kind, step.what, step.mismatch))
            except (Trap, ArrayAbandoned, ValueError) as error:
                seen.append(str(error))
                return
        if scope.cancelled_caught:
            seen.append("gave up")


def _run(program: list[Step], trace: EndTrace | None = None) -> list[Any]:
    observed: list[Any] = []

    @simulated
    async def run() -> None:
        async with bench() as test:
            test.node.runtime.tracer = trace
            observed.extend(await _observe(test, program))

    run()
    return observed


async def _observe(test: Bench, program: list[Step]) -> list[Any]:
    seen: tuple[list[Any], list[Any]] = ([], [])
    for end, number in ((test.a, 0), (test.b, 1)):
        test.start(_side, end, number, program, seen[number])
    await trio.sleep(20 * STEP_SECONDS)
    await settle()
    return [*seen, test.a.statistics(), test.b.statistics()]


def _assert_same_without_shortcuts(program: list[Step]) -> None:
    with_them, without = EndTrace(), EndTrace()
    observed = _run(program)
    assert _run(program, with_them) == observed
    with no_shortcuts():
        assert _run(program, without) == observed
    assert with_them.hooks == without.hooks


@pytest.mark.in_full
@settings(derandomize=True, deadline=None, max_examples=amount(300, every_day=in_ci(100, every_day=40)))
@given(program=programs(st.just(0), st.none()))
def test_shortcuts_leave_what_tokens_would_have_left(program: list[Step]) -> None:
    _assert_same_without_shortcuts(program)


@pytest.mark.in_full
@settings(derandomize=True, deadline=None, max_examples=amount(300, every_day=in_ci(100, every_day=40)))
@given(program=programs(st.integers(0, 2), st.none()))
def test_shortcuts_change_nothing_where_the_two_sides_do_not_match(program: list[Step]) -> None:
    _assert_same_without_shortcuts(program)


@pytest.mark.in_full
@settings(derandomize=True, deadline=None, max_examples=amount(500, every_day=in_ci(150, every_day=60)))
@given(program=programs(st.integers(0, 2), patience))
def test_shortcuts_change_nothing_where_a_side_gives_up(program: list[Step]) -> None:
    _assert_same_without_shortcuts(program)
