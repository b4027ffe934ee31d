"""Memory that the SPI slave and its buffer share.

The slave answers a master out of it at once; the buffer keeps it up to date. Both run on one tile and neither
waits while it is at the memory, so there are no locks. Source: "XCORE AI server: numbers and wire behavior",
section SPI.
"""

import logging
from typing import Final, Protocol, SupportsBytes

from msgspec import Struct

from aisrv.protocol.commands import STATUS_ERRORS, Command, Status

BLOCK_SIZE: Final = 512
"""Data bytes of a write transaction; a block with fewer ends its set."""

logger = logging.getLogger(__name__)


class RefusalLog(SupportsBytes, Protocol):
    """The debug log of the port's engine."""

    def write(self, text: str) -> None: ...


class SharedMemory(Struct):
    """The status, what reads answer, and the block of a write."""

    status: Status = Status.OKAY
    answers: dict[int, bytes | memoryview] = {}
    """By command, as far as the buffer has asked the engine.

    The answer of GET_OUTPUT_TENSOR is output tensor 0 of the last inference, a stream's too, or the sensor's
    frame since an acquisition; that of GET_DEBUG_LOG is the log as it was after the last failure.
    """
    block: bytes = b""
    """Data of the write in progress while the status is BUSY: BLOCK_SIZE bytes at most."""
    block_length: int = 0
    """Bytes that the write really had: past BLOCK_SIZE the block is not whole."""
    log: RefusalLog | None = None
    """Receives the refusals of this layer."""

    def read(self, command: int) -> bytes | memoryview:
        """Return what a read answers; empty if that is not known yet."""
        return self.show_status() if command == Command.GET_STATUS else self.answers.get(command, b"")

    def show_status(self) -> bytes:
        """Return the status word for the master, and clear its error bits."""
        shown = self.status
        self.status &= ~STATUS_ERRORS
        return shown.to_bytes(4, "little")

    def refuse(self, reason: str) -> None:
        """Write the reason of a refusal to the debug log; the caller sets the status bit."""
        logger.warning("%s", reason)
        if self.log is not None:
            self.log.write(f"SPI: {reason}")
            self.answers[Command.GET_DEBUG_LOG] = bytes(self.log)

    def leave_block(self, data: bytes, length: int) -> None:
        """Hand a write to the buffer: from now on the status is BUSY."""
        self.block, self.block_length = data, length
        self.status |= Status.BUSY

    def finish(self, errors: Status) -> None:
        """End the BUSY state. Its errors show only now: a master that polls would miss them."""
        self.status = self.status & ~(Status.BUSY | Status.SENSING) | errors & STATUS_ERRORS
