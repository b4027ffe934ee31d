"""Commands of local clients that are cancelled at any turn: the engine serves on, this client and others."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from unittest.mock import patch

import pytest
import trio
import trio.testing

from aisrv import digits
from aisrv.board import Board, EngineSpec, SensorSpec, TaskSpec
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol import engine_channel
from aisrv.protocol.commands import SERVER_ID, Command, Status
from aisrv.protocol.engine_channel import AT_ONCE, MODEL_CHANGED
from aisrv.protocol.memories import Memory
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.trace import Tracer
from phy import local
from tests.support.amounts import in_ci
from tests.support.benches.simulation import simulated
from tests.support.models import networks

POINTS: Final = 200
"""Turns of the scheduler after which a call is cancelled: 0 to this, or up to the first that is too late."""
STEP: Final = in_ci(1, every_day=3)
"""Of these points each one is tried, or every third one."""
MODEL: Final = digits.model_bytes()
IMAGE: Final = digits.test_images()[0].image
LARGE: Final = networks.adding_network(1, 1, AT_ONCE + 4099)
"""A model whose tensors are larger than what crosses at once."""
PIECE: Final = 16

Call = Callable[[ChanEnd], Awaitable[object]]
ends: list[ChanEnd] = []
"""The ends of the task that a board below has."""


async def lend_ends(engine: ChanEnd, changes: ChanEnd) -> None:
    """Task of a board: let the test use its ends, of a second client of the engine."""
    ends[:] = engine, changes
    await trio.sleep_forever()


@asynccontextmanager
async def device() -> AsyncIterator[Device]:
    task = TaskSpec("b", f"{__name__}:lend_ends", 0, {"engine": "engine 0", "changes": "engine 0 changes"})
    engine = EngineSpec(1, arena_bytes=16 * AT_ONCE, arena_memory=Memory.EXTERNAL)
    board = Board(engines=(engine,), sensor=SensorSpec(tile=0, source="pattern:bars"), tasks=(task,))
    async with open_device(board, runner=inline) as opened:
        await trio.sleep(0.1)
        yield opened


# What is called, with the product's list of it.

ARGUMENTS: Final[dict[str, tuple[Any, ...]]] = {
    "aisrv_local_load_model": (MODEL,),
    "aisrv_local_set_input_tensor": (IMAGE,),
    "aisrv_local_acquire_single": (0, 4, 0, 4, 4, 4),
    "aisrv_local_set_sensor_tensor": (b"",),
}
"""Of the functions of `phy.local` that have sensible ones; each other argument that is needed is 0."""


def local_call(name: str) -> Call:
    function = getattr(local, name)
    needed = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    arguments = ARGUMENTS.get(name, (0,) * (len(needed) - 1))
    return lambda c: function(c, *arguments)


async def set_in_pieces(c: ChanEnd) -> None:
    await engine_channel.begin_set(c, Command.SET_INPUT_TENSOR, 0)
    assert await engine_channel.end_set(c, IMAGE) is Status.OKAY


async def give_a_set_up(c: ChanEnd) -> None:
    await engine_channel.begin_set(c, Command.SET_INPUT_TENSOR, 0)
    await engine_channel.abandon_set(c)


async def get_in_pieces(c: ChanEnd) -> None:
    _, _, last = await engine_channel.begin_get(c, Command.GET_INPUT_TENSOR, 0, PIECE)
    while not last:
        _, last = await engine_channel.receive_piece(c, PIECE)


async def take_notifications(c: ChanEnd) -> None:
    await local.aisrv_local_load_model(c, MODEL)
    assert await engine_channel.take_notification(ends[1]) == MODEL_CHANGED


async def set_a_large_tensor(c: ChanEnd) -> None:
    await engine_channel.set_large(c, Command.SET_INPUT_TENSOR, 0, bytes(AT_ONCE + 4099))


CHANNEL_CALLS: Final[dict[str, Call]] = {
    "set_command": lambda c: engine_channel.set_command(c, Command.SET_INPUT_TENSOR, 0, IMAGE),
    "get_command": lambda c: engine_channel.get_command(c, Command.GET_INPUT_TENSOR),
    "set_large": set_a_large_tensor,
    "get_large": lambda c: engine_channel.get_large(c, Command.GET_INPUT_TENSOR),
    "begin_set": set_in_pieces,
    "end_set": set_in_pieces,
    "abandon_set": give_a_set_up,
    "begin_get": get_in_pieces,
    "receive_piece": get_in_pieces,
    "take_notification": take_notifications,
}
LOCAL_CALLS: Final = {
    name: local_call(name)
    for name, _ in inspect.getmembers(local, inspect.iscoroutinefunction)
    if name.startswith("aisrv_local_")
}


def test_each_call_of_a_client_has_a_trial() -> None:
    functions = inspect.getmembers(engine_channel, inspect.isfunction)
    clients = {
        name
        for name, function in functions
        if function.__module__ == engine_channel.__name__
        and not name.startswith("_")
        and not str(function.__doc__).startswith("Engine:")
    }
    assert clients == set(CHANNEL_CALLS)


# The trials: a call is cancelled at some point. They return whether that came before its end.


async def attempt(call: Call, c: ChanEnd, scope: trio.CancelScope) -> bool:
    with scope:
        try:
            await call(c)
        except local.LocalError:
            """Some commands are refused, as the arguments suit no model or no sensor."""
    return scope.cancelled_caught


async def after_turns(call: Call, opened: Device, turns: int) -> bool:
    """Cancel after so many turns of the scheduler."""
    scope = trio.CancelScope()

    async def cancel() -> None:
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel)
        is_cancelled = await attempt(call, opened.local[0], scope)
        nursery.cancel_scope.cancel()
    return is_cancelled


async def after_turns_of_a_busy_engine(call: Call, opened: Device, turns: int) -> bool:
    """As `after_turns`, while the engine serves another client first."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(attempt, local.aisrv_local_start_inference, ends[0], trio.CancelScope())
        await trio.lowlevel.checkpoint()
        return await after_turns(call, opened, turns)


