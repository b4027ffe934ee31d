"""The AI server's wire values: commands, status bits, the spec words and the USB command packet.

Values only, no I/O. Codes and layouts follow "XCORE AI server: numbers and wire behavior", sections
Commands and USB framing; every integer is little-endian.
Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

import enum
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aisrv.values.packet import I8, U8, U16, U32, Packet, replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

SERVER_ID: Final = 0x12345678
"""What GET_ID answers."""

USB_VENDOR_ID: Final = 0x20B1
USB_PRODUCT_ID: Final = 0xA15E
USB_MANUFACTURER: Final = "XMOS"
USB_PRODUCT: Final = "xAISRV"
ENDPOINT_OUT: Final = 0x01
ENDPOINT_IN: Final = 0x81
PACKET_SIZE: Final = 512
"""wMaxPacketSize of both bulk endpoints, in bytes: a shorter packet ends a transfer."""

TICKS_PER_SECOND: Final = 100_000_000
"""Rate of the reference clock, a tick of 10 ns, in which GET_TIMINGS counts unless a board has another."""

GPIO_COUNT: Final = 4
"""Outputs that an engine can drive from its output tensor."""


class ProtocolError(ValueError):
    """Bytes that are not a value of this protocol."""


class AisrvPacket(Packet, byte_order="<", error=ProtocolError):
    """Base of what crosses between a host and the AI server."""


class Spi(enum.Enum):
    """Form of a command over SPI."""

    SILENT = "silent"
    """A transaction without effect."""
    READ = "read"
    """A transaction that answers."""
    IN_SPEC = "in the spec"
    """No transaction: the spec words have the answer."""
    BLOCKS = "write"
    """A write, in blocks."""
    BARE = "bare"
    """A transaction that starts something."""


class Fetched(enum.Enum):
    """Moments at which an SPI port asks its engine for an answer to a master."""

    AT_START = "at start"
    """Once: it never changes."""
    WITH_MODEL = "with a model"
    """Whenever the model has changed."""
    WITH_RESULTS = "with results"
    """After each inference; a new model empties it."""


class Varies(enum.Enum):
    """Part of an answer that differs from run to run."""

    NOTHING = "nothing"
    """All is the same."""
    DATA = "data"
    """The data, not how long they are."""
    LENGTH = "length"
    """The data, and how long they are."""


class Declared(NamedTuple):
    """Properties of a command besides its name, the string below it and its handler in the engine."""

    code: int
    """Bit 7 set: the host writes data (SET); clear: it reads (GET)."""
    spi: Spi | None = None
    """Form over SPI; None if SPI refuses it."""
    size: int | Callable[[Spec], int] | None = None
    """Bytes that an SPI host reads of the answer, or the number that IN_SPEC answers; a spec may say it."""
    fetched: Fetched | None = None
    """Moment at which the SPI port asks for it; None if the port knows itself."""
    varies: Varies = Varies.NOTHING
    """Part of the answer that differs from run to run."""


class Command(enum.IntEnum):
    """Commands of the AI engine, each declared here: what else is known of them follows from it.

    Each has a handler in `aisrv.engine`, but the one of SPI alone.
    """

    spi: Spi | None
    """Form over SPI; None if SPI refuses it."""
    size: int | Callable[[Spec], int] | None
    """See `Declared.size`."""
    fetched: Fetched | None
    """Moment at which the SPI port asks for it; None if the port knows itself."""
    varies: Varies
    """Part of the answer that differs from run to run."""

    def __new__(cls, code: int, *more: Any) -> Self:  # noqa: ANN401 - the fields of `Declared`
        """Make a member of what is `Declared`."""
        member = int.__new__(cls, code)
        _, member.spi, member.size, member.fetched, member.varies = Declared(member, *more)
        member._value_ = code
        return member

    def size_by(self, spec: Spec) -> int:
        """Return the declared size, in bytes, for the model of a `spec`; 0 where none is declared."""
        return self.size(spec) if callable(self.size) else self.size or 0

    NONE = Declared(0x00, Spi.SILENT)
    """No effect."""
    GET_STATUS = Declared(0x01, Spi.READ, size=4)
    """u32: the status bits; reading them clears the error bits."""
    GET_INPUT_TENSOR = 0x03
    """The bytes of an input tensor."""
    SET_SERVER = Declared(0x04, Spi.BLOCKS)
    """The upgrade image of the server, over SPI only: the one SET without bit 7."""
    GET_OUTPUT_TENSOR = Declared(0x05, Spi.READ, size=lambda spec: spec.output_bytes)
    """The bytes of an output tensor."""
    GET_SPEC = Declared(0x08, Spi.READ, size=24)
    """The spec words: five over USB, six over SPI."""
    GET_TIMINGS = Declared(
        0x09, Spi.READ, lambda spec: 4 * spec.timing_count, Fetched.WITH_RESULTS, varies=Varies.DATA
    )
    """A u32 for each operator of the last run, in ticks of the reference clock: 10 ns at 100 MHz."""
    GET_INPUT_TENSOR_LENGTH = Declared(0x0A, Spi.IN_SPEC, size=lambda spec: spec.input_bytes)
    """u32: the bytes of an input tensor."""
    GET_OUTPUT_TENSOR_LENGTH = Declared(0x0B, Spi.IN_SPEC, size=lambda spec: spec.output_bytes)
    """u32: the bytes of an output tensor."""
    GET_SENSOR_TENSOR_LENGTH = 0x0C
    """Ours: u32 bytes of a sensor's frame, 0 without a sensor."""
    GET_SENSOR_TENSOR = 0x0D
    """The bytes of the sensor's latest frame."""
    GET_ACQUIRE_MODE = 0x0E
    """u32: 0 single, 1 stream; 0 without a sensor."""
    GET_DEBUG_LOG = Declared(0x0F, Spi.READ, size=2048, varies=Varies.LENGTH)
    """2,048 bytes: the newest lines of the log as text, padded with NUL."""
    GET_ID = Declared(0x10, Spi.READ, size=4, fetched=Fetched.AT_START)
    """u32: 0x12345678."""
    GET_OUTPUT_GPIO_EN = 0x11
    """u32: 1 while inferences drive the outputs, else 0."""
    GET_OUTPUT_GPIO_THRESH = 0x12
    """Four i8, the threshold of each output."""
    GET_OUTPUT_GPIO_MODE = 0x13
    """u32: 0 none, 1 max."""
    GET_BOOT = Declared(0x14, Spi.READ, size=20, fetched=Fetched.AT_START)
    """Ours: five words, what was booted at the last reset; no data without flash."""
    GET_MEMORY = 0x15
    """Ours: six words, where a model and its tensors lie in the engine's memories."""
    GET_TENSORS = 0x16
    """Ours: u16 inputs, u16 outputs; for each tensor u8 type, u8 dimensions, u16 0, f32 scale, i32 zero
    point, and a u32 for each dimension."""
    GET_SENSOR_FORMAT = 0x17
    """Ours: u32 width, u32 height, u32 encoding (0 Bayer, 1 YUV 4:2:2, 2 RGB, 3 samples) of a sensor's
    frames; no data without a sensor."""
    GET_PROFILE = Declared(0x18, varies=Varies.LENGTH)
    """Ours: the profiler summary of the last run as text, which goes to the debug log, too."""
    GET_OPERATORS = 0x19
    """Ours: the name of each operator of the model, in execution order, a zero byte behind each."""
    GET_TIMING_BANDS = Declared(0x1A, Spi.READ, lambda spec: 12 + 8 * spec.timing_count, Fetched.WITH_MODEL)
    """Ours: u32 Hz of the reference clock, u32 lowest and u32 highest ticks of an inference; the same two of
    each operator."""
    HELLO = Declared(0x55, Spi.SILENT)
    """First contact over SPI; no effect."""
    SET_INPUT_TENSOR = Declared(0x83, Spi.BLOCKS)
    """The bytes of an input tensor, which may be padded to whole words."""
    START_INFER = Declared(0x84, Spi.BARE)
    """No data: runs the model."""
    SET_MODEL_ARENA = Declared(0x86, Spi.BLOCKS)
    """A `.tflite` file, for the arena."""
    SET_MODEL_EXT = Declared(0x87, Spi.BLOCKS)
    """A `.tflite` file, for external memory."""
    START_ACQUIRE_SINGLE = Declared(0x8C, Spi.BARE)
    """Six u16, the region and its size, or no data for the whole frame: acquires one frame."""
    SET_SENSOR_TENSOR = 0x8D
    """The bytes of a frame, which stand for the sensor's latest until the next one comes."""
    START_ACQUIRE_STREAM = 0x8E
    """No data: acquires and infers until the stream ends."""
    START_ACQUIRE_SET_I2C = 0x8F
    """Three bytes, address, register and value: writes a register of the sensor."""
    SET_OUTPUT_GPIO_EN = 0x91
    """0 or 1 in 1 to 4 bytes: whether inferences drive the outputs."""
    SET_OUTPUT_GPIO_THRESH = 0x92
    """u8 index, i8 threshold of an output."""
    SET_OUTPUT_GPIO_MODE = 0x93
    """0 none or 1 max, in 1 to 4 bytes."""
    SET_MODEL_ARENA_FLASH = 0x96
    """No data: the model is read from flash, into the arena."""
    SET_MODEL_EXT_FLASH = 0x97
    """No data: the model is read from flash, into external memory."""


