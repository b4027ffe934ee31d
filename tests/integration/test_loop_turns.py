"""What a host may send does not hold the event loop, in which all devices of a process live.

Nothing large is copied in one step of a task. Bytes that a step allocates are counted; for what moves bytes
within memory that is there, the time of the loop's own thread on a CPU is compared with the time that a copy
takes on the same machine at the same moment. The aim is 5 ms.
"""

import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Final

import pytest
import trio
from tflite import BuiltinOperator, TensorType

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost
from aisrv.board import Board, EngineSpec
from aisrv.device.device import open_device
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator
from aisrv.protocol.commands import ENDPOINT_IN, Command, CommandPacket, Dialect, GpioMode, Status
from aisrv.protocol.memories import Memory
from phy.usb.urb import InUrb
from tests.support import amounts
from tests.support.oracles.step_watch import AllocationWatch, Step, TimeWatch, copying_seconds

MIB: Final = 1 << 20
MOST_ALLOCATED: Final = 6 * MIB
"""Bytes: less than the smallest of what is large here, more than what may be copied as a whole."""
COPIED_AT_MOST: Final = 16 * MIB
"""A step must take less time than a copy of as many bytes into new memory."""
ATTEMPTS: Final = 3
"""What a machine that is busy does to the time of a step does not come back in each of them; a copy does."""
PIECE_BYTES: Final = 1 << 16
BOARD: Final = Board(
    engines=(EngineSpec(arena_memory=Memory.EXTERNAL, arena_bytes=20 * MIB, external_bytes=40 * MIB),)
)


class Host(InProcessHost):
    """A host that sends commands in the design's framing."""

    async def set(self, command: Command, data: bytes | memoryview, tensor: int = 0) -> Status:
        """Carry out a SET; returns its status."""
        await self.write(bytes(CommandPacket(command, 0, tensor, Dialect.DESIGN)))
        for at in range(0, len(data), PIECE_BYTES):
            await self.write(bytes(data[at : at + PIECE_BYTES]))
        if len(data) % 512 == 0:
            await self.write(b"")
        return Status(int.from_bytes(await self.read(4), "little"))

    async def get(self, command: Command, size: int, tensor: int = 0) -> bytes:
        """Carry out a GET of up to `size` bytes of data."""
        await self.write(bytes(CommandPacket(command, 0, tensor, Dialect.DESIGN)))
        assert await self.read(4) == bytes(4)
        return await self.read(size)

    async def get_in_one(self, command: Command, size: int, tensor: int = 0) -> int:
        """Carry out a GET in a single transfer; returns the number of bytes, which are not copied."""
        await self.write(bytes(CommandPacket(command, 0, tensor, Dialect.DESIGN)))
        assert await self.read(4) == bytes(4)
        ended = trio.Event()
        data: list[bytes | memoryview] = []

        def complete(_status: object, received: bytes | memoryview) -> None:
            data.append(received)
            ended.set()

        self.bus.submit_in(ENDPOINT_IN, InUrb(size, complete))
        await ended.wait()
        return len(data[0])


OPERATORS: Final = amounts.in_ci(20_000, every_day=5_000)


@cache
def many_operators() -> bytes:
    """A model of 4,096 tensors and thousands of additions."""
    names = [f"t{number}" for number in range(4096)]
    unit = Quantization.per_tensor(1.0, 0)
    return bytes(
        Network(
            tuple(Tensor(name, (1, 4), TensorType.INT8, unit) for name in names),
            tuple(
                NetworkOperator(
                    BuiltinOperator.ADD, (names[n % 4096], names[n * 7 % 4096]), (names[(n + 1) % 4096],)
                )
                for n in range(OPERATORS)
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


ZEROS: Final = memoryview(bytes(40 * MIB))


async def load_many_operators(host: Host) -> None:
    assert await host.set(Command.SET_MODEL_EXT, many_operators()) is Status.OKAY
    assert len(await host.get(Command.GET_TIMINGS, 4 * OPERATORS + 4)) == 4 * OPERATORS
    await host.get(Command.GET_SPEC, 512)
    assert await host.set(Command.START_INFER, b"") is Status.OKAY
    assert len(await host.get(Command.GET_PROFILE, 4 * MIB)) > MIB * OPERATORS // 20_000


async def send_what_is_no_model(host: Host) -> None:
    assert await host.set(Command.SET_MODEL_EXT, ZEROS) is Status.ERROR_MODEL_ERR


async def load_a_large_file(host: Host) -> None:
    assert await host.set(Command.SET_MODEL_EXT, large_file()) is Status.OKAY


async def send_and_fetch_large_tensors(host: Host) -> None:
    assert await host.set(Command.SET_MODEL_EXT, large_tensors()) is Status.OKAY
    assert await host.set(Command.SET_INPUT_TENSOR, ZEROS[: 8 * MIB]) is Status.OKAY
    for command, setting in (
        (Command.SET_OUTPUT_GPIO_EN, 1),
        (Command.SET_OUTPUT_GPIO_MODE, GpioMode.MAX),
        (Command.START_INFER, 0),
    ):
        assert await host.set(command, bytes((setting,))) is Status.OKAY
    assert await host.get_in_one(Command.GET_OUTPUT_TENSOR, 8 * MIB) == 8 * MIB


@asynccontextmanager
async def plugged_in() -> AsyncIterator[Host]:
    async with open_device(BOARD) as device:
        host = Host(device.usb)
        await host.plug_in()
        yield host


Attack = Callable[[Host], Awaitable[None]]
LARGE: Final[tuple[Attack, ...]] = (send_what_is_no_model, load_a_large_file, send_and_fetch_large_tensors)


def carry_out(attack: Attack, watch: AllocationWatch | TimeWatch) -> Step:
    """Let a host attack a device; returns the largest step from then to the end of the device."""

    async def main() -> None:
        async with plugged_in() as host:
            watch.forget()  # the start imports
            with trio.fail_after(120):
                await attack(host)

    trio.run(main, instruments=[watch])
    return watch.largest


@pytest.mark.parametrize("attack", LARGE)
def test_no_step_makes_a_large_copy(attack: Attack) -> None:
    large_tensors(), large_file()  # made before the steps count
    tracemalloc.start()
    try:
        largest = carry_out(attack, AllocationWatch())
    finally:
        tracemalloc.stop()
    assert largest.amount < MOST_ALLOCATED, str(largest)


@pytest.mark.parametrize("attack", [load_many_operators, *LARGE])
def test_no_step_takes_as_long_as_a_large_copy(attack: Attack) -> None:
    many_operators(), large_tensors(), large_file()  # made before the steps count
    for _ in range(ATTEMPTS):
        before = copying_seconds(COPIED_AT_MOST)
        largest = carry_out(attack, TimeWatch())
        bound = max(before, copying_seconds(COPIED_AT_MOST))
        if largest.amount < bound:
            return
    pytest.fail(f"seconds: {largest}; a copy of {COPIED_AT_MOST:,} bytes takes {bound:.6f}")
