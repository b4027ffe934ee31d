"""The acquire task: exposes frames for its clients, and gives them images of the latest.

Two cores of one tile. `sensor` waits for the source, as the receiver of a camera's pixels does, and leaves
each frame in the memory that both share; `acquire` answers clients, also during an exposure. One frame serves
all clients that wait for it. Protocol: `aisrv.sensors.acquire_channel`.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from aisrv.protocol.commands import FrameRegion, RegisterWrite, Status
from aisrv.protocol.i2c import I2cDevice, I2cNak
from aisrv.sensors.acquire_channel import (
    FRAME,
    LARGEST_IMAGE,
    NO_FRAME,
    AcquireCommand,
    AcquireEnds,
    AcquireError,
    FrameFormat,
    ImageRequest,
    answer_command,
    receive_command,
)
from aisrv.sensors.i2c import I2cBus
from aisrv.sensors.image.frame import FrameSource, RawFrame, SourceError
from aisrv.sensors.image.image_path import check_region
from aisrv.values.activity import Activity
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.select import Selection
from aisrv.xcore.tokens import WORD_BYTES, Control

_EXPOSE: Final = Control.ACK
_SMALL: Final = 16  # bytes of the longest arguments that are not a frame, and of a frame's padding


class ImagePath(Protocol):
    """Makes int8 pixels, value - 128, of a region of a frame: `aisrv.sensors.image.image_path.ImagePath`."""

    def to_tensor(self, frame: RawFrame, region: FrameRegion) -> bytes:
        """Return RGB, height * width * 3 bytes."""

    def to_gray(self, frame: RawFrame, region: FrameRegion) -> bytes:
        """Return gray, height * width bytes."""


Transfer = Callable[[], Awaitable[None]]


class SensorModel(I2cDevice, Protocol):
    """A sensor's registers, which shape the pictures that it takes."""

    def expose(self, frame: RawFrame) -> RawFrame:
        """Convert a frame of the source to what the sensor with these registers delivers."""


class Exposure:
    """State that the two cores share: the latest frame, or the error of the last exposure."""

    def __init__(self, source: FrameSource) -> None:
        self.format: Final = FrameFormat(source.width, source.height, source.encoding)
        self.frame = RawFrame(source.width, source.height, source.encoding, bytes(self.format.nbytes))
        """The latest; zeros before the first."""
        self.failure: str | None = None
        """Error of the last exposure; None if it succeeded."""
        self.activity: Final = Activity()
        """Exposures."""


async def sensor(source: FrameSource, exposure: Exposure, c: ChanEnd) -> None:
    """Take a frame of the source for each token that comes, and answer it with one."""
    while True:
        await c.chkct(_EXPOSE)
        try:
            with exposure.activity.of("exposure", exposure.format.nbytes):
                frame = await source.frame()
            exposure.frame = _checked(frame, exposure.format)
            exposure.failure = None
        except SourceError as error:
            exposure.failure = str(error)
        await c.outct(_EXPOSE)


def _checked(frame: RawFrame, expected: FrameFormat) -> RawFrame:
    """Refuse a frame of another format than the source promised: clients have made room for that one."""
    got = FrameFormat(frame.width, frame.height, frame.encoding)
    if got != expected or len(frame.data) != expected.nbytes:
        raise SourceError(
            f"the source gave {got.width}x{got.height} {got.encoding.value} in {len(frame.data)} bytes, "
            f"it promised {expected.width}x{expected.height} {expected.encoding.value} in {expected.nbytes}"
        )
    return frame


async def acquire(
    exposure: Exposure,
    image_path: ImagePath,
    registers: SensorModel | None,
    clients: Sequence[AcquireEnds],
    c: ChanEnd,
    i2c_transfer: Transfer | None = None,
) -> None:
    """Serve the clients until cancelled; `c` is the channel to the `sensor` core.

    `registers` is on the I2C bus and shapes every frame; without it nothing acknowledges on the bus.
    `i2c_transfer` waits as long as the write of a register takes.
    """
    await AcquireTask(exposure, image_path, registers, clients, c, i2c_transfer).run()