ENGINE_COMMANDS: Final = tuple(command for command in Command if command is not Command.SET_SERVER)
"""The commands that an engine carries out; the upgrade of the server is none of its."""


def is_set(command: int) -> bool:
    """Return whether the host writes data with this command code, known or not."""
    return bool(command & 0x80)


def commands_of(*kinds: Spi) -> frozenset[Command]:
    """Return the commands that are of one of these kinds over SPI."""
    return frozenset(command for command in Command if command.spi in kinds)


FETCHED: Final = {
    moment: tuple(command for command in Command if command.fetched is moment) for moment in Fetched
}
"""The commands that an SPI port asks its engine at each moment."""


def command_name(command: int) -> str:
    """Name a command code, known or not, for messages."""
    try:
        return Command(command).name
    except ValueError:
        return f"command 0x{command:02x}"


class Status(enum.IntFlag):
    """Status word of a command; no bit set is OKAY."""

    OKAY = 0
    """No bit is set."""
    BUSY = 0x01
    """Over SPI: the command is in progress."""
    SENSING = 0x02
    """Over SPI: the device waits for a frame."""
    ERROR_NO_MODEL = 0x04
    """The command needs a model, and none is loaded."""
    ERROR_MODEL_ERR = 0x08
    """The model cannot be loaded, or does not fit."""
    ERROR_INFER_ERR = 0x10
    """The inference, or the acquisition, failed."""
    ERROR_BAD_CMD = 0x20
    """An unknown command; or an engine, tensor, length or value that does not exist."""


