"""Digits before a camera: a stream classifies as the interpreter called directly does, byte by byte."""

import trio

from aisrv import digits
from aisrv.protocol.commands import Command
from aisrv.sensors.image.frame import Encoding, RawFrame
from aisrv.sensors.image.image_path import ImagePath
from tests.support import networks
from tests.support.camera_device import OKAY, PacedSource, camera
from tests.support.simulation import simulated

MODEL = digits.model_bytes()
IMAGES = [image for image, _ in digits.test_images()[:8]]
SIDE = 8


class DigitSource(PacedSource):
    """Digit n at second n, 1 the first, as gray in RGB."""

    def __init__(self) -> None:
        super().__init__(SIDE, SIDE)

    async def frame(self) -> RawFrame:
        await super().frame()
        image = IMAGES[self.taken[-1] - 1]
        data = b"".join(bytes((value ^ 0x80,)) * 3 for value in image)
        return RawFrame(SIDE, SIDE, Encoding.RGB, data)


@simulated
async def test_each_digit_of_the_stream_is_classified() -> None:
    async with camera(MODEL, source=DigitSource(), image_path=ImagePath()) as device:
        assert await device.host.put(Command.START_ACQUIRE_STREAM) == OKAY
        for second, image in enumerate(IMAGES, start=1):
            await trio.sleep_until(second + 0.5)
            assert await device.host.get(Command.GET_INPUT_TENSOR) == image
            assert await device.other.get(Command.GET_OUTPUT_TENSOR) == networks.run(MODEL, image)[0]
