"""Engines before one sensor, on virtual time: a source with frames at fixed times, and networks for pictures.

Frame n comes at second n. Its bytes count up from 10 n, so that every frame and every pixel differs.
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import floor

import numpy as np
import trio
from tflite import BuiltinOperator

from aisrv.engine.aiengine import aiengine
from aisrv.engine.debug_log import DebugLog
from aisrv.engine.state import AIEngine
from aisrv.inference.engine import InferenceEngine
from aisrv.inference.process.inline import inline
from aisrv.model.values import Quantization, Tensor, TensorType
from aisrv.model.writer import Network, NetworkOperator
from aisrv.protocol.commands import Command, FrameRegion, Spec, Status
from aisrv.protocol.engine_channel import get_command, set_command
from aisrv.sensors.acquire import Exposure, ImagePath, SensorModel, acquire, sensor
from aisrv.sensors.acquire_channel import AcquireChannel, AcquireEnds
from aisrv.sensors.image.frame import Encoding, FrameSource, RawFrame, SourceError
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.tile import Tile

OKAY = Status.OKAY
BAD_CMD = Status.ERROR_BAD_CMD
SIZE = 4
"""Width and height of the frames."""
FRAME_BYTES = SIZE * SIZE * 3


def frame_data(number: int, size: int = FRAME_BYTES) -> bytes:
    """The bytes of a frame by number."""
    return bytes((10 * number + i) % 256 for i in range(size))


@dataclass
class PacedSource:
    """Frame n at second n, for whoever asks before; fails at the seconds that it is told to."""

    width: int = SIZE
    height: int = SIZE
    encoding: Encoding = Encoding.RGB
    failures: set[int] = field(default_factory=set)
    broken: dict[int, RawFrame] = field(default_factory=dict)
    taken: list[int] = field(default_factory=list)

    async def frame(self) -> RawFrame:
        number = floor(trio.current_time() + 1e-6) + 1
        await trio.sleep_until(number)
        self.taken.append(number)
        if number in self.failures:
            raise SourceError(f"no frame at {number}")
        data = frame_data(number, self.width * self.height * {Encoding.RGB: 3}.get(self.encoding, 1))
        return self.broken.get(number, RawFrame(self.width, self.height, self.encoding, data))


class Nearest:
    """The simplest image path: one pixel of the frame for each of the image. RGB frames only."""

    def to_tensor(self, frame: RawFrame, region: FrameRegion) -> bytes:
        pixels = bytearray()
        for row in range(region.height):
            y = region.start_y + row * (region.end_y - region.start_y) // region.height
            for column in range(region.width):
                x = region.start_x + column * (region.end_x - region.start_x) // region.width
                at = 3 * (y * frame.width + x)
                pixels += bytes(value ^ 0x80 for value in frame.data[at : at + 3])
        return bytes(pixels)

    def to_gray(self, frame: RawFrame, region: FrameRegion) -> bytes:
        return self.to_tensor(frame, region)[0::3]


def image_of(number: int, region: FrameRegion | None = None) -> bytes:
    """What `Nearest` makes of a frame, by default all of it at 2 by 2 pixels."""
    frame = RawFrame(SIZE, SIZE, Encoding.RGB, frame_data(number))
    return Nearest().to_tensor(frame, region or FrameRegion(0, SIZE, 0, SIZE, 2, 2))


def doubling_network(*shape: int, tensor_type: TensorType = TensorType.INT8) -> bytes:
    """A network whose output is twice its input, saturated."""
    unit = Quantization.per_tensor(1.0, 0) if tensor_type == TensorType.INT8 else None
    tensors = tuple(Tensor(name, shape, tensor_type, unit) for name in ("input", "sum"))
    operator = NetworkOperator(BuiltinOperator.ADD, ("input", "input"), ("sum",))
    return bytes(Network(tensors, (operator,), ("input",), ("sum",), "doubling"))


def doubled(data: bytes) -> bytes:
    """The output of `doubling_network`."""
    return np.clip(2 * np.frombuffer(data, np.int8).astype(int), -128, 127).astype(np.int8).tobytes()


PICTURE = doubling_network(1, 2, 2, 3)
GRAY = doubling_network(1, 2, 2, 1)
FLAT = doubling_network(1, 12)
FLOAT = doubling_network(1, 2, 2, 3, tensor_type=TensorType.FLOAT32)


@dataclass
class Host:
    """A client of one engine."""

    c: ChanEnd

    async def put(self, command: int, data: bytes = b"", tensor: int = 0) -> Status:
        return await set_command(self.c, command, tensor, data)

    async def get(self, command: int, tensor: int = 0) -> bytes:
        status, data = await get_command(self.c, command, tensor)
        assert status == OKAY
        return data

    async def refused(self, command: int) -> Status:
        return (await get_command(self.c, command, 0))[0]

    async def word(self, command: int) -> int:
        return int.from_bytes(await self.get(command), "little")

    async def load(self, model: bytes) -> None:
        assert await self.put(Command.SET_MODEL_ARENA, model) == OKAY

    async def log(self) -> list[str]:
        return (await self.get(Command.GET_DEBUG_LOG)).rstrip(b"\0").decode().splitlines()


@dataclass
class CameraDevice:
    node: Node
    source: PacedSource
    engines: list[AIEngine]
    hosts: list[list[Host]]
    """By engine, each with two clients."""

    @property
    def host(self) -> Host:
        return self.hosts[0][0]

    @property
    def other(self) -> Host:
        return self.hosts[0][1]


def connect(node: Node, client: Tile, task: Tile) -> tuple[AcquireChannel, AcquireEnds]:
    """Make a client of the acquire task: its side, and the ends to give the task."""
    commands, frames = node.channel(client, task), node.channel(client, task)
    return AcquireChannel(commands.a, frames.a), AcquireEnds(commands.b, frames.b)


def start_acquisition(
    node: Node,
    tile: Tile,
    source: FrameSource,
    image_path: ImagePath,
    registers: SensorModel | None,
    clients: Sequence[AcquireEnds],
) -> None:
    """Start both cores on a tile; `clients` are the task's ends, on that tile too."""
    exposure = Exposure(source)
    between = node.channel(tile, tile)
    tile.start(sensor, source, exposure, between.a)
    tile.start(acquire, exposure, image_path, registers, clients, between.b)