STATUS_ERRORS: Final = (
    Status.ERROR_NO_MODEL | Status.ERROR_MODEL_ERR | Status.ERROR_INFER_ERR | Status.ERROR_BAD_CMD
)
"""The bits that report a failure, as against the states BUSY and SENSING."""


class AcquireMode(enum.IntEnum):
    """Answer of GET_ACQUIRE_MODE."""

    SINGLE = 0
    """Frames are acquired one by one, on request."""
    STREAM = 1
    """Frames are acquired and inferred one after the other."""


class GpioMode(enum.IntEnum):
    """Rule by which an engine drives its GPIO outputs from output tensor 0."""

    NONE = 0
    """An output is high where its element is above its threshold."""
    MAX = 1
    """Only the output of the largest element may be high."""


class Dialect(enum.Enum):
    """The two framings of a USB command; the length of the command packet tells which."""

    CLASSIC = "classic"
    """Three bytes, or the command alone as the first hosts sent it; failures halt both bulk endpoints."""

    DESIGN = "design"
    """Three words; every command answers its status in a packet of its own."""


_DESIGN: Final = struct.Struct("<3I")
_EARLY_SIZE: Final = 1
"""Bytes of a command packet of the first hosts: the command, for engine 0 and tensor 0."""


class CommandPacket(AisrvPacket, name="a command packet"):
    """The OUT packet that opens a command: command, engine and tensor numbers.

    The command stays a plain integer: a host may send a code that nobody knows.
    """

    command: U8
    """The code; bit 7 tells a SET."""
    engine: U8 = 0
    """The number of the engine."""
    tensor: U8 = 0
    """The number of the tensor."""
    dialect: Dialect = Dialect.CLASSIC
    """The framing, which the length of the packet tells."""

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read `data` of 1 or 3 bytes (classic) or 12 (design); any other length is a ProtocolError."""
        if len(data) == cls.SIZE:
            return cls(*cls._unpack_from(data, 0))
        if len(data) == _DESIGN.size:
            command, engine, tensor = _DESIGN.unpack(data)
            return cls(command, engine, tensor, Dialect.DESIGN)
        if len(data) == _EARLY_SIZE:
            return cls(data[0])
        raise ProtocolError(f"a command packet has 1, 3 or 12 bytes, not {len(data)}")

    def __bytes__(self) -> bytes:
        pack = _DESIGN.pack if self.dialect is Dialect.DESIGN else self._pack
        try:
            return pack(self.command, self.engine, self.tensor)
        except struct.error as error:
            raise ProtocolError(f"{self} does not fit the {self.dialect.value} framing: {error}") from None


class FrameRegion(AisrvPacket, name="a region"):
    """Data of START_ACQUIRE_SINGLE: the wanted part of a frame, ends excluded, and its size subsampled."""

    start_x: U16
    """The first column."""
    end_x: U16
    """The column after the last."""
    start_y: U16
    """The first row."""
    end_y: U16
    """The row after the last."""
    width: U16
    """Columns of the result."""
    height: U16
    """Rows of the result."""


class RegisterWrite(AisrvPacket, name="a register write"):
    """Data of START_ACQUIRE_SET_I2C: the sensor's address, a register and its new value."""

    address: U8
    """The sensor's I2C address, of seven bits."""
    register: U8
    """The register's number."""
    value: U8
    """New value."""


