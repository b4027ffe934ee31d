"""The memories of a board: flash and RAM, each a run of bytes at an address, with their parts in use."""

import ctypes
import mmap
from dataclasses import dataclass
from typing import Final, Self

from aisrv.model.relocatable.container import PAGE
from aisrv.model.relocatable.errors import MachineError

FLASH_BASE: Final = 0x0800_0000
RAM_BASE: Final = 0x2000_0000


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `start` to `end - 1`."""

    start: int
    end: int

    def meets(self, other: "Span") -> bool:
        return self.start < other.end and other.start < self.end

    def pages(self) -> range:
        """Addresses of the pages that it touches."""
        return range(self.start // PAGE * PAGE, self.end, PAGE) if self.end > self.start else range(0)


class _Buffer(ctypes.Structure):
    """`Py_buffer` of CPython."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def _address_of(memory: mmap.mmap) -> int:
    """Where mapped pages lie in this process, which may be read-only: ctypes itself takes no such ones."""
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(memory), ctypes.byref(buffer), 0)
    address = int(buffer.buf)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address


class Memory:
    """Return the address of mapped pages in this process, maybe read-only, which ctypes refuses."""

    def __init__(self, base: int, size: int) -> None:
        """Create `size` bytes of zeros, rounded up to pages, at `base`, a multiple of a page."""
        self._set(base, mmap.mmap(-1, max(-(-size // PAGE) * PAGE, PAGE)))

    @classmethod
    def of(cls, base: int, memory: mmap.mmap) -> Self:
        """Create a memory at `base` of mapped whole pages; if these are read-only, so is it."""
        made = cls.__new__(cls)
        made._set(base, memory)
        return made

    def _set(self, base: int, memory: mmap.mmap) -> None:
        self.span = Span(base, base + len(memory))
        self._bytes = memory
        self._host = _address_of(memory)
        self._used: list[Span] = []
        self._allocated: list[Span] = []

    def host_address(self, address: int) -> int:
        """Return the address of a byte in the memory of this process."""
        return self._host + address - self.span.start

    def holds(self, address: int, size: int) -> bool:
        """Check whether `size` bytes at an address are in this memory."""
        return self.span.start <= address and size >= 0 and address + size <= self.span.end

    def read(self, address: int, size: int) -> bytes:
        """Read bytes. Raises MachineError outside of the memory."""
        start = self._offset(address, size)
        return self._bytes[start : start + size]

    def view(self, address: int, size: int) -> memoryview:
        """Return a read-only view of bytes. Raises MachineError outside of the memory."""
        start = self._offset(address, size)
        return memoryview(self._bytes)[start : start + size].toreadonly()

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Write bytes. Raises MachineError outside of the memory."""
        start = self._offset(address, len(data))
        self._bytes[start : start + len(data)] = bytes(data)

    def used(self, span: Span) -> Span | None:
        """Return a part in use that meets a span, or None."""
        return next((each for each in self._used if each.meets(span)), None)

    def use(self, span: Span) -> None:
        """Count a use of a span."""
        self._used.append(span)

    def release(self, span: Span) -> None:
        """End a use of a span."""
        self._used.remove(span)

    def allocate(self, size: int) -> int | None:
        """Take `size` bytes at a page of their own for a caller, who may give them away; None for no room."""
        at = self.find_room(size)
        if at is not None and size:
            self._allocated.append(Span(at, at + size))
        return at

    def free(self, address: int, size: int) -> bool:
        """Give back what `allocate` gave; return False for anything else."""
        block = Span(address, address + size)
        if size and block not in self._allocated:
            return False
        if size:
            self._allocated.remove(block)
        return True

    def find_room(self, size: int) -> int | None:
        """Return the address of `size` free bytes at a page of their own, or None."""
        at = self.span.start
        for each in sorted([*self._used, *self._allocated], key=lambda span: span.start):
            if each.start - at >= size:
                break
            at = max(at, -(-each.end // PAGE) * PAGE)
        return at if at + size <= self.span.end else None

    def _offset(self, address: int, size: int) -> int:
        if not self.holds(address, size):
            raise MachineError(
                f"{size} bytes at {address:#010x} are not in {self.span.start:#010x} to {self.span.end:#010x}"
            )
        return address - self.span.start
