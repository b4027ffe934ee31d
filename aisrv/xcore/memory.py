"""The private memory of a tile: blocks that no other tile reads, within 512 KiB."""

from typing import Final

from aisrv.xcore.core import current_core
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.traps import Trap, TrapKind, XcoreError, check_size

SRAM_BYTES: Final = 512 * 1024


class OutOfMemory(XcoreError):
    """A block that the tile has no room for."""


class MemoryBlock:
    """Named bytes in the memory of a tile, shared by its cores.

    `name` is what reports call it; `size` is in bytes.
    """

    def __init__(self, memory: "TileMemory", name: str, size: int) -> None:
        self._memory = memory
        self.name: Final = name
        self.size: Final = size
        self._freed = False
        self._data: bytearray | None = None  # made when first accessed: most blocks only count

    def access(self) -> memoryview:
        """Return the bytes; a core of another tile, and any after `free`, traps with LOAD_STORE."""
        if self._freed:
            raise Trap(TrapKind.LOAD_STORE, f"access to {self.name!r}, which was freed")
        self._memory.check_access(self.name)
        if self._data is None:
            self._data = bytearray(self.size)
        return memoryview(self._data)

    def free(self) -> None:
        """Give the room back; a second time, or by a core of another tile, traps with LOAD_STORE."""
        if self._memory.has_ended:
            return
        if self._freed:
            raise Trap(TrapKind.LOAD_STORE, f"free of {self.name!r}, which was freed")
        self._memory.check_access(self.name)
        self._freed = True
        self._data = None
        self._memory.release(self)


class TileMemory:
    """Accounts for the blocks of one tile.

    `capacity` is the bytes of the tile.
    """

    def __init__(self, runtime: Runtime, tile: int, capacity: int = SRAM_BYTES) -> None:
        self._runtime = runtime
        self.tile: Final = tile
        """The tile's number."""
        self.capacity: Final = capacity
        self._used = 0

    @property
    def has_ended(self) -> bool:
        """Return whether its node has ended."""
        return self._runtime.has_ended

    @property
    def available(self) -> int:
        """Bytes not in any block."""
        return self.capacity - self._used

    def allocate(self, name: str, size: int) -> MemoryBlock:
        """Take `size` bytes, zeroed; more than there are raises OutOfMemory, less than none SizeError.

        A core of another tile traps with LOAD_STORE. `name` is what reports call the block.
        """
        check_size(size, f"bytes of {name!r}")
        self.check_access(name)
        if size > self.available:
            raise OutOfMemory(
                f"{name!r} needs {size} bytes on tile {self.tile}, {self.available} of "
                f"{self.capacity} are available"
            )
        self._used += size
        return MemoryBlock(self, name, size)

    def release(self, block: MemoryBlock) -> None:
        """Take the bytes of a block back."""
        self._used -= block.size

    def check_access(self, name: str) -> None:
        """Trap with LOAD_STORE where the running core is of another tile, or of another node.

        `name` is what the message calls the block.
        """
        core = current_core()
        if core is not None and (core.tile != self.tile or core not in self._runtime.cores):
            raise Trap(
                TrapKind.LOAD_STORE, f"{core} has no access to {name!r} in the memory of tile {self.tile}"
            )
