"""A USB device whose engines follow a script: they record commands and answer as the test says.

An engine here speaks the channel protocol one token at a time, with the firmware's own verbs, and shares
no code with the product's engine.
"""

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from aisrv.attach.inprocess import InProcessHost
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.tokens import Control
from phy.usb.aisrv_data import UsbData
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from phy.usb.ioserver_data import UsbIoserver
from phy.usb.xud import InEndpoint, OutEndpoint

CLASSIC, DESIGN = "classic", "design"
DIALECTS = (CLASSIC, DESIGN)
OKAY, MODEL_ERR, BAD_CMD = 0x00, 0x08, 0x20


@dataclass(frozen=True)
class Recorded:
    """A command that reached an engine: with its data if it was a SET, and whether those were given up."""

    command: int
    tensor: int
    data: bytes | None = None
    abandoned: bool = False


@dataclass
class ScriptedEngine:
    """Records commands; answers data or a status by command code, by default no data and OKAY."""

    commands: list[Recorded] = field(default_factory=list)
    answers: dict[int, bytes] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    asked: trio.Event = field(default_factory=trio.Event)
    """Set with the first command without data."""
    _may_answer: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self._may_answer.set()

    def hold(self) -> None:
        """Work on the next command until `release`."""
        self._may_answer = trio.Event()

    def release(self) -> None:
        self._may_answer.set()

    async def run(self, c: ChanEnd) -> None:
        while True:
            command, tensor = await chan_in_word(c), await chan_in_word(c)
            status = self.statuses.get(command, OKAY)
            if command & 0x80:
                if await self._receive(c, command, tensor):
                    await self._may_answer.wait()
                    await c.outuint(status)
                    await c.outct(Control.END)
            else:
                self.commands.append(Recorded(command, tensor))
                self.asked.set()
                await self._may_answer.wait()
                await chan_out_word(c, status)
                if not status:
                    await self._send(c, self.answers.get(command, b""))

    async def _receive(self, c: ChanEnd, command: int, tensor: int) -> bool:
        data = bytearray()
        while not await c.testct():
            data += (await c.inuint()).to_bytes(4, "little")
        if await c.inct() == Control.NACK:
            await c.chkct(Control.END)
            self.commands.append(Recorded(command, tensor, bytes(data), abandoned=True))
            return False
        tail = bytearray()
        while not await c.testct():
            tail.append(await c.inuchar())
        await c.chkct(Control.END)
        assert len(tail) < 4
        self.commands.append(Recorded(command, tensor, bytes(data + tail)))
        return True

    async def _send(self, c: ChanEnd, data: bytes) -> None:
        words, tail = divmod(len(data), 4)
        for word in struct.unpack_from(f"<{words}I", data):
            await c.outuint(word)
        await c.outct(Control.END)
        for byte in data[len(data) - tail :]:
            await c.outuchar(byte)
        await c.outct(Control.END)


def command_packet(dialect: str, command: int, engine: int = 0, tensor: int = 0) -> bytes:
    if dialect == CLASSIC:
        return bytes((command, engine, tensor))
    return struct.pack("<III", command, engine, tensor)


@dataclass
class ScriptedDevice:
    """A device with scripted engines, and its host."""

    node: Node
    bus: UsbBus
    host: InProcessHost
    engines: list[ScriptedEngine]

    @property
    def engine(self) -> ScriptedEngine:
        return self.engines[0]

    async def set(self, dialect: str, command: int, data: bytes, *, engine: int = 0, tensor: int = 0) -> int:
        """Carry out a SET as a host does; the status, which the classic dialect does not have, is 0 there."""
        await self.host.write(command_packet(dialect, command, engine, tensor))
        await self.host.write(data, zero_packet=True)
        if dialect == CLASSIC:
            return OKAY
        return struct.unpack("<I", await self.host.read(512))[0]  # type: ignore[no-any-return]

    async def get(self, dialect: str, command: int, *, engine: int = 0, tensor: int = 0) -> bytes:
        """Carry out a GET that succeeds, as a host does."""
        await self.host.write(command_packet(dialect, command, engine, tensor))
        if dialect == DESIGN:
            assert await self.host.read(512) == bytes(4)
        return await self.host.read(1 << 20)


DataTask = Callable[[OutEndpoint, InEndpoint, list[ChanEnd], str], UsbData | UsbIoserver]


@asynccontextmanager
async def usb_device(engines: int = 1, task: DataTask = UsbData) -> AsyncIterator[ScriptedDevice]:
    """Run the USB layer on tile 1 and scripted engines on tile 0; the host has chosen configuration 1."""
    async with open_node() as node:
        bus = UsbBus(aisrv_descriptors())
        scripted = [ScriptedEngine() for _ in range(engines)]
        ends = []
        for engine in scripted:
            channel = node.channel(node.tiles[1], node.tiles[0])
            ends.append(channel.a)
            node.tiles[0].start(engine.run, channel.b)
        node.tiles[1].start(usb_ep0, bus)
        node.tiles[1].start(task(bus.out_endpoint, bus.in_endpoint, ends, "usb").run, name="usb_data")
        host = InProcessHost(bus)
        await host.plug_in()
        yield ScriptedDevice(node, bus, host, scripted)
        node.stop()