Extend = Callable[[Node, AIEngine, list[ChanEnd]], None]


@asynccontextmanager
async def camera(
    model: bytes | None = None,
    *,
    engines: int = 1,
    source: PacedSource | None = None,
    registers: SensorModel | None = None,
    sensor: bool = True,
    image_path: ImagePath | None = None,
    inference: InferenceEngine | None = None,
    extend: Extend | None = None,
) -> AsyncIterator[CameraDevice]:
    """Run engines on tile 0 and the sensor on tile 1; `extend` may join more clients to engine 0."""
    source = source or PacedSource()
    async with open_node(seed=0) as node:
        here, there = node.tiles
        built, hosts, ends = [], [], []
        for number in range(engines):
            channel = None
            if sensor:
                channel, task_ends = connect(node, here, there)
                ends.append(task_ends)
            log = DebugLog(logging.getLogger(f"test.engine{number}"))
            runs = inference or InferenceEngine(inline, arena_bytes=65536, external_bytes=0)
            engine = AIEngine(runs, log, hardware=Spec(), sensor=channel)
            channels = [node.channel(there, here) for _ in range(2)]
            clients = [each.b for each in channels]
            if extend is not None and number == 0:
                extend(node, engine, clients)
            here.start(aiengine, engine, clients)
            built.append(engine)
            hosts.append([Host(each.a) for each in channels])
        if sensor:
            start_acquisition(node, there, source, image_path or Nearest(), registers, ends)
        device = CameraDevice(node, source, built, hosts)
        if model is not None:
            for first, _ in hosts:
                await first.load(model)
        yield device
        node.stop()
