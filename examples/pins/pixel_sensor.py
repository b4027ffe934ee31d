"""A sensor of 8x8 pixels with an I2C bus: its registers, as `registers` of a peripheral names them.

It sees the digits network's test images, one after the other.
"""

from typing import Final

from aisrv import digits

ADDRESS: Final = 0x68
CHIP_ID: Final = 0x00
NEXT: Final = 0x01
"""Writing 1 takes the next frame."""
PIXELS: Final = 0x80
"""The first of 64 registers, each a pixel from 0, paper, to 16, ink."""
ID: Final = 0xD8


class PixelSensor:
    """The registers; those that are not there read 0."""

    address = ADDRESS

    def __init__(self) -> None:
        self._frames = iter(digits.test_images())
        self._pixels = bytes(64)

    def write(self, register: int, value: int) -> None:
        """Write a register; others than NEXT keep their value."""
        if register == NEXT and value == 1:
            image = next(self._frames, None)
            self._pixels = bytes(64) if image is None else bytes(digits.pixels_of(image.image))

    def read(self, register: int) -> int:
        """Read a register."""
        if register == CHIP_ID:
            return ID
        at = register - PIXELS
        return self._pixels[at] if 0 <= at < 64 else 0