class CancelAfter(Tracer):
    """Cancels a scope when so many runs of tokens were output or input."""

    def __init__(self, scope: trio.CancelScope, runs: int) -> None:
        self._scope = scope
        self._left = runs

    def output(self, *_: object) -> None:
        self._left -= 1
        if self._left < 0:
            self._scope.cancel()

    def input(self, *_: object) -> None:
        self.output()


async def after_runs_of_tokens(call: Call, opened: Device, runs: int) -> bool:
    """Cancel after so many runs of tokens, all over the device, in the middle of a verb's steps.

    They cross one by one: no end finds another to hand something over to, or a select that answers at once.
    """
    scope = trio.CancelScope()
    with opened.node.tracing(CancelAfter(scope, runs)), patch.object(ChanEnd, "peer_at_rest", lambda _: None):
        return await attempt(call, opened.local[0], scope)


TRIALS: Final = (after_turns, after_turns_of_a_busy_engine, after_runs_of_tokens)
LEAST: Final = 20 // STEP
"""As often each call is cancelled at least. One that is answered at once has no turn to be cancelled in."""


@pytest.mark.parametrize("name", [*CHANNEL_CALLS, *LOCAL_CALLS])
@simulated
async def test_a_call_that_is_cancelled_anywhere_leaves_the_engine_to_its_clients(name: str) -> None:
    call = {**CHANNEL_CALLS, **LOCAL_CALLS}[name]
    cancelled = 0
    async with device() as opened:
        mine, other = opened.local[0], ends[0]
        for trial in TRIALS:
            await local.aisrv_local_load_model(mine, LARGE if "_large" in name else MODEL)
            for point in range(0, POINTS, STEP):
                if not await trial(call, opened, point):
                    break
                cancelled += 1
                for c in (other, mine) if point % 2 else (mine, other):
                    assert await local.aisrv_local_get_id(c) == SERVER_ID
        assert cancelled >= LEAST
        await local.aisrv_local_load_model(other, MODEL)
        await local.aisrv_local_acquire_frame(mine)
        await local.aisrv_local_set_input_tensor(other, IMAGE)
        await local.aisrv_local_start_inference(mine)
        assert await local.aisrv_local_get_output_tensor(other) == networks.run(MODEL, IMAGE)[0]
