"""The frames of a camera on pins: those of a source, until it has no more."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Self

from aisrv.addons.pins.board import Pins
from aisrv.board import BoardError
from aisrv.sensors.image.frame import FrameSource, RawFrame, SourceError
from aisrv.sensors.sources.opening import open_source

logger = logging.getLogger(__name__)


class CameraFrames:
    """Takes frames from a source; why it ends is logged."""

    def __init__(self, name: str, source: FrameSource) -> None:
        """Take those of a source, for the peripheral of that name."""
        self._name = name
        self._source = source

    async def frame(self) -> RawFrame | None:
        """Take the next frame, as soon as the source has one; None where it has no more."""
        try:
            return await self._source.frame()
        except SourceError as error:
            logger.warning("%s: %s", self._name, error)
            return None

    def by(self, pace: Callable[[FrameSource], FrameSource]) -> "CameraFrames":
        """Return the same frames, there when they are due, as `PartFactory.source` has it."""
        return CameraFrames(self._name, pace(self._source))

    @classmethod
    def load(cls, pins: Pins, number: int) -> Self:
        """Open the source of the board's peripheral `number`. Raises BoardError."""
        spec = pins.peripherals[number]
        try:
            return cls(spec.name, open_source(spec.source or "", pins.folder or Path()))
        except SourceError as error:
            place = pins.place(spec.name, "peripherals", number)
            raise BoardError(f"{place}: {error}", "peripherals", number, "source") from None
