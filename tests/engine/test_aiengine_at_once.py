"""Commands that an engine carries out in its client's task, or takes whole: the answers of the channel.

Three clients of two engines, one of which is a client of the other, give random commands and give up at
random moments. The same program runs twice: as it is, and with all commands crossing as tokens.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.board import Board, EngineSpec
from aisrv.device.device import Device, open_device
from aisrv.engine.handlers import GetHandler
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT, Command, CommandPacket, Status
from aisrv.protocol.engine_channel import begin_get, get_command, get_large, receive_piece, set_command
from aisrv.xcore.channels.chanend import ChanEnd
from tests.support.amounts import amount, in_ci
from tests.support.models import networks

STEP_SECONDS = 10
CHAINED = Board(engines=(EngineSpec(tile=0, chain_to=1), EngineSpec(tile=1)))
FIRST, SECOND = networks.cut_in_two()
PICTURE = digits.test_images()[0].image
INVOKE_SECONDS = 2
"""What a run takes here: long enough for other commands to come meanwhile."""

gets = st.sampled_from(
    (
        Command.GET_STATUS,
        Command.GET_ID,
        Command.GET_SPEC,
        Command.GET_INPUT_TENSOR,
        Command.GET_OUTPUT_TENSOR,
        Command.GET_OUTPUT_TENSOR_LENGTH,
        Command.GET_DEBUG_LOG,
        Command.GET_TIMINGS,
        Command.GET_PROFILE,
        Command.GET_OPERATORS,
        Command.GET_TIMING_BANDS,
        0x5F,
    )
)
sets = st.one_of(
    st.tuples(st.just(Command.SET_INPUT_TENSOR), st.sampled_from((PICTURE, PICTURE[:63], b"", bytes(65)))),
    st.tuples(st.just(Command.START_INFER), st.sampled_from((b"", b"", bytes(5)))),
    st.tuples(st.just(Command.SET_MODEL_ARENA), st.sampled_from((FIRST, SECOND, b"no model"))),
    st.tuples(st.just(Command.SET_OUTPUT_GPIO_EN), st.sampled_from((b"\1", b"\2", b""))),
    st.tuples(st.just(0xDF), st.just(b"unknown")),
)
tensors = st.sampled_from((0, 0, 0, 1))
actions = st.one_of(
    st.tuples(st.just("get"), gets, tensors, st.just(b"")),
    st.tuples(st.just("large get"), gets, tensors, st.just(b"")),
    st.tuples(st.just("pieces"), gets, tensors, st.sampled_from((b"4", b"512", b"1024"))),
    st.builds(lambda each, tensor: ("set", each[0], tensor, each[1]), sets, tensors),
    st.tuples(st.just("reset"), st.just(0), st.just(0), st.just(b"")),
)


@dataclass(frozen=True)
class Step:
    """What one client does, to which engine, when it begins and when it gives up, in whole seconds."""

    client: int
    engine: int
    action: tuple[str, int, int, bytes]
    begins: int
    gives_up: int | None


programs = st.lists(
    st.builds(
        Step,
        st.integers(0, 2),
        st.integers(0, 1),
        actions,
        st.integers(0, 3),
        st.one_of(st.none(), st.none(), st.integers(0, 3)),
    ),
    max_size=12,
)


async def _local(c: ChanEnd, action: tuple[str, int, int, bytes]) -> Any:
    kind, command, tensor, data = action
    match kind:
        case "get":
            return await get_command(c, command, tensor)
        case "large get":
            status, answer = await get_large(c, command, tensor)
            return status, bytes(answer)
        case "pieces":
            status, answer, last = await begin_get(c, command, tensor, int(data))
            while not last:
                piece, last = await receive_piece(c, int(data))
                answer += piece
            return status, answer
        case "set":
            return await set_command(c, command, tensor, data)
    return None


async def _usb(host: InProcessHost, engine: int, action: tuple[str, int, int, bytes]) -> Any:
    kind, command, tensor, data = action
    if kind == "reset":
        return await host.plug_in()
    try:
        await host.write(bytes(CommandPacket(command, engine, tensor)))
        if kind == "set":
            await host.write(data, zero_packet=True)
            await host.write(bytes(CommandPacket(Command.GET_ID, engine)))  # which shows how the SET ended
        return await host.read(1 << 16)
    except TransferFailed as failure:
        for endpoint in (ENDPOINT_IN, ENDPOINT_OUT):
            await host.clear_halt(endpoint)
        return failure.status


async def _client(device: Device, number: int, program: list[Step], seen: list[Any]) -> None:
    """Clients 0 and 1 are local ones of the two engines, client 2 is on USB and reaches both."""
    host = InProcessHost(device.usb)
    for index, step in enumerate(program):
        if step.client != number:
            continue
        begin = 1 + index * STEP_SECONDS / 4 + step.begins + number / 10
        await trio.sleep_until(max(trio.current_time(), begin))
        # A local client that gives up in a command leaves its channel in the middle of it, as on the device.
        patience = step.gives_up if number == 2 else None
        with trio.CancelScope() as scope:
            scope.deadline = math.inf if patience is None else trio.current_time() + patience + 0.05
            if number == 2:
                seen.append(await _usb(host, step.engine, step.action))
            else:
                seen.append(await _local(device.local[number], step.action))
        if scope.cancelled_caught:
            seen.append("gave up")
            await host.plug_in()


@contextmanager
def slow_runs() -> Iterator[None]:
    """Have each run take INVOKE_SECONDS of virtual time, and none of this host's, which profiles tell."""
    from aisrv.inference.engine import InferenceEngine

    invoke = InferenceEngine.invoke

    async def slow(self: InferenceEngine) -> None:
        await trio.sleep(INVOKE_SECONDS)
        await invoke(self)

    no_time = SimpleNamespace(perf_counter=lambda: 0.0)
    with patch.object(InferenceEngine, "invoke", slow), patch("aisrv.inference.engine.time", no_time):
        yield


