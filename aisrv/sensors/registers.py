"""Register models of sensors: the effect of register writes over I2C on the picture.

A model lies between a source and the image path: exposure and gain scale the picture, a test pattern replaces
it. That scaling is ours; what real parts add (noise, automatic exposure, the blanking that long exposures
need) is not modeled.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from aisrv.protocol.i2c import I2cNak
from aisrv.sensors.image.frame import Encoding, RawFrame

Color = tuple[int, int, int]
"""Red, green, blue, each 0 to 255."""

WHITE: Final = (255, 255, 255)
YELLOW: Final = (255, 255, 0)
CYAN: Final = (0, 255, 255)
GREEN: Final = (0, 255, 0)
MAGENTA: Final = (255, 0, 255)
RED: Final = (255, 0, 0)
BLUE: Final = (0, 0, 255)
BLACK: Final = (0, 0, 0)
COLOR_BARS: Final = (WHITE, YELLOW, CYAN, GREEN, MAGENTA, RED, BLUE, BLACK)


def scaled(frame: RawFrame, gain: float) -> RawFrame:
    """Scale the brightness of a picture by `gain`, with its colors, up to white. Samples stay as they are."""
    if gain == 1 or frame.encoding is Encoding.SAMPLES:
        return frame
    levels = bytes(min(255, round(level * gain)) for level in range(256))
    if frame.encoding is not Encoding.YUV422:
        return replace(frame, data=frame.data.translate(levels))
    differences = bytes(max(0, min(255, round(128 + (level - 128) * gain))) for level in range(256))
    data = bytearray(frame.data)
    data[0::2] = data[0::2].translate(levels)
    data[1::2] = data[1::2].translate(differences)
    return replace(frame, data=bytes(data))


def bars(frame: RawFrame, colors: tuple[Color, ...]) -> RawFrame:
    """Replace a picture by vertical bars of equal width, to whole pixels. Samples stay as they are."""
    if frame.encoding is Encoding.SAMPLES:
        return frame
    row = [colors[x * len(colors) // frame.width] for x in range(frame.width)]
    even, odd = _ROWS[frame.encoding](row)
    return replace(frame, data=(even + odd) * (frame.height // 2) + even * (frame.height % 2))


def _bayer_rows(row: list[Color]) -> tuple[bytes, bytes]:
    red_green = bytes(color[x % 2] for x, color in enumerate(row))
    green_blue = bytes(color[1 + x % 2] for x, color in enumerate(row))
    return red_green, green_blue


def _yuv_rows(row: list[Color]) -> tuple[bytes, bytes]:
    data = bytearray()
    for x, (red, green, blue) in enumerate(row):
        y = 0.299 * red + 0.587 * green + 0.114 * blue
        first = row[x - x % 2]  # a pair has the color of its first pixel
        first_y = 0.299 * first[0] + 0.587 * first[1] + 0.114 * first[2]
        difference = (first[2] - first_y) / 1.772 if x % 2 == 0 else (first[0] - first_y) / 1.402
        data += bytes((round(y), min(255, round(128 + difference))))
    return bytes(data), bytes(data)


def _rgb_rows(row: list[Color]) -> tuple[bytes, bytes]:
    data = b"".join(map(bytes, row))
    return data, data


_ROWS: Final[Mapping[Encoding, Callable[[list[Color]], tuple[bytes, bytes]]]] = MappingProxyType(
    {Encoding.BAYER_RGGB: _bayer_rows, Encoding.YUV422: _yuv_rows, Encoding.RGB: _rgb_rows}
)


@dataclass(frozen=True, slots=True)
class SensorRegister:
    """A register of a sensor."""

    number: int
    """Address on the sensor."""
    name: str
    meaning: str
    """Effect on the picture."""
    at_reset: int = 0
    """Value after a reset."""
    read_only: bool = False
    """Whether writes are ignored."""


class GenericSensor:
    """A sensor of ours with four registers; it does not acknowledge others."""

    CHIP_ID: Final = 0x5A
    EXPOSURE: Final = 0x01
    GAIN: Final = 0x02
    TEST_PATTERN: Final = 0x03
    PATTERNS: Final = MappingProxyType({1: COLOR_BARS, 2: (WHITE,), 3: (BLACK,)})
    REGISTERS: Final = (
        SensorRegister(0x00, "CHIP_ID", "the chip's id", CHIP_ID, read_only=True),
        SensorRegister(EXPOSURE, "EXPOSURE", "exposure: 64 is the picture as it is", 64),
        SensorRegister(GAIN, "GAIN", "gain: 16 is 1", 16),
        SensorRegister(TEST_PATTERN, "TEST_PATTERN", "0 none, 1 color bars, 2 white, 3 black"),
    )
    _READ_ONLY: Final = frozenset(register.number for register in REGISTERS if register.read_only)

    def __init__(self, address: int = 0x10) -> None:
        self.address: Final = address
        self._registers = {register.number: register.at_reset for register in self.REGISTERS}

    def write(self, register: int, value: int) -> None:
        """Write a register; raises I2cNak for an unknown register or test pattern."""
        self.read(register)
        if register == self.TEST_PATTERN and value and value not in self.PATTERNS:
            raise I2cNak(f"test pattern {value}, there are 0 to {max(self.PATTERNS)}")
        if register not in self._READ_ONLY:
            self._registers[register] = value

    def read(self, register: int) -> int:
        """Read a register; raises I2cNak for an unknown one."""
        if register not in self._registers:
            raise I2cNak(f"the sensor has no register 0x{register:02x}")
        return self._registers[register]

    def expose(self, frame: RawFrame) -> RawFrame:
        """Convert a frame of the source to what the sensor delivers."""
        pattern = self._registers[self.TEST_PATTERN]
        if pattern:
            return bars(frame, self.PATTERNS[pattern])
        return scaled(frame, self._registers[self.EXPOSURE] / 64 * self._registers[self.GAIN] / 16)


class Gc2145:
    """GalaxyCore GC2145, the two-megapixel camera of XMOS's own vision firmware, as far as pictures show it.

    Registers below 0xf0 are on page 0, the others on every page. It acknowledges every register, and keeps
    what is written to those without effect here.

    Sources, as facts: the Linux driver `drivers/media/i2c/gc2145.c` (registers, chip id, test patterns and
    their colors); XMOS's vision firmware (address 0x3C, pages). The exposure at reset is that of common
    initialization tables, 0x04e2 lines: with it and a gain of 1 the picture is as the source sees it. That is
    ours, as are the order and width of the bars. Exposure is always manual.
    """

    ADDRESS: Final = 0x3C
    CHIP_ID: Final = 0x2145
    EXPOSURE_HIGH: Final = 0x03
    EXPOSURE_LOW: Final = 0x04
    DEBUG_MODE2: Final = 0x8C
    DEBUG_MODE3: Final = 0x8D
    GLOBAL_GAIN: Final = 0xB0
    CHIP_ID_HIGH: Final = 0xF0
    CHIP_ID_LOW: Final = 0xF1
    PAGE_SELECT: Final = 0xFE
    NOMINAL_EXPOSURE: Final = 0x04E2
    UNITY_GAIN: Final = 0x40
    REGISTERS: Final = (
        SensorRegister(
            EXPOSURE_HIGH,
            "EXPOSURE_HIGH",
            "exposure in lines, bits 8 to 12; 0x04E2 is 1",
            NOMINAL_EXPOSURE >> 8,
        ),
        SensorRegister(
            EXPOSURE_LOW, "EXPOSURE_LOW", "exposure in lines, bits 0 to 7", NOMINAL_EXPOSURE & 0xFF
        ),
        SensorRegister(DEBUG_MODE2, "DEBUG_MODE2", "bit 0: a test pattern in the place of the picture"),
        SensorRegister(
            DEBUG_MODE3,
            "DEBUG_MODE3",
            "the test pattern: with bit 3 one color by bits 4 to 7 (0 black, 4 white, 5 red, 6 green, "
            "8 yellow, 9 cyan, 10 magenta), else bars",
        ),
        SensorRegister(GLOBAL_GAIN, "GLOBAL_GAIN", "gain: 0x40 is 1", UNITY_GAIN),
        SensorRegister(
            CHIP_ID_HIGH, "CHIP_ID_HIGH", "the chip's id, high byte", CHIP_ID >> 8, read_only=True
        ),
        SensorRegister(CHIP_ID_LOW, "CHIP_ID_LOW", "the chip's id, low byte", CHIP_ID & 0xFF, read_only=True),
        SensorRegister(PAGE_SELECT, "PAGE_SELECT", "bits 0 and 1: the page; bit 7: resets the registers"),
    )
    _READ_ONLY: Final = frozenset(register.number for register in REGISTERS if register.read_only)
    SOLID: Final = MappingProxyType({0: BLACK, 4: WHITE, 5: RED, 6: GREEN, 8: YELLOW, 9: CYAN, 10: MAGENTA})

    _COMMON: Final = 0xF0  # from here on all pages have the same registers

    def __init__(self) -> None:
        self._registers: dict[tuple[int, int], int] = {}
        self._page = 0
        self._reset()

    @property
    def address(self) -> int:
        """0x3C."""
        return self.ADDRESS

    def write(self, register: int, value: int) -> None:
        """Write a register of the selected page; the chip id keeps its value."""
        if register == self.PAGE_SELECT:
            if value & 0x80:
                self._reset()
            self._page = value & 0x03
        elif register not in self._READ_ONLY:
            self._registers[self._place(register)] = value

    def read(self, register: int) -> int:
        """Read a register of the selected page; 0 if nothing was written."""
        if register == self.PAGE_SELECT:
            return self._page
        return self._registers.get(self._place(register), 0)

    def expose(self, frame: RawFrame) -> RawFrame:
        """Convert a frame of the source to what the sensor delivers."""
        pattern = self._of_page_0(self.DEBUG_MODE3)
        if self._of_page_0(self.DEBUG_MODE2) & 0x01:
            solid = self.SOLID.get(pattern >> 4, BLACK)
            return bars(frame, (solid,) if pattern & 0x08 else COLOR_BARS)
        high, low = self._of_page_0(self.EXPOSURE_HIGH), self._of_page_0(self.EXPOSURE_LOW)
        exposure = (high & 0x1F) << 8 | low
        gain = self._of_page_0(self.GLOBAL_GAIN) / self.UNITY_GAIN
        return scaled(frame, exposure / self.NOMINAL_EXPOSURE * gain)

    def _reset(self) -> None:
        self._page = 0
        self._registers = {(0, register.number): register.at_reset for register in self.REGISTERS}

    def _place(self, register: int) -> tuple[int, int]:
        return (0 if register >= self._COMMON else self._page), register

    def _of_page_0(self, register: int) -> int:
        return self._registers.get((0, register), 0)


SENSOR_MODELS: Final[Mapping[str, Callable[[], GenericSensor | Gc2145]]] = MappingProxyType(
    {"generic": GenericSensor, "gc2145": Gc2145}
)
"""Models by their names in boards, each at its default address."""
