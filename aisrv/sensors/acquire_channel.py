"""A command on the channel to the acquire task: both sides, in the order of the wire, and its values.

Every command goes the same way, so that one that is refused leaves the channel ready for the next:

    client                                    task
    command word, argument bytes
                                              status word, data bytes

words as normal outputs, bytes as arrays (`xcore.array`). The data of a status other than OKAY are the reason
as text. On a second channel the task sends FRAME or NO_FRAME when a frame that was asked for has come, or has
failed to, so that a client can wait in a select for it. The protocol is ours, in the manner of the engine's.
"""

import enum
from typing import Annotated, Final, NamedTuple

from aisrv.protocol.commands import FrameRegion, RegisterWrite, Status
from aisrv.protocol.engine_channel import MAX_ARRAY
from aisrv.sensors.image.frame import Encoding, frame_size
from aisrv.values.packet import U8, U32, Packet, Wire
from aisrv.xcore.channels.array import Array, receive_array, send_array
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.channels.verb import Steps, verb

FRAME: Final = 7
"""Control token: a frame that was asked for is there."""

NO_FRAME: Final = 8
"""Control token: the sensor failed to give a frame that was asked for; EXPLAIN says why."""

LARGEST_IMAGE: Final = 16 * 1024 * 1024
"""Limit of an image's bytes: far more than a tile has, and a bound on the cost of a command."""

_ENCODINGS: Final = tuple(Encoding)


class AcquireCommand(enum.IntEnum):
    """Command words of the acquire task."""

    DESCRIBE = 0
    """Answered with three u32: width, height, encoding (0 Bayer, 1 YUV 4:2:2, 2 RGB, 3 samples)."""
    EXPOSE = 1
    """Asks for the next frame: token 7 follows on the second channel, or token 8 where there was none. Asking
    twice is asking once."""
    FETCH_IMAGE = 2
    """A region, and 1 or 3 channels in a byte; answered with that part of the latest frame as int8 pixels,
    row by row."""
    READ_FRAME = 3
    """Answered with the latest frame as the sensor gave it; zeros before the first."""
    WRITE_FRAME = 4
    """A frame's bytes, which take the place of the latest frame until the next comes."""
    SET_I2C = 5
    """Address, register and value in three bytes."""
    EXPLAIN = 6
    """Refused with the reason where the last exposure failed."""


def _encoding(number: int) -> Encoding:
    if number >= len(_ENCODINGS):
        raise ValueError(f"encoding {number}, there are {len(_ENCODINGS)}")
    return _ENCODINGS[number]


class FrameFormat(Packet, byte_order="<", name="a frame format"):
    """Size and encoding of all frames of a sensor."""

    width: U32
    height: U32
    encoding: Annotated[Encoding, Wire("I", _encoding, _ENCODINGS.index)]

    @property
    def nbytes(self) -> int:
        """Bytes of a frame."""
        return frame_size(self.width, self.height, self.encoding)

    def whole(self, width: int, height: int) -> FrameRegion:
        """Return the region that is the whole frame, at a target size."""
        return FrameRegion(0, self.width, 0, self.height, width, height)


class ImageRequest(Packet, byte_order="<", name="an image request"):
    """A part of the latest frame, and whether in color (3 bytes a pixel, RGB) or gray (1, luma)."""

    region: Annotated[FrameRegion, Wire(f"{FrameRegion.SIZE}s", FrameRegion.from_bytes, bytes)]
    channels: U8 = 3

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise ValueError("an image has 1 or 3 channels")


class AcquireError(Exception):
    """Refusal of the acquire task; the text is its reason."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status: Final = status


class AcquireEnds(NamedTuple):
    """The task's ends of a client's two channels."""

    commands: ChanEnd
    frames: ChanEnd


class AcquireChannel:
    """A client of the acquire task, for one task at a time. Every method raises AcquireError."""

    def __init__(self, commands: ChanEnd, frames: ChanEnd) -> None:
        self._c = commands
        self.frames: Final = frames
        """Ready when a frame that was asked for has come: for a select."""
        self._asked = False

    async def describe(self) -> FrameFormat:
        """Ask for the format of frames, which never changes."""
        return FrameFormat.from_bytes(await self._command(AcquireCommand.DESCRIBE))

    async def ask(self) -> None:
        """Request the next frame, unless one is already requested."""
        if not self._asked:
            await self._command(AcquireCommand.EXPOSE)
            self._asked = True

    async def await_frame(self) -> None:
        """Wait until the frame that was asked for has come; ERROR_INFER_ERR if the sensor had none."""
        notification = await self.frames.inct()
        self._asked = False
        if notification == NO_FRAME:
            await self._command(AcquireCommand.EXPLAIN)

    async def expose(self) -> None:
        """Ask for a frame that comes later than now, and wait for it."""
        if self.frames.ready:  # what a stream left that has ended: who knows how old
            await self.frames.inct()
            self._asked = False
        await self.ask()
        await self.await_frame()

    async def image(self, request: ImageRequest) -> bytes:
        return await self._command(AcquireCommand.FETCH_IMAGE, bytes(request))

    async def frame(self) -> bytes:
        """Fetch the latest frame in the sensor's encoding; zeros before the first."""
        return await self._command(AcquireCommand.READ_FRAME)

    async def write_frame(self, data: bytes) -> None:
        await self._command(AcquireCommand.WRITE_FRAME, data)

    async def set_i2c(self, address: int, register: int, value: int) -> None:
        """Write a register of the device at an I2C address; each number is a byte."""
        await self._command(AcquireCommand.SET_I2C, bytes(RegisterWrite(address, register, value)))

    async def _command(self, command: AcquireCommand, arguments: bytes = b"") -> bytes:
        status, data = await acquire_command(self._c, command, arguments)
        if status:
            raise AcquireError(status, data.decode(errors="replace"))
        return data


@verb
def acquire_command(c: ChanEnd, command: int, arguments: bytes) -> Steps[tuple[Status, bytes]]:
    """Client: send a command and await its answer."""
    yield from chan_out_word(c, command)
    yield from send_array(c, arguments)
    status = Status((yield from chan_in_word(c)))
    return status, bytes((yield from receive_array(c, MAX_ARRAY)).data)


@verb
def receive_command(c: ChanEnd, limit: int) -> Steps[tuple[int, Array]]:
    """Task: receive a command and its arguments, keeping `limit` bytes of them at most."""
    command = yield from chan_in_word(c)
    return command, (yield from receive_array(c, limit))


@verb
def answer_command(c: ChanEnd, status: Status, data: bytes) -> Steps[None]:
    """Task: answer the command."""
    yield from chan_out_word(c, status)
    yield from send_array(c, data)
