"""Sensors: raw frames of 640x480 to tensors, beside Pillow doing as much with a picture, and a whole stream.

python -m benchmarks.sensors
"""

import statistics
import time
from collections.abc import Callable
from typing import Final

import trio
from PIL import Image

from aisrv import digits
from aisrv.board import Board, SensorSpec
from aisrv.device.device import open_device
from aisrv.protocol.commands import Command, FrameRegion
from aisrv.protocol.engine_channel import get_command, set_command
from aisrv.sensors.image.frame import Encoding, RawFrame
from aisrv.sensors.image.image_path import ImagePath
from aisrv.sensors.sources.patterns import Pattern, PatternSource
from benchmarks.rows import Row

WIDTH: Final = 640
HEIGHT: Final = 480
TARGETS: Final = ((8, 8), (96, 96), (320, 240), (640, 480))
ROUNDS: Final = 40
STREAM_SECONDS: Final = 2
COMMANDS: Final = 200


def fastest(*actions: Callable[[], object]) -> list[float]:
    """Seconds of the fastest of many runs of each, in turns: a slow moment of the machine meets all alike."""
    for action in actions:
        action()
    best = [float("inf")] * len(actions)
    for _ in range(ROUNDS):
        for number, action in enumerate(actions):
            start = time.perf_counter()
            action()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


def _by_pillow(frame: RawFrame, region: FrameRegion) -> bytes:
    """Frame of RGB bytes to an int8 tensor: copy in, crop, resize by box, subtract 128."""
    image = Image.frombytes("RGB", (frame.width, frame.height), frame.data)
    box = (region.start_x, region.start_y, region.end_x, region.end_y)
    image = image.resize((region.width, region.height), Image.Resampling.BOX, box=box)
    return image.tobytes().translate(_MINUS_128)


_MINUS_128: Final = bytes(value ^ 0x80 for value in range(256))


async def _frames() -> dict[Encoding, RawFrame]:
    encodings = (Encoding.BAYER_RGGB, Encoding.YUV422, Encoding.RGB)
    return {each: await PatternSource(Pattern.NOISE, WIDTH, HEIGHT, each).frame() for each in encodings}


async def _stream() -> list[Row]:
    """Frames a second of a stream with the digits network, and how long a command takes meanwhile."""
    board = Board(sensor=SensorSpec(1, "pattern:noise", "bayer", WIDTH, HEIGHT))
    async with open_device(board) as device:
        await device.load_model(digits.model_bytes())
        engine, c = device.engines[0], device.local[0]
        await set_command(c, Command.START_ACQUIRE_STREAM)
        await trio.sleep(0.5)  # the first frames work out the filters
        before, start = engine.inferences, time.perf_counter()
        await trio.sleep(STREAM_SECONDS)
        rate = (engine.inferences - before) / (time.perf_counter() - start)
        latencies = []
        for _ in range(COMMANDS):
            await trio.sleep(0.003)
            asked = time.perf_counter()
            await get_command(c, Command.GET_OUTPUT_TENSOR)
            latencies.append(time.perf_counter() - asked)
        await set_command(c, Command.START_ACQUIRE_SINGLE)
    return [
        Row("stream of 640x480 bayer into the digits network", rate, "frames/s"),
        Row("GET_OUTPUT_TENSOR while streaming, median", statistics.median(latencies) * 1e3, "ms"),
        Row("GET_OUTPUT_TENSOR while streaming, longest", max(latencies) * 1e3, "ms"),
    ]


def run() -> list[Row]:
    """Measure; about 10 s."""
    return _image_path() + trio.run(_stream)


def _image_path() -> list[Row]:
    frames = trio.run(_frames)
    path = ImagePath()
    rows = []
    for target in TARGETS:
        region = FrameRegion(0, WIDTH, 0, HEIGHT, *target)
        actions: list[Callable[[], object]] = [
            lambda frame=frame, region=region: path.to_tensor(frame, region)  # type: ignore[misc]
            for frame in frames.values()
        ]
        actions.append(lambda region=region: _by_pillow(frames[Encoding.RGB], region))  # type: ignore[misc]
        *ours, pillow = fastest(*actions)
        size = f"640x480 to {target[0]}x{target[1]}"
        for encoding, seconds in zip(frames, ours, strict=True):
            rows.append(Row(f"image path, {encoding.value} {size}", 1 / seconds, "frames/s"))
        rows.append(Row(f"Pillow, rgb {size}", 1 / pillow, "frames/s"))
        rows.append(Row(f"image path, bayer : Pillow, rgb, {size}", pillow / ours[0], "times"))
    return rows


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>12.2f} {row.unit}")