class AcquireTask:
    """State of the task: the latest frame, the sensor's registers, and the clients that wait for a frame."""

    def __init__(
        self,
        exposure: Exposure,
        image_path: ImagePath,
        registers: SensorModel | None,
        clients: Sequence[AcquireEnds],
        c: ChanEnd,
        i2c_transfer: Transfer | None = None,
    ) -> None:
        self._exposure = exposure
        self._i2c_transfer = i2c_transfer
        self._frame = exposure.frame
        self._image_path = image_path
        self._registers = registers
        self._i2c = I2cBus(() if registers is None else (registers,))
        self._clients = {client.commands.name: client for client in clients}
        self._waiting: list[AcquireEnds] = []
        self._sensor = c
        self._something = Selection(c, *(client.commands for client in clients))

    async def run(self) -> None:
        while True:
            chosen = await self._something.wait()
            if chosen is self._sensor:
                await self._take_frame()
            else:
                await self._serve(self._clients[chosen.name])

    async def _take_frame(self) -> None:
        await self._sensor.chkct(_EXPOSE)
        if self._exposure.failure is None:
            frame = self._exposure.frame
            self._frame = frame if self._registers is None else self._registers.expose(frame)
        waiting, self._waiting = self._waiting, []
        notification = FRAME if self._exposure.failure is None else NO_FRAME
        for client in waiting:
            await client.frames.outct(notification)  # never more than one, so it cannot block

    async def _serve(self, client: AcquireEnds) -> None:
        c = client.commands
        limit = self._exposure.format.nbytes + _SMALL
        command, arguments = await receive_command(c, limit)
        try:
            if arguments.overflowed:
                raise AcquireError(Status.ERROR_BAD_CMD, f"{arguments.length} bytes are too many")
            data = await self._answer(client, command, bytes(arguments.data))
            status = Status.OKAY
        except AcquireError as refused:
            status, data = refused.status, str(refused).encode()
        await answer_command(c, status, data)

    async def _answer(self, client: AcquireEnds, command: int, arguments: bytes) -> bytes:
        if command == AcquireCommand.EXPOSE:
            await self._expose(client)
            return b""
        if command == AcquireCommand.SET_I2C and self._i2c_transfer is not None:
            await self._i2c_transfer()
        handler = _HANDLERS.get(command)
        if handler is None:
            raise AcquireError(Status.ERROR_BAD_CMD, f"the acquire task does not know command {command}")
        return handler(self, arguments)

    async def _expose(self, client: AcquireEnds) -> None:
        if not self._waiting:
            await self._sensor.outct(_EXPOSE)
        if client not in self._waiting:
            self._waiting.append(client)

    def describe(self, _arguments: bytes) -> bytes:
        return bytes(self._exposure.format)

    def image(self, arguments: bytes) -> bytes:
        frame = self._frame
        try:
            request = ImageRequest.from_bytes(arguments)
            check_region(request.region, frame.width, frame.height, LARGEST_IMAGE, request.channels)
            make = self._image_path.to_tensor if request.channels == 3 else self._image_path.to_gray
            return make(frame, request.region)
        except ValueError as error:  # of the arguments, or of the image path for these
            raise AcquireError(Status.ERROR_BAD_CMD, str(error)) from None

    def read_frame(self, _arguments: bytes) -> bytes:
        return self._frame.data

    def write_frame(self, arguments: bytes) -> bytes:
        """Take a frame in place of the latest; padding to whole words is dropped."""
        size = self._exposure.format.nbytes
        if len(arguments) not in (size, size + -size % WORD_BYTES):
            raise AcquireError(Status.ERROR_BAD_CMD, f"a frame has {size} bytes, not {len(arguments)}")
        frame = self._frame
        self._frame = RawFrame(frame.width, frame.height, frame.encoding, arguments[:size])
        return b""

    def set_i2c(self, arguments: bytes) -> bytes:
        if len(arguments) != RegisterWrite.SIZE:
            raise AcquireError(
                Status.ERROR_BAD_CMD, f"address, register and value are 3 bytes, not {len(arguments)}"
            )
        try:
            write = RegisterWrite.from_bytes(arguments)
            self._i2c.write(write.address, write.register, write.value)
        except I2cNak as nak:
            raise AcquireError(Status.ERROR_BAD_CMD, f"NAK: {nak}") from None
        return b""

    def explain(self, _arguments: bytes) -> bytes:
        """Refuse with the error of the last exposure, if it failed."""
        if self._exposure.failure is not None:
            raise AcquireError(Status.ERROR_INFER_ERR, f"the sensor has no frame: {self._exposure.failure}")
        return b""


_HANDLERS: Final[dict[int, Callable[[AcquireTask, bytes], bytes]]] = {
    AcquireCommand.DESCRIBE: AcquireTask.describe,
    AcquireCommand.FETCH_IMAGE: AcquireTask.image,
    AcquireCommand.READ_FRAME: AcquireTask.read_frame,
    AcquireCommand.WRITE_FRAME: AcquireTask.write_frame,
    AcquireCommand.SET_I2C: AcquireTask.set_i2c,
    AcquireCommand.EXPLAIN: AcquireTask.explain,
}
