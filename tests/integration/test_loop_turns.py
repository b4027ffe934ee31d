"""What a host may send does not hold the event loop, in which all devices of a process live.

Times are of the loop's own thread on a CPU: neither load on the machine nor other threads count. The aim is
5 ms; the bound leaves room for machines four times as slow as the one on which it was met.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Final

import pytest
import trio
from tflite import BuiltinOperator, TensorType

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost
from aisrv.board import ArenaMemory, Board, EngineSpec
from aisrv.device.device import open_device
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator
from aisrv.monitor.loop_watch import LongTurn, LoopWatch
from aisrv.protocol.commands import Command, CommandPacket, Dialect, Status

MIB: Final = 1 << 20
BOUND_SECONDS: Final = 0.020
PIECE_BYTES: Final = 1 << 16
BOARD: Final = Board(
    engines=(EngineSpec(arena_memory=ArenaMemory.EXTERNAL, arena_bytes=20 * MIB, external_bytes=40 * MIB),)
)


class Host(InProcessHost):
    """A host that sends commands in the design's framing."""

    async def set(self, command: Command, data: bytes, tensor: int = 0) -> Status:
        """Carry out a SET; returns its status."""
        await self.write(bytes(CommandPacket(command, 0, tensor, Dialect.DESIGN)))
        for at in range(0, len(data), PIECE_BYTES):
            await self.write(data[at : at + PIECE_BYTES])
        if len(data) % 512 == 0:
            await self.write(b"")
        return Status(int.from_bytes(await self.read(4), "little"))

    async def get(self, command: Command, size: int, tensor: int = 0) -> bytes:
        """Carry out a GET of up to `size` bytes of data."""
        await self.write(bytes(CommandPacket(command, 0, tensor, Dialect.DESIGN)))
        assert await self.read(4) == bytes(4)
        return await self.read(size)


@cache
def many_operators() -> bytes:
    """A model of 4,096 tensors and 20,000 additions."""
    names = [f"t{number}" for number in range(4096)]
    unit = Quantization.per_tensor(1.0, 0)
    return bytes(
        Network(
            tuple(Tensor(name, (1, 4), TensorType.INT8, unit) for name in names),
            tuple(
                NetworkOperator(
                    BuiltinOperator.ADD, (names[n % 4096], names[n * 7 % 4096]), (names[(n + 1) % 4096],)
                )
                for n in range(20_000)
            ),
            inputs=(names[0],),
            outputs=(names[-1],),
        )
    )


@cache
def large_tensors() -> bytes:
    """A model whose tensors have 8 MiB each."""
    unit = Quantization.per_tensor(1.0, 0)
    tensors = tuple(Tensor(name, (8, MIB), TensorType.INT8, unit) for name in "xy")
    return bytes(Network(tensors, (NetworkOperator(BuiltinOperator.RELU, ("x",), ("y",)),), ("x",), ("y",)))


@cache
def large_file() -> bytes:
    """A model with 32 MiB behind it."""
    return digits.model_bytes() + bytes(32 * MIB)


async def load_many_operators(host: Host) -> None:
    assert await host.set(Command.SET_MODEL_EXT, many_operators()) is Status.OKAY
    assert len(await host.get(Command.GET_TIMINGS, 80_004)) == 80_000
    await host.get(Command.GET_SPEC, 512)
    assert await host.set(Command.START_INFER, b"") is Status.OKAY
    assert len(await host.get(Command.GET_PROFILE, 4 * MIB)) > MIB


async def send_what_is_no_model(host: Host) -> None:
    assert await host.set(Command.SET_MODEL_EXT, bytes(40 * MIB)) is Status.ERROR_MODEL_ERR


async def load_a_large_file(host: Host) -> None:
    assert await host.set(Command.SET_MODEL_EXT, large_file()) is Status.OKAY


async def send_and_fetch_large_tensors(host: Host) -> None:
    assert await host.set(Command.SET_MODEL_EXT, large_tensors()) is Status.OKAY
    assert await host.set(Command.SET_INPUT_TENSOR, bytes(8 * MIB)) is Status.OKAY
    assert len(await host.get(Command.GET_OUTPUT_TENSOR, 8 * MIB)) == 8 * MIB


@asynccontextmanager
async def plugged_in() -> AsyncIterator[Host]:
    async with open_device(BOARD) as device:
        host = Host(device.usb)
        await host.plug_in()
        yield host


@pytest.mark.parametrize(
    "attack", [load_many_operators, send_what_is_no_model, load_a_large_file, send_and_fetch_large_tensors]
)
def test_no_turn_of_the_loop_is_long(attack: Callable[[Host], object]) -> None:
    many_operators(), large_tensors(), large_file()  # made before the turns count
    turns: list[LongTurn] = []

    async def main() -> None:
        async with plugged_in() as host:
            turns.clear()  # the start imports
            with trio.fail_after(120):
                await attack(host)  # type: ignore[misc]
            found.extend(turns)

    found: list[LongTurn] = []
    trio.run(main, instruments=[LoopWatch(turns.append, BOUND_SECONDS, time.thread_time)])
    assert not found, "\n".join(map(str, found))
