"""What the SPI slave and its buffer share: the memory of their tile.

The slave answers a master out of it at once; the buffer keeps it up to date. Both run on one tile and
neither waits while it is at the memory, so there are no locks. Source: "XCORE AI server: numbers and wire
behavior", section SPI.
"""

import logging
from typing import Final, Protocol, SupportsBytes

from msgspec import Struct

from aisrv.protocol.commands import STATUS_ERRORS, Spec, Status

BLOCK_SIZE: Final = 512
"""Data bytes of a write transaction; a block with fewer ends its set."""

UNKNOWN: Final = Spec(sensor_bytes=0)
"""All words 0."""


logger = logging.getLogger(__name__)


class RefusalLog(SupportsBytes, Protocol):
    """The debug log of the port's engine."""

    def write(self, text: str) -> None:
        """Add a line."""


class SharedMemory(Struct):
    """What reads answer, zeros or empty until the buffer has asked the engine; and the block of a write."""

    status: Status = Status.OKAY
    spec: Spec = UNKNOWN
    """In its form of six words."""
    server_id: bytes = b""
    timings: bytes = b""
    """Of the last inference, one word for each operator; empty since a model was set."""
    output: bytes | memoryview = b""
    """Output tensor 0 of the last inference, a stream's too, or the sensor frame since an acquisition."""
    debug_log: bytes = b""
    """As it was after the last failure."""
    block: bytes = b""
    """Data of the write that is in progress while the status is BUSY: BLOCK_SIZE bytes at most."""
    block_length: int = 0
    """Bytes that the write really had: past BLOCK_SIZE the block is not whole."""
    boot_report: bytes = b""
    """What the device booted; empty without a flash."""
    log: RefusalLog | None = None
    """Where refusals of this layer leave a line."""

    def show_status(self) -> bytes:
        """Return the status word for the master, whose error bits are cleared by that."""
        shown = self.status
        self.status &= ~STATUS_ERRORS
        return shown.to_bytes(4, "little")

    def refuse(self, reason: str) -> None:
        """Tell why a command is refused, in the debug log; setting the status bit is for the caller."""
        logger.warning("%s", reason)
        if self.log is not None:
            self.log.write(f"SPI: {reason}")
            self.debug_log = bytes(self.log)

    def leave_block(self, data: bytes, length: int) -> None:
        """Hand a write to the buffer: from now on the status is BUSY."""
        self.block, self.block_length = data, length
        self.status |= Status.BUSY

    def finish(self, errors: Status) -> None:
        """End what made the status BUSY. Its errors show only now: a master that polls would miss them."""
        self.status = self.status & ~(Status.BUSY | Status.SENSING) | errors & STATUS_ERRORS