class GpioThreshold(AisrvPacket, name="a threshold"):
    """Data of SET_OUTPUT_GPIO_THRESH: an output, and the level above which it is high."""

    index: U8
    """The output, 0 to 3."""
    threshold: I8
    """The output is high where its element is above this."""


class Spec(AisrvPacket, name="a spec"):
    """Answer of GET_SPEC: 5 words over USB, a sixth (sensor frame bytes) over SPI."""

    server_kind: U8 = 0
    """0: the specification numbers no kinds."""
    tiles: U8 = 0
    """Tiles of the node."""
    internal_kib: U16 = 0
    """KiB of internal memory of each tile."""
    flash_kib: U16 = 0
    """KiB of flash."""
    external_kib: U16 = 0
    """KiB of external memory."""
    input_bytes: U32 = 0
    """Bytes of all input tensors; 0 while no model is loaded."""
    output_bytes: U32 = 0
    """Bytes of all output tensors; 0 while no model is loaded."""
    timing_count: U32 = 0
    """Number of timings; 0 while no model is loaded."""
    sensor_bytes: int | None = None
    """Bytes of a sensor's frame. Over SPI only: USB has five words, and None here."""

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read `data` of 20 bytes (USB) or 24 (SPI); any other length is a ProtocolError."""
        if len(data) not in (cls.SIZE, cls.SIZE + 4):
            raise ProtocolError(f"a spec has {cls.SIZE} or {cls.SIZE + 4} bytes, not {len(data)}")
        spec = cls.unpack_from(data)
        if len(data) == cls.SIZE:
            return spec
        return replace(spec, sensor_bytes=int.from_bytes(data[cls.SIZE :], "little"))

    def __bytes__(self) -> bytes:
        words = Packet.__bytes__(self)
        if self.sensor_bytes is None:
            return words
        try:
            return words + self.sensor_bytes.to_bytes(4, "little")
        except OverflowError as error:
            raise ProtocolError(f"{self} does not fit the six words of a spec: {error}") from None
