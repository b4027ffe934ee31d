"""Runs and single tokens are the same stream: random programs, against each other and against a model.

The model is eight places and a list of single tokens, and shares nothing with the code under test.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.tokens import Control, Run
from aisrv.xcore.traps import Trap
from tests.support.simulation import (
    Bench,
    Token,
    bench,
    drain,
    receive_singly,
    send_singly,
    settle,
    simulated,
)
from tests.support.simulation import tokens as singly

BUFFER = 8

data_runs = st.binary(min_size=1, max_size=30)
control_runs = st.sampled_from([0, 1, 3, 4, 5, 191])
streams = st.lists(data_runs | control_runs, max_size=12)
reads = st.sampled_from(
    [
        *(("inbytes", [count]) for count in (1, 2, 3, 5, 8, 9, 17, 40)),
        *(("inwords", [count]) for count in (1, 3)),
        ("chkct", [Control.END]),
        *((verb, []) for verb in ("inuchar", "inuint", "inct", "testct", "testwct")),
    ]
)
quick = settings(derandomize=True, deadline=None, max_examples=150)


async def _send_runs(end: ChanEnd, stream: list[Run]) -> None:
    for run in stream:
        await (end.outct(run) if isinstance(run, int) else end.outbytes(run))


async def _send_words_where_possible(end: ChanEnd, stream: list[Run]) -> None:
    for run in stream:
        if isinstance(run, int):
            await end.outct(run)
            continue
        for at in range(0, len(run), 4):
            piece = run[at : at + 4]
            await (end.outuint(int.from_bytes(piece, "big")) if len(piece) == 4 else end.outbytes(piece))


SENDERS = {
    "in runs": _send_runs,
    "in words": _send_words_where_possible,
    "singly": lambda end, stream: send_singly(end, singly(*stream)),
}


async def _read(end: ChanEnd, verb: str, arguments: list[int]) -> Any:
    """One input verb; a trap is a result like others."""
    try:
        return verb, await getattr(end, verb)(*arguments)
    except Trap as trap:
        return verb, trap.kind


@quick
@given(stream=streams, program=st.lists(reads, min_size=1, max_size=20))
def test_a_receiver_cannot_tell_how_the_stream_was_sent(
    stream: list[Run], program: list[tuple[str, list[int]]]
) -> None:
    """The same inputs give the same results and kinds of trap, and leave the same tokens."""

    async def observe(test: Bench, sender: str) -> list[Any]:
        observed: list[Any] = []

        async def receive() -> None:
            for verb, arguments in program:
                observed.append(await _read(test.b, verb, arguments))

        receiver = test.start(receive)
        test.start(SENDERS[sender], test.a, stream)
        await settle()
        if not receiver.done:
            receiver.scope.cancel()
            await settle()
        return [*observed, await drain_all(test)]

    async def drain_all(test: Bench) -> list[Token]:
        """Everything left; the sender goes on as room is made."""
        left: list[Token] = []
        while test.b.ready:
            left += await drain(test.b)
            await settle()
        return left

    observed: list[list[Any]] = []
    for sender in SENDERS:

        @simulated
        async def program_of(sender: str = sender) -> None:
            async with bench() as test:
                observed.append(await observe(test, sender))

        program_of()
    assert observed[0] == observed[1] == observed[2]


@quick
@given(
    data=st.binary(max_size=200),
    cuts=st.lists(st.integers(1, 50), max_size=20),
    sizes=st.lists(st.integers(1, 50), max_size=20),
)
def test_differently_sized_reads_give_the_same_stream(data: bytes, cuts: list[int], sizes: list[int]) -> None:
    @simulated
    async def program() -> None:
        async with bench() as test:
            test.start(_send_runs, test.a, [*_pieces(data, cuts), 1])
            received = b""
            for size in sizes:
                received += await test.b.inbytes(min(size, len(data) - len(received)))
            received += await test.b.inbytes(len(data) - len(received))
            assert received == data
            await test.b.chkct(Control.END)

    program()


def _pieces(data: bytes, cuts: list[int]) -> list[Run]:
    pieces: list[Run] = []
    for cut in [*cuts, len(data)]:
        if data[:cut]:
            pieces.append(data[:cut])
        data = data[cut:]
    return pieces


# Step by step against a model of single tokens.


@dataclass
class _Model:
    """A sender and a receiver of single tokens with eight places between them."""

    sent: list[Token]  # of outputs begun, in order
    taken: int = 0

    @property
    def output_returned(self) -> bool:
        """An output returns once at most eight of its tokens are undelivered."""
        return len(self.sent) - self.taken <= BUFFER

    def read(self, size: int) -> list[Token] | None:
        """Take that many tokens, if so many were sent."""
        if len(self.sent) - self.taken < size:
            return None
        self.taken += size
        return self.sent[self.taken - size : self.taken]


steps = st.lists(
    st.tuples(st.just("output"), data_runs | control_runs) | st.tuples(st.just("input"), st.integers(1, 12)),
    max_size=30,
)


@quick
@given(program=steps)
def test_outputs_and_inputs_return_exactly_when_those_of_single_tokens_do(
    program: list[tuple[str, Any]],
) -> None:
    @simulated
    async def run() -> None:
        async with bench() as test:
            model = _Model([])
            output = None
            for step, argument in program:
                if step == "output" and (output is None or output.done):
                    output = test.start(_send_runs, test.a, [argument])
                    model.sent += singly(argument)
                elif step == "input" and (expected := model.read(argument)) is not None:
                    assert await receive_singly(test.b, argument) == expected
                await settle()
                assert (output is None or output.done) == model.output_returned
                assert test.b.ready == (model.taken < len(model.sent))

    run()


# Several sources.

packets = st.lists(
    st.tuples(st.lists(data_runs | st.sampled_from([0, 3, 5]), max_size=3), st.sampled_from([1, 2]))
)


@quick
@given(programs=st.lists(packets, min_size=1, max_size=4), chunk=st.integers(1, 20), in_runs=st.booleans())
def test_several_sources_to_one_end_send_whole_packets_in_their_order(
    programs: list[list[tuple[list[Run], int]]], chunk: int, in_runs: bool
) -> None:
    """Packets do not mix, none is lost, and none beyond eight tokens is taken before it can be delivered."""

    @simulated
    async def run() -> None:
        async with bench() as test:
            returned = [0]  # tokens of output calls that have returned
            received: list[Token] = []

            async def source(number: int, program: list[tuple[list[Run], int]]) -> None:
                end = test.end(test.b)
                for runs, closing in program:
                    packet: list[Run] = [bytes((number,)), *runs]
                    for run in packet if in_runs else [_run(token) for token in singly(*packet)]:
                        await _send_runs(end, [run])
                        returned[0] += len(singly(run))
                    await end.outct(closing)
                    returned[0] += closing == Control.END

            sources = [test.start(source, n, program) for n, program in enumerate(programs)]
            await settle()
            while test.b.ready:
                assert returned[0] - len(received) <= BUFFER
                for _ in range(chunk):
                    if test.b.ready:
                        received += await receive_singly(test.b, 1)
                await settle()
            assert all(source.done for source in sources)
            assert returned[0] == len(received)
            left = [
                [singly(bytes((n,)), *runs, *([1] if closing == 1 else [])) for runs, closing in program]
                for n, program in enumerate(programs)
            ]
            at = 0
            while at < len(received):
                packet = left[received[at].value].pop(0)
                assert received[at : at + len(packet)] == packet
                at += len(packet)
            assert not any(left)

    run()


def _run(token: Token) -> Run:
    return token.value if token.control else bytes((token.value,))


# Both directions at once.


@quick
@given(there=streams, back=streams)
def test_the_two_directions_of_a_channel_do_not_disturb_each_other(there: list[Run], back: list[Run]) -> None:
    @simulated
    async def run() -> None:
        async with bench() as test:

            async def side(end: ChanEnd, mine: list[Run], other: list[Run]) -> list[Token]:
                received = []
                for sent, expected in zip(_padded(mine, other), _padded(other, mine), strict=True):
                    if sent is not None and len(singly(sent)) <= BUFFER:
                        await _send_runs(end, [sent])
                    if expected is not None and len(singly(expected)) <= BUFFER:
                        received += await receive_singly(end, len(singly(expected)))
                return received

            one, two = test.start(side, test.a, there, back), test.start(side, test.b, back, there)
            await settle()
            assert one.value() == singly(*(run for run in back if len(singly(run)) <= BUFFER))
            assert two.value() == singly(*(run for run in there if len(singly(run)) <= BUFFER))

    run()


def _padded(mine: list[Run], other: list[Run]) -> list[Run | None]:
    return [*mine, *[None] * (len(other) - len(mine))]
