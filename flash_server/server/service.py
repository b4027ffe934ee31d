"""The commands of the flash server: a handler for each, and their state.

Handlers find the place of an answer; the server's task sends it. Engines and loaders have commands of their
own: the kind of client on a channel decides what it may do.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aisrv.xcore.runtime import let_others_run
from flash_server.boot.boot_image import NO_BOOT_IMAGE, BootImageError, BootReport
from flash_server.boot.upgrade import Upgrade, boot_report
from flash_server.chip.partitions import DataImage, Partition, Partitions, model_bytes, read_image
from flash_server.chip.recovery import finish_change
from flash_server.errors import FlashError, LayoutError, NoImageError
from flash_server.image.headers import ENGINES_A_STEP, Part, Segment
from flash_server.protocol import (
    FAILURE_TEXTS,
    PIECE_BYTES,
    FlashCommand,
    FlashFailure,
    FlashReadError,
    FlashRequest,
)
from flash_server.server.live_segment import LiveSegment

logger = logging.getLogger(__name__)


class RequestFailed(Exception):
    """A request that is answered with NACK and a code; the text goes to the log."""

    def __init__(self, code: FlashFailure, text: str = "") -> None:
        super().__init__(text or FAILURE_TEXTS[code])
        self.code = code


@dataclass(frozen=True, slots=True)
class Response:
    """Bytes of the server's own, then `size` bytes from `offset` of the data partition."""

    head: bytes = b""
    offset: int = 0
    size: int = 0
    swapped: bool = False
    """Whether the nibbles of the bytes from the flash are swapped on the way."""


def _log_to_logger(line: str) -> None:
    logger.warning("%s", line)


