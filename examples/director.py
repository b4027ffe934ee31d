"""A director: a task on the xcore that runs two engines in turn, a detector and a reader.

Each frame is a strip of paper with four places for a digit; the digits network's test images stand in for a
camera. The detector, a network of one operator, says how much ink is in each place. The director cuts out
every place with enough of it and has the reader, the digits network, read that. No host takes part: the
director uses the engines over local channel ends. Run it with `python examples/director.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import trio
from tflite import BuiltinOperator, Padding, TensorType

from aisrv import digits
from aisrv.board import KIB, Board, EngineSpec
from aisrv.device.device import open_device
from aisrv.inference.engine import Runners
from aisrv.inference.process.isolation import isolated
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator
from aisrv.xcore.channels.chanend import ChanEnd
from phy.local import (
    aisrv_local_get_output_tensor,
    aisrv_local_load_model,
    aisrv_local_set_input_tensor,
    aisrv_local_start_inference,
)

SIDE: Final = digits.IMAGE_SIDE
PLACES: Final = 4
WIDTH: Final = PLACES * SIDE
ENOUGH: Final = 1.0
"""Mean pixel, of 0 to 16, from which a place is worth reading."""

_ENGINE: Final = EngineSpec(tile=0, arena_bytes=64 * KIB)
BOARD: Final = Board(engines=(_ENGINE, _ENGINE))
"""Both engines on tile 0, where the director runs too: engine 0 is the detector, engine 1 the reader."""

SHADES: Final = " .:-=+*#%@"


@dataclass(frozen=True, slots=True)
class Sight:
    """What the director read in one frame."""

    frame: bytes
    """The pixels, int8 [8, 32]."""
    ink: tuple[float, ...]
    """Mean pixel of each place, 0 to 16."""
    text: str
    """The digit in each place, a space where there is none."""


def detector_network() -> bytes:
    """Mean of each place: int8 [1, 8, 32, 1] to int8 [1, 1, 4, 1], quantized as the digits' images are."""
    pixels = Quantization.per_tensor(1 / 240, -128)
    pool = NetworkOperator(
        BuiltinOperator.AVERAGE_POOL_2D,
        ("frame",),
        ("ink",),
        {
            "padding": Padding.VALID,
            "stride_w": SIDE,
            "stride_h": SIDE,
            "filter_width": SIDE,
            "filter_height": SIDE,
        },
    )
    frame = Tensor("frame", (1, SIDE, WIDTH, 1), TensorType.INT8, pixels)
    ink = Tensor("ink", (1, 1, PLACES, 1), TensorType.INT8, pixels)
    return bytes(Network((frame, ink), (pool,), ("frame",), ("ink",), "ink in each place"))


def cut_out(frame: bytes, place: int) -> bytes:
    """Return one place of a frame, the reader's input tensor."""
    rows = (frame[row * WIDTH + place * SIDE :][:SIDE] for row in range(SIDE))
    return b"".join(rows)


async def director(
    detector: ChanEnd, reader: ChanEnd, frames: Sequence[bytes], sights: trio.MemorySendChannel[Sight]
) -> None:
    """Look at every frame with the detector, then read what it found; a task for a core."""
    await aisrv_local_load_model(detector, detector_network())
    await aisrv_local_load_model(reader, digits.model_bytes())
    async with sights:
        for frame in frames:
            ink = await detect(detector, frame)
            text = ""
            for place in range(PLACES):
                text += str(await read(reader, cut_out(frame, place))) if ink[place] >= ENOUGH else " "
            await sights.send(Sight(frame, ink, text))


async def detect(detector: ChanEnd, frame: bytes) -> tuple[float, ...]:
    """Return the mean pixel of each place."""
    await aisrv_local_set_input_tensor(detector, frame)
    await aisrv_local_start_inference(detector)
    means = memoryview(await aisrv_local_get_output_tensor(detector)).cast("b")
    return tuple((mean - digits.INT8_PAPER) / digits.INT8_STEP for mean in means)


async def read(reader: ChanEnd, image: bytes) -> int:
    """Return the digit that an image shows."""
    await aisrv_local_set_input_tensor(reader, image)
    await aisrv_local_start_inference(reader)
    scores = memoryview(await aisrv_local_get_output_tensor(reader)).cast("b")
    return max(range(digits.CLASSES), key=scores.__getitem__)


# The frames, and how they are shown.

PAPER: Final = digits.quantize_pixels(bytes(SIDE * SIDE))
SMUDGE: Final = digits.quantize_pixels(bytes(27) + bytes((3, 5)) + bytes(6) + bytes((4, 7)) + bytes(27))


def strip(*places: bytes) -> bytes:
    """Lay four images side by side."""
    return b"".join(image[row * SIDE :][:SIDE] for row in range(SIDE) for image in places)


def frames() -> list[bytes]:
    """Four strips of paper."""
    first = {label: image for image, label in reversed(digits.test_images())}
    return [
        strip(first[4], first[2], PAPER, first[7]),
        strip(PAPER, SMUDGE, first[3], PAPER),
        strip(PAPER, PAPER, PAPER, SMUDGE),
        strip(first[9], first[0], first[1], first[8]),
    ]


def show(sight: Sight) -> None:
    """Print a frame and what was read in it."""
    for row in range(SIDE):
        pixels = digits.pixels_of(sight.frame[row * WIDTH :][:WIDTH])
        print("".join(2 * SHADES[pixel * (len(SHADES) - 1) // digits.INK] for pixel in pixels).rstrip())
    print("ink " + "".join(f"{each:^16.1f}" for each in sight.ink).rstrip())
    print(f"reads {sight.text!r}\n")


async def run(runner: Runners = isolated) -> list[Sight]:
    """Open the board, start the director on tile 0 and collect what it saw."""
    async with open_device(BOARD, runner=runner) as device:
        detector, reader = device.local
        send, receive = trio.open_memory_channel[Sight](0)
        device.node.tiles[0].start(director, detector, reader, frames(), send)
        async with receive:
            return [sight async for sight in receive]


if __name__ == "__main__":
    for seen in trio.run(run):
        show(seen)
