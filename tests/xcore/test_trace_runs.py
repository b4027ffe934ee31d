"""A traced run is the run: the shortcuts stay on, and report what the tokens would have."""

from collections.abc import Callable
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
import trio
import trio.testing

from aisrv.protocol.commands import Status
from aisrv.protocol.engine_channel import (
    answer_get,
    answer_set,
    begin_get,
    receive_command,
    receive_set,
    set_command,
)
from aisrv.xcore.channels.array import receive_array, receive_word, send_word_and_array
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.listener import Call
from aisrv.xcore.select import Selection
from aisrv.xcore.tokens import PIECE_BYTES
from aisrv.xcore.trace import Tracer
from tests.support.amounts import amount
from tests.support.benches.simulation import Bench, EndTrace, bench, settle, simulated
from tests.support.oracles.substrate import substrate
from tests.support.oracles.substrate.programs import (
    Program,
    contended_program,
    matching_program,
    served_program,
)
from tests.xcore.channels.test_chanend_shortcuts import no_shortcuts


def _run(program: Program, seed: int, tracer: Tracer | None) -> Any:
    """Run a program with a scheduler that chooses the same each time; how it ended, and at which tick."""

    async def run() -> Any:
        return *await substrate.freely(program, Random(seed), tracer=tracer), trio.current_time()

    with patch("trio._core._run._r", Random(seed)):
        return trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.in_full
@pytest.mark.parametrize("draw", [matching_program, contended_program, served_program])
def test_a_tracer_changes_nothing(draw: Callable[[Random], Program]) -> None:
    for seed in range(amount(1_000, every_day=60)):
        program = draw(Random(seed))
        assert _run(program, seed, EndTrace()) == _run(program, seed, None), (seed, program)


async def _never(*_: object) -> None:
    return None


@pytest.mark.in_full
def test_each_end_reports_of_commands_at_once_what_it_does_of_their_tokens() -> None:
    at_once = 0
    for seed in range(amount(1_000, every_day=60)):
        program = served_program(Random(seed))
        if len(program.destinations) % 2:
            continue  # one interferes, whose turn is open
        trace, of_tokens = EndTrace(), EndTrace()
        at_once += _run(program, seed, trace)[2]
        with patch.object(ChanEnd, "call", _never), no_shortcuts():
            _run(program, seed, of_tokens)
        assert trace.hooks == of_tokens.hooks, (seed, program)
    assert at_once > 0


async def _serve(c: ChanEnd, data: bytes, on_call: Callable[[Call], tuple[int, bytes]] | None) -> None:
    selection = Selection(c, on_call=on_call)
    while True:
        await selection.wait()
        if (await receive_command(c))[0] == 8:
            await answer_get(c, data)
        else:
            await receive_set(c, 8)
            await answer_set(c, Status.OKAY)


SIZES = [0, 3, 4, 9, PIECE_BYTES, PIECE_BYTES + 1, PIECE_BYTES + 4, 3 * PIECE_BYTES - 2]


@pytest.mark.parametrize("size", SIZES)
def test_commands_at_once_report_arrays_in_the_pieces_of_their_tokens(size: int) -> None:
    data = bytes(i % 251 for i in range(size))

    def answer(call: Call) -> tuple[int, bytes]:
        called.append(call.first)
        return 0, data if call.first == 8 else b""

    async def commands(test: Bench) -> None:
        assert await set_command(test.a, 0x88, -1, data) == Status.OKAY
        assert await begin_get(test.a, 8, 1 << 32, 4 * PIECE_BYTES) == (Status.OKAY, data, True)

    traces = [EndTrace(), EndTrace()]
    called: list[int] = []
    for on_call, trace in ((answer, traces[0]), (None, traces[1])):

        @simulated
        async def run(on_call: Any = on_call, trace: EndTrace = trace) -> None:
            async with bench() as test:
                test.start(_serve, test.b, data, on_call)
                await settle()
                with test.node.tracing(trace):
                    await commands(test)

        run()
    assert called == [0x88, 8]
    assert traces[0].hooks == traces[1].hooks


@pytest.mark.parametrize("size", SIZES)
def test_an_array_that_comes_along_is_reported_in_the_pieces_of_its_tokens(size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    traces = [EndTrace(), EndTrace()]
    for room, trace in ((size + 1, traces[0]), (0, traces[1])):

        @simulated
        async def run(room: int = room, trace: EndTrace = trace) -> None:
            async with bench() as test:
                with test.node.tracing(trace):

                    async def receive() -> None:
                        word, array = await receive_word(test.b, room)
                        assert word == 0
                        assert (array is None) == (room == 0)
                        assert data == ((await receive_array(test.b, size)).data if array is None else array)

                    received = test.start(receive)
                    await settle()
                    await send_word_and_array(test.a, 0, data)
                    await settle()
                    received.value()

        run()
    assert traces[0].hooks == traces[1].hooks
