"""The invariant of the shortcuts: with them and without, the same results, and both ends left the same.

The same random program runs twice: as it is, and with every shortcut refusing, so that all tokens cross.
The two sides need not match: then both runs must trap and wait alike.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.xcore.array import ArrayAbandoned, receive_array, send_array
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.channel import chan_in_buf_byte, chan_in_word, chan_out_buf_byte, chan_out_word
from aisrv.xcore.traps import Trap
from aisrv.xcore.verb import Steps
from tests.support.simulation import Bench, bench, settle, simulated

data = st.binary(max_size=10)
sends = st.one_of(
    st.tuples(st.just("word"), st.integers(0, 0xFFFFFFFF)),
    st.tuples(st.sampled_from(("buffer", "bytes", "array")), data),
    st.tuples(st.just("control"), st.sampled_from((1, 2, 3, 5))),
)
steps = st.lists(
    st.tuples(st.booleans(), sends, st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)), max_size=8
)
Step = tuple[bool, tuple[str, Any], int, int, int]


def _no_offer(_end: ChanEnd, _data: bytes) -> Steps[bool]:
    return False
    yield


def _nothing_handed(_end: ChanEnd, _count: int) -> Steps[bytes]:
    return b""
    yield


@contextmanager
def no_shortcuts() -> Iterator[None]:
    with (
        patch.object(ChanEnd, "_output_at_once", lambda *_: False),
        patch.object(ChanEnd, "_input_at_once", lambda *_: b""),
        patch.object(ChanEnd, "_output_packet_at_once", lambda *_: False),
        patch.object(ChanEnd, "hand_over", lambda *_: False),
        patch.object(ChanEnd, "take_offer", lambda *_: b""),
        patch.object(ChanEnd, "offer", _no_offer),
        patch.object(ChanEnd, "take_handed", _nothing_handed),
    ):
        yield


async def _send(end: ChanEnd, kind: str, what: Any) -> None:
    match kind:
        case "word":
            await chan_out_word(end, what)
        case "buffer":
            await chan_out_buf_byte(end, what)
        case "bytes":
            await end.outbytes(what)
        case "array":
            await send_array(end, what)
        case _:
            await end.outct(what)


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
        case _:
            return what == 2 or await end.inct()


async def _side(end: ChanEnd, is_a: bool, program: list[Step], seen: list[Any]) -> None:
    for a_sends, (kind, what), wait_of_a, wait_of_b, mismatch in program:
        await trio.sleep(wait_of_a if is_a else wait_of_b)
        try:
            if a_sends is is_a:
                await _send(end, kind, what)
                seen.append("sent")
            else:
                seen.append(await _receive(end, kind, what, mismatch))
        except (Trap, ArrayAbandoned) as error:
            seen.append(str(error))
            return


def _run(program: list[Step]) -> list[Any]:
    observed: list[Any] = []

    @simulated
    async def run() -> None:
        async with bench() as test:
            observed.extend(await _observe(test, program))

    run()
    return observed


async def _observe(test: Bench, program: list[Step]) -> list[Any]:
    seen: tuple[list[Any], list[Any]] = ([], [])
    for end, is_a in ((test.a, True), (test.b, False)):
        test.start(_side, end, is_a, program, seen[not is_a])
    await trio.sleep(100)
    await settle()
    return [*seen, test.a.statistics(), test.b.statistics()]


@settings(derandomize=True, deadline=None, max_examples=300)
@given(program=steps)
def test_shortcuts_leave_what_tokens_would_have_left(program: list[Step]) -> None:
    with_them = _run([(*step[:4], 0) for step in program])
    with no_shortcuts():
        assert _run([(*step[:4], 0) for step in program]) == with_them


@settings(derandomize=True, deadline=None, max_examples=300)
@given(program=steps)
def test_shortcuts_change_nothing_where_the_two_sides_do_not_match(program: list[Step]) -> None:
    with_them = _run(program)
    with no_shortcuts():
        assert _run(program) == with_them