@dataclass
class FlashService:
    """The state of one flash server: the partitions of its chip and their contents.

    `log` gets a line for each failure, such as `DebugLog.write` of an engine.
    """

    partitions: Partitions
    log: Callable[[str], None] = _log_to_logger
    boot_report: BootReport = NO_BOOT_IMAGE
    _image: DataImage | None = None
    _fault: RequestFailed = field(default_factory=lambda: RequestFailed(FlashFailure.NO_IMAGE))
    _upgrade: tuple[int, Upgrade] | None = None
    _live: list[LiveSegment] = field(default_factory=list)

    @property
    def data(self) -> Partition:
        return self.partitions.data

    async def reset(self) -> None:
        """Read the chip as at reset: choose the boot image, then load the headers of the data partition."""
        self._upgrade = None
        try:
            self.boot_report = await boot_report(self.partitions.boot)
        except FlashError as error:
            self.boot_report = NO_BOOT_IMAGE
            self.log(f"flash: the boot partition cannot be read: {error}")
        await self.reload()

    async def reload(self) -> None:
        """Read the headers of the data partition again; their errors go to the log, too."""
        try:
            self._image = await self._read_image()
        except NoImageError as error:
            self.forget_image(RequestFailed(FlashFailure.NO_IMAGE, str(error)))
        except LayoutError as error:
            self.forget_image(RequestFailed(FlashFailure.CORRUPT, str(error)))
        except FlashError as error:
            self.forget_image(RequestFailed(FlashFailure.CHIP_FAILED, str(error)))
        else:
            for number, found in enumerate(self._image.engines, 1):
                if isinstance(found, LayoutError):
                    self.log(f"flash: {found}")
                if not number % ENGINES_A_STEP:
                    await let_others_run()
            return
        self.log(f"flash: {self._fault}")

    async def _read_image(self) -> DataImage:
        """Read the headers; where there are none, after what a journal holds is done."""
        try:
            return await read_image(self.data)
        except NoImageError:
            if not await finish_change(self.data):
                raise
        return await read_image(self.data)

    def forget_image(self, fault: RequestFailed) -> None:
        self._image, self._fault = None, fault

    @property
    def found(self) -> DataImage | None:
        """The image that was read last; None where that was none."""
        return self._image

    @property
    def image(self) -> DataImage:
        """Image; raises RequestFailed if there is none."""
        if self._image is None:
            raise RequestFailed(self._fault.code, str(self._fault))
        return self._image

    def open_segment(self, engine: int, parts: Sequence[tuple[Part, int]]) -> LiveSegment:
        """Open the first bytes of segments of an engine for code that runs in place: parts with their sizes.

        The memory holds zeros; the caller fills it with what it reads. What changes meanwhile counts as a
        change. FlashReadError if the engine has no such segment, OSError if there is no memory.
        """
        try:
            segments = self.image.segments(engine)
            starts = [self._start_of(segments[part], size) for part, size in parts]
        except (RequestFailed, LayoutError) as error:
            raise FlashReadError(failure_of(error), str(error)) from error
        (first, first_size), *more = [(start, size) for start, (_, size) in zip(starts, parts, strict=True)]
        unwatch: list[Callable[[], None]] = []

        def release() -> None:
            for end in unwatch:
                end()
            self._live.remove(live)

        live = LiveSegment(
            f"engine {engine}",
            first,
            first_size,
            *more,
            swapped=self.image.detected.swapped,
            release=release,
        )
        self._live.append(live)
        unwatch.append(self.data.watch(live.store))
        return live

    @staticmethod
    def _start_of(segment: Segment | None, size: int) -> int:
        if segment is None or size > segment.size:
            raise RequestFailed(FlashFailure.ABSENT if segment is None else FlashFailure.OUT_OF_RANGE)
        return segment.start

    def check_idle(self, start: int, end: int) -> None:
        """Raise RequestFailed if code runs in place from a range of the data partition."""
        for live in self._live:
            met = live.met(start, end)
            if met is not None:
                raise RequestFailed(
                    FlashFailure.IN_USE,
                    f"{live.owner} runs code in place from {met.start:#x} to {met.stop - 1:#x}: "
                    "write elsewhere, or load another model first",
                )

    def take_upgrade(self, loader: int, offset: int | None = None) -> Upgrade:
        """Take a loader's upgrade, which must have come to that offset; `keep_upgrade` puts it back.

        Raises RequestFailed if there is none such; any other upgrade is over then.
        """
        owner, upgrade = self._upgrade or (None, None)
        self._upgrade = None
        if upgrade is None or owner != loader or offset not in (None, upgrade.received):
            raise RequestFailed(FlashFailure.OUT_OF_ORDER)
        return upgrade

    def keep_upgrade(self, loader: int, upgrade: Upgrade) -> None:
        """Let the loader's upgrade go on with the next piece; that of another loader is over."""
        self._upgrade = (loader, upgrade)


