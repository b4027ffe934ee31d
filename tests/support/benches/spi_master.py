"""An SPI slave and its buffer before a scripted engine or a real one, and a master's transactions.

The bytes of each transaction are put together here as the wire's description has them, by no code of the
product's.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise

from trio.testing import wait_all_tasks_blocked

from aisrv.board import Board
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Spi, Status, commands_of
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.node import Node, open_node
from phy.spi.bus import SpiBus, SpiTransfer
from phy.spi.shared_memory import SharedMemory
from phy.spi.slave import spi_slave
from phy.spi.spi_buffer import spi_buffer
from tests.support.benches.scripted_engine import Recorded, ScriptedEngine

GET_STATUS, GET_OUTPUT, GET_SPEC, GET_TIMINGS = 0x01, 0x05, 0x08, 0x09
GET_DEBUG_LOG, GET_ID, GET_SENSOR, GET_BOOT, GET_SENSOR_LENGTH = 0x0F, 0x10, 0x0D, 0x14, 0x0C
NONE, HELLO, SET_SERVER = 0x00, 0x55, 0x04
SET_INPUT, START_INFER, SET_ARENA, SET_EXT, ACQUIRE_SINGLE = 0x83, 0x84, 0x86, 0x87, 0x8C
BUSY, SENSING, NO_MODEL, MODEL_ERR, INFER_ERR, BAD_CMD = 1, 2, 4, 8, 16, 32
QUESTIONS = (*commands_of(Spi.READ), GET_SENSOR, GET_SENSOR_LENGTH)

ID = bytes.fromhex("78563412")
SPEC = bytes.fromhex("0002 0002 0000 0040 00010000 0a000000 04000000".replace(" ", ""))
"""Two tiles of 512 KiB, 16 MiB external; inputs of 256 bytes, outputs of 10, four timings."""
OTHER_SPEC = bytes.fromhex("0002 0002 0000 0040 00020000 14000000 05000000".replace(" ", ""))
OUTPUT = bytes(range(1, 11))
TIMINGS = bytes(range(101, 117))
LOG = b"START_INFER: a reason\n".ljust(2048, b"\0")


@dataclass
class Master:
    """What an SPI host does with its bus; every transaction is let to have its effect."""

    bus: SpiBus

    async def transfer(self, mosi: bytes) -> bytes:
        miso = await self.bus.transfer(mosi)
        await wait_all_tasks_blocked()
        return miso

    async def read(self, command: int, count: int) -> bytes:
        """Read `count` bytes; the command and the two dummy bytes must bring zeros."""
        miso = await self.bus.transfer(bytes((command,)) + bytes(2 + count))
        assert miso[:3] == bytes(3)
        assert len(miso) == 3 + count
        return miso[3:]

    async def status(self) -> int:
        return int.from_bytes(await self.read(GET_STATUS, 4), "little")

    async def write(self, command: int, block: bytes = b"") -> None:
        """One write or bare command; MISO must stay low."""
        assert await self.transfer(bytes((command,)) + block) == bytes(1 + len(block))

    async def set(self, command: int, data: bytes) -> int:
        """A whole set, polled as hosts do; returns the status at its end."""
        for start in range(0, len(data) + 1, 512):
            await self.write(command, data[start : start + 512])
            status = await self.status()
            assert not status & BUSY
        return status


@dataclass
class SpiDevice(Master):
    memory: SharedMemory
    node: Node
    engine: ScriptedEngine
    notifications: ChanEnd
    """The engine's end of the channel on which it notifies the buffer of its models."""

    def commands(self) -> list[Recorded]:
        """What came to the engine apart from the questions of the buffer, since it was last asked."""
        found = [each for each in self.engine.commands if each.command not in QUESTIONS]
        self.engine.commands.clear()
        return found


class Server:
    """A place for server images, which records the calls."""

    def __init__(self, status: int = 0) -> None:
        self.calls: list[tuple[str, bytes]] = []
        self._status = Status(status)

    async def begin(self) -> None:
        self.calls.append(("begin", b""))

    async def data(self, block: bytes) -> None:
        self.calls.append(("data", block))

    async def end(self, rest: bytes) -> Status:
        self.calls.append(("end", rest))
        return self._status

    async def abandon(self) -> None:
        self.calls.append(("abandon", b""))


@asynccontextmanager
async def spi_device(
    engine: ScriptedEngine | None = None, *, server: Server | None = None
) -> AsyncIterator[SpiDevice]:
    """Run the SPI layer on tile 0 and a scripted engine on tile 1; all has settled where it may."""
    engine = engine or ScriptedEngine()
    script = {GET_ID: ID, GET_SPEC: SPEC, GET_OUTPUT: OUTPUT, GET_TIMINGS: TIMINGS, GET_DEBUG_LOG: LOG}
    engine.answers = {**script, **engine.answers}
    async with open_node() as node:
        here, there = node.tiles
        to_slave, to_engine = node.channel(here, here), node.channel(here, there)
        changes = node.channel(here, there)
        bus, memory = SpiBus(), SharedMemory()
        here.start(spi_slave, bus, memory, to_slave.a)
        here.start(spi_buffer, memory, to_slave.b, to_engine.a, changes.a, server)
        there.start(engine.run, to_engine.b)
        await wait_all_tasks_blocked()
        yield SpiDevice(bus, memory, node, engine, changes.b)
        node.stop()


@asynccontextmanager
async def spi_and_usb(board: Board | None = None) -> AsyncIterator[tuple[Master, Device]]:
    """Run a device with a real engine, its SPI and its USB layer."""
    async with open_device(board, runner=inline) as device:
        assert device.spi is not None
        await wait_all_tasks_blocked()
        yield Master(device.spi), device


def cut(mosi: bytes, *places: int, deselect: bool = True) -> list[SpiTransfer]:
    """One transaction in several transfers."""
    bounds = [0, *places, len(mosi)]
    pieces = [mosi[start:end] for start, end in pairwise(bounds)]
    last = len(pieces) - 1
    return [SpiTransfer(piece, deselect=deselect and i == last) for i, piece in enumerate(pieces)]
