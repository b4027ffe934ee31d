"""Destinations: receivers of a set's data, block by block."""

from typing import Protocol

from aisrv.protocol.commands import Status
from aisrv.protocol.engine_channel import abandon_set, begin_set, end_set
from aisrv.xcore.channels.chanend import ChanEnd
from phy.spi.shared_memory import SharedMemory


class Destination(Protocol):
    """Takes one set at a time: `begin`, `data` for each full block, then `end` or `abandon`."""

    async def begin(self) -> None:
        """Begin a set; the previous one has ended or was abandoned."""

    async def data(self, block: bytes) -> None:
        """Take a full block, `BLOCK_SIZE` bytes."""

    async def end(self, rest: bytes) -> Status:
        """Take the last block, shorter than a full one and maybe empty; return the status of the set."""

    async def abandon(self) -> None:
        """Drop the set."""


class EngineSet(Destination):
    """A SET command of an engine, whose tensor is number 0."""

    def __init__(self, engine: ChanEnd, command: int) -> None:
        self._engine = engine
        self._command = command

    async def begin(self) -> None:
        """Begin the command; from now on the engine serves no other client."""
        await begin_set(self._engine, self._command, 0)

    async def data(self, block: bytes) -> None:
        await self._engine.outwords(block)

    async def end(self, rest: bytes) -> Status:
        return await end_set(self._engine, rest)

    async def abandon(self) -> None:
        await abandon_set(self._engine)


class Nowhere(Destination):
    """Drains a set that the device has no place for, and refuses it for `reason`."""

    def __init__(self, memory: SharedMemory, reason: str) -> None:
        self._memory = memory
        self._reason = reason

    async def begin(self) -> None: ...

    async def data(self, block: bytes) -> None: ...

    async def end(self, rest: bytes) -> Status:  # noqa: ARG002 - dropped
        self._memory.refuse(self._reason)
        return Status.ERROR_BAD_CMD

    async def abandon(self) -> None: ...