Run = Callable[[FlashService, int, FlashRequest], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Handler:
    """Number of a command's argument words, its most bytes of data, and its function.

    `run` gets the client's number among its kind. It may raise RequestFailed or any FlashError.
    """

    arguments: int
    run: Run
    data_limit: int = 0


def _reader(part: Part) -> Handler:
    async def run(service: FlashService, engine: int, request: FlashRequest) -> Response:
        offset, size = request.arguments
        image = service.image
        segment = image.segments(engine)[part]
        if segment is None:
            raise RequestFailed(FlashFailure.ABSENT)
        if offset + size > segment.size:
            raise RequestFailed(
                FlashFailure.OUT_OF_RANGE,
                f"{size} bytes at {offset} reach past the {segment.size} of engine {engine}'s {part.label}",
            )
        return Response(b"", segment.start + offset, size, image.detected.swapped)

    return Handler(2, run)


async def _read_model(service: FlashService, engine: int, _request: FlashRequest) -> Response:
    image = service.image
    segment = await model_bytes(service.data, image, engine)
    if segment is None:
        raise RequestFailed(FlashFailure.ABSENT)
    return Response(segment.size.to_bytes(4, "big"), segment.start, segment.size, image.detected.swapped)


async def _read_sizes(service: FlashService, engine: int, _request: FlashRequest) -> Response:
    image = service.image
    segments = image.segments(engine)
    model = await model_bytes(service.data, image, engine)
    found = [model, *(segments[part] for part in Part if part is not Part.MODEL)]
    return Response(b"".join((segment.size if segment else 0).to_bytes(4, "big") for segment in found))


async def _read_boot(service: FlashService, _client: int, _request: FlashRequest) -> Response:
    return Response(bytes(service.boot_report))


async def _write_server(service: FlashService, loader: int, request: FlashRequest) -> Response:
    (offset,) = request.arguments
    upgrade = service.take_upgrade(loader, offset) if offset else Upgrade(service.partitions.boot)
    await upgrade.write(request.data)
    service.keep_upgrade(loader, upgrade)
    return Response()


async def _finish_server(service: FlashService, loader: int, _request: FlashRequest) -> Response:
    await service.take_upgrade(loader).finish()
    return Response()


async def _read_data(service: FlashService, _client: int, request: FlashRequest) -> Response:
    offset, size = request.arguments
    if not service.data.holds(offset, size):
        raise RequestFailed(FlashFailure.OUT_OF_RANGE)
    return Response(b"", offset, size)


def _check_write(service: FlashService, offset: int, size: int) -> range:
    """Return the sectors that a write erases. Raises RequestFailed."""
    sector, end = service.data.chip.part.sector_size, offset + size
    if not service.data.holds(offset, size):
        raise RequestFailed(FlashFailure.OUT_OF_RANGE)
    erased = range(-(-offset // sector) * sector, end, sector)
    service.check_idle(offset, max(end, erased[-1] + sector) if erased else end)
    return erased


async def _check_write_data(service: FlashService, _client: int, request: FlashRequest) -> Response:
    _check_write(service, *request.arguments)
    return Response()


async def _write_data(service: FlashService, _client: int, request: FlashRequest) -> Response:
    (offset,) = request.arguments
    erased = _check_write(service, offset, len(request.data))
    service.forget_image(RequestFailed(FlashFailure.NO_IMAGE, "the data partition is being written"))
    for start in erased:
        await service.data.erase_sector(start)
    await service.data.program(offset, request.data)
    if await service.data.read(offset, len(request.data)) != request.data:
        raise RequestFailed(FlashFailure.CHIP_FAILED, f"the bytes at {offset:#x} read back otherwise")
    return Response()


async def _reload(service: FlashService, _client: int, _request: FlashRequest) -> Response:
    await service.reload()
    return Response()


READ_HANDLERS: Final[Mapping[int, Handler]] = {
    FlashCommand.READ_PARAMETERS: _reader(Part.PARAMETERS),
    FlashCommand.READ_MODEL: Handler(0, _read_model),
    FlashCommand.READ_OPERATORS: _reader(Part.OPERATORS),
    FlashCommand.READ_XIP: _reader(Part.XIP),
    FlashCommand.READ_SIZES: Handler(0, _read_sizes),
    FlashCommand.READ_BOOT: Handler(0, _read_boot),
}
"""Commands of engines: their own segments, and the boot report."""

LOADER_HANDLERS: Final[Mapping[int, Handler]] = {
    FlashCommand.READ_BOOT: Handler(0, _read_boot),
    FlashCommand.WRITE_SERVER: Handler(1, _write_server, PIECE_BYTES),
    FlashCommand.FINISH_SERVER: Handler(0, _finish_server),
    FlashCommand.READ_DATA: Handler(2, _read_data),
    FlashCommand.WRITE_DATA: Handler(1, _write_data, PIECE_BYTES),
    FlashCommand.RELOAD: Handler(0, _reload),
    FlashCommand.CHECK_WRITE: Handler(2, _check_write_data),
}
"""Commands of loaders: the boot partition's upgrade and the data partition as a whole."""


def failure_of(error: FlashError | RequestFailed) -> FlashFailure:
    if isinstance(error, RequestFailed):
        return error.code
    if isinstance(error, BootImageError):
        return FlashFailure.BAD_SERVER_IMAGE
    return FlashFailure.CORRUPT if isinstance(error, LayoutError) else FlashFailure.CHIP_FAILED
