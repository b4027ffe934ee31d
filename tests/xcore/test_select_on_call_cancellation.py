"""Clients that are cancelled at any turn, of a server whose select is cancelled now and then, too.

A command that returned was carried out once, with its own data and answer; a cancelled one once at most.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest
import trio

from aisrv.protocol.commands import Status
from aisrv.protocol.engine_channel import (
    answer_get,
    answer_set,
    get_command,
    receive_command,
    receive_set,
    refuse_get,
    set_command,
)
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import Channel
from aisrv.xcore.channels.listener import Call
from aisrv.xcore.node import open_node
from aisrv.xcore.select import Selection
from aisrv.xcore.trace import Tracer
from tests.support.amounts import amount
from tests.support.benches.simulation import settle
from tests.support.oracles.substrate.draws import GETS, SET, SETS, answer_to, data_of

Command = tuple[int, int, bytes]


async def cancel_later(scope: trio.CancelScope, turns: int) -> None:
    for _ in range(turns):
        await trio.lowlevel.checkpoint()
    scope.cancel()


@dataclass
class Exchange:
    """A server, its clients, and what became of their commands."""

    dice: Random
    channels: list[Channel]
    tasks: trio.Nursery
    begun: set[Command] = field(default_factory=set)
    carried_out: Counter[Command] = field(default_factory=Counter)
    returned: set[Command] = field(default_factory=set)
    at_once: int = 0
    handed: int = 0
    """Commands that the server took whole."""
    cancelled: int = 0
    """Clients and servers that were cancelled in a command."""

    def on_call(self, call: Call) -> tuple[int, bytes] | None:
        if call.second % 4 == 3:
            return None
        data = bytes(call.array)
        self.carried_out[call.first, call.second, data] += 1
        self.at_once += 1
        return answer_to(call.first, call.second, data)

    async def serve(self) -> None:
        """Serve until cancelled in the middle of a command; a select that was cancelled is entered again."""
        ends = (channel.b for channel in self.channels)
        selection = Selection(*ends, on_call=self.on_call, takes_calls=self.dice.random() < 0.5)
        busy = False
        while not busy:
            with trio.CancelScope() as scope:
                if self.dice.random() < 0.5:
                    self.tasks.start_soon(cancel_later, scope, self.dice.randrange(12))
                while True:
                    chosen = await selection.wait()
                    assert isinstance(chosen, ChanEnd)
                    busy = True
                    await self._serve_one(chosen)
                    busy = False
        self.cancelled += 1

    async def _serve_one(self, c: ChanEnd) -> None:
        if (handed := c.take_call()) is not None:
            command, tensor, array, _ = handed.call
            self.handed += 1
            self.carried_out[command, tensor, bytes(array)] += 1
            for _ in range(self.dice.randrange(3)):
                await trio.lowlevel.checkpoint()
            handed.give(answer_to(command, tensor, bytes(array)))
            return
        command, tensor = await receive_command(c)
        if command & SET:
            data = bytes((await receive_set(c, 1000)).data)
            self.carried_out[command, tensor, data] += 1
            await answer_set(c, Status(answer_to(command, tensor, data)[0]))
        else:
            self.carried_out[command, tensor, b""] += 1
            status, data = answer_to(command, tensor)
            await (refuse_get(c, Status(status)) if status else answer_get(c, data))

    async def call(self, c: ChanEnd, first_tensor: int) -> None:
        """Send commands, each with a tensor of its own, until one is cancelled."""
        dice = self.dice
        for tensor in range(first_tensor, first_tensor + dice.randint(1, 6)):
            command = dice.choice(GETS + SETS)
            data = data_of(dice) if command & SET else b""
            with trio.CancelScope() as scope:
                if dice.random() < 0.3:
                    self.tasks.start_soon(cancel_later, scope, dice.randrange(8))
                for _ in range(dice.randrange(2)):
                    await trio.lowlevel.checkpoint()
                self.begun.add((command, tensor, data))
                if command & SET:
                    answer = (await set_command(c, command, tensor, data), b"")
                else:
                    answer = await get_command(c, command, tensor)
                self.returned.add((command, tensor, data))
                assert answer == answer_to(command, tensor, data)
            if scope.cancelled_caught:
                self.cancelled += 1
                return


async def _exchange(dice: Random, *, traced: bool) -> Exchange:
    async with open_node(seed=dice.getrandbits(32)) as node, trio.open_nursery() as tasks:
        node.runtime.tracer = Tracer() if traced else None
        channels = [node.channel(node.tiles[1], node.tiles[0]) for _ in range(dice.randint(1, 3))]
        exchange = Exchange(dice, channels, tasks)
        tasks.start_soon(exchange.serve)
        for number, channel in enumerate(channels):
            tasks.start_soon(exchange.call, channel.a, 16 * number)
        await settle()
        tasks.cancel_scope.cancel()
    return exchange


@pytest.mark.in_full
async def test_each_command_is_carried_out_once() -> None:
    at_once = handed = cancelled = 0
    for seed in range(amount(2_000, every_day=300)):
        seen = await _exchange(Random(seed), traced=seed % 5 == 0)
        at_once += seen.at_once
        handed += seen.handed
        cancelled += seen.cancelled
        assert seen.returned <= seen.carried_out.keys() <= seen.begun, seed
        assert set(seen.carried_out.values()) <= {1}, seed
        assert seen.cancelled or seen.returned == seen.begun, seed
    assert min(at_once, handed, cancelled) > 0