def run(program: list[Step]) -> list[Any]:
    observed: list[Any] = []

    async def observe() -> None:
        with trio.fail_after(3600):
            async with open_device(CHAINED, runner=inline) as device:
                await device.load_model(FIRST)
                await device.load_model(SECOND, engine=1)
                await InProcessHost(device.usb).plug_in()
                seen: tuple[list[Any], ...] = ([], [], [])
                async with trio.open_nursery() as clients:
                    for number in range(3):
                        clients.start_soon(_client, device, number, program, seen[number])
                observed.extend(seen)
                host = InProcessHost(device.usb)
                await host.plug_in()
                for number, c in enumerate(device.local):
                    observed.append(await get_command(c, Command.GET_ID))
                    observed.append(await get_command(c, Command.GET_STATUS))
                    observed.append(await get_command(c, Command.GET_DEBUG_LOG))
                    await host.write(bytes(CommandPacket(Command.GET_ID, number)))
                    observed.append(await host.read(512))
                    observed.append(device.engines[number].inferences)

    with slow_runs():
        trio.run(observe, clock=trio.testing.MockClock(autojump_threshold=0))
    return observed


async def _never(*_: object) -> None:
    return None


def _hands_nothing_over(*_: object) -> None:
    return None


@pytest.mark.in_full
@settings(derandomize=True, deadline=None, max_examples=amount(3000, every_day=in_ci(50, every_day=20)))
@given(program=programs)
def test_commands_that_do_not_cross_end_as_those_over_the_channel(program: list[Step]) -> None:
    at_once = run(program)
    with patch.object(ChanEnd, "call", _never), patch.object(ChanEnd, "hand_over", _hands_nothing_over):
        assert run(program) == at_once


async def test_a_status_is_read_once_however_small_the_room() -> None:
    """An answer that does not fit is not made twice where making it changes something."""
    async with open_device(runner=inline) as device:
        c = device.local[0]
        for room in (4, 512, 1 << 16):
            assert (await get_command(c, 0x5F))[0] == Status.ERROR_BAD_CMD
            status, data, last = await begin_get(c, Command.GET_STATUS, 0, room)
            while not last:
                piece, last = await receive_piece(c, room)
                data += piece
            assert (status, data) == (Status.OKAY, bytes([Status.ERROR_BAD_CMD, 0, 0, 0]))


async def test_an_answer_as_long_as_the_room_ends_with_a_piece_of_nothing() -> None:
    async with open_device(runner=inline) as device:
        c = device.local[0]
        log = (await get_command(c, Command.GET_DEBUG_LOG))[1]
        await trio.testing.wait_all_tasks_blocked()
        assert len(log) > 512
        assert await begin_get(c, Command.GET_DEBUG_LOG, 0, len(log)) == (Status.OKAY, log, False)
        assert await receive_piece(c, len(log)) == (b"", True)
        await trio.testing.wait_all_tasks_blocked()
        assert await begin_get(c, Command.GET_DEBUG_LOG, 0, len(log) + 4) == (Status.OKAY, log, True)


@pytest.mark.plain_time("an engine answers by its own core there, which is woken")
async def test_an_idle_engine_answers_without_waking() -> None:
    async with open_device(runner=inline) as device:
        c = device.local[0]
        await get_command(c, Command.GET_ID)  # from now on the end is this task's
        await trio.testing.wait_all_tasks_blocked()
        ran = []

        async def other() -> None:
            ran.append("other")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            assert await get_command(c, Command.GET_ID) == (Status.OKAY, bytes.fromhex("78563412"))
            assert ran == []


async def test_a_client_that_waits_is_reported_by_the_name_of_its_verb() -> None:
    async with open_device(runner=inline) as device:
        hang = trio.Event()

        async def slow(_engine: object, _tensor: int) -> bytes:
            await hang.wait()
            return b""

        with patch.dict("aisrv.engine.handlers.GETS", {0x5E: GetHandler(slow)}):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(InProcessHost(device.usb).plug_in)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(InProcessHost(device.usb).write, bytes(CommandPacket(0x5E, 0)))
                await trio.testing.wait_all_tasks_blocked()
                report = device.node.report()
                hang.set()
                nursery.cancel_scope.cancel()
    assert "(usb_data): begin_get" in report, report
