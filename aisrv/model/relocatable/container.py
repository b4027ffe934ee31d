"""The container of a relocatable image: header, addresses with a class, sections; every field is checked.

Little-endian words. An address has its class in the top nibble, file (2) or RAM (8), and an offset in the low
28 bits. In the file lie, in this order: header, .text and .rodata (together `ro`), the initial .data, .got,
.rel, and the weights. Source: "Runtime-loadable model images", section Container.
"""

import enum
import itertools
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Self

from aisrv.model.relocatable.errors import ImageError
from aisrv.values.packet import U32, Packet

MAGIC: Final = 0x4E49424E
"""The first word, bytes "NBIN"."""
MAGIC_BYTES: Final = MAGIC.to_bytes(4, "little")

ROM: Final = 0x2
"""Class of an address in the file."""
RAM: Final = 0x8
"""Class of an address in RAM."""

PAGE: Final = 4096
"""Bytes that a machine maps of flash and RAM at once."""
WORD: Final = 4
OFFSET_MASK: Final = (1 << 28) - 1
THUMB: Final = 1
LONGEST_NAME: Final = 256

VERSION: Final = (2, 0)
GNU_TOOL: Final = 8
"""Tool that the flags name: GNU Arm Embedded."""


class FloatAbi(enum.IntEnum):
    """Passing of floating-point arguments; only SOFT does without an FPU."""

    SOFT = 0
    SOFTFP = 1
    HARD = 2


class Core(enum.IntEnum):
    """A Cortex-M core by the part number of its CPUID."""

    CORTEX_M0PLUS = 0xC60
    CORTEX_M3 = 0xC23
    CORTEX_M4 = 0xC24
    CORTEX_M7 = 0xC27
    CORTEX_M33 = 0xD21
    CORTEX_M55 = 0xD22

    @property
    def label(self) -> str:
        """Name for compilers: cortex-m4."""
        return self.name.lower().replace("_", "-")


EXECUTABLE: Final = (Core.CORTEX_M3, Core.CORTEX_M4, Core.CORTEX_M7, Core.CORTEX_M33)


@dataclass(frozen=True, slots=True)
class Variant:
    """Flags of an image: its version, and its target."""

    core: Core
    uses_fpu: bool = False
    float_abi: FloatAbi = FloatAbi.SOFT
    options: int = 0
    """Options of the post-processor, 4 bits."""

    @classmethod
    def from_word(cls, word: int) -> Self:
        """Decode the word; ImageError for an unknown version, tool, ABI or core."""
        version = (word >> 28, word >> 24 & 0xF)
        if version != VERSION:
            raise ImageError(f"flags {word:#010x}: version {version[0]}.{version[1]}, this is for 2.0")
        if word >> 16 & 0xF != GNU_TOOL:
            raise ImageError(f"flags {word:#010x}: made by tool {word >> 16 & 0xF}, this is for {GNU_TOOL}")
        if word >> 15 & 1:
            raise ImageError(f"flags {word:#010x}: the reserved bit 15 is set")
        abi, part = word >> 13 & 3, word & 0xFFF
        if abi not in FloatAbi.__members__.values():
            raise ImageError(f"flags {word:#010x}: unknown float ABI {abi}")
        if part not in Core.__members__.values():
            raise ImageError(f"flags {word:#010x}: no known core has the part number {part:#x}")
        uses_fpu = bool(word >> 12 & 1)
        if uses_fpu and abi == FloatAbi.SOFT:
            raise ImageError(f"flags {word:#010x}: uses the FPU, but the float ABI is soft")
        return cls(Core(part), uses_fpu, FloatAbi(abi), word >> 20 & 0xF)

    def __int__(self) -> int:
        major, minor = VERSION
        high = major << 28 | minor << 24 | self.options << 20 | GNU_TOOL << 16
        return high | self.float_abi << 13 | self.uses_fpu << 12 | self.core


class Header(Packet, byte_order="<", error=ImageError, name="the header of an image"):
    """The first 100 bytes; addresses have their class."""

    magic: ClassVar[U32] = MAGIC
    flags: U32
    data_start: U32
    data_end: U32
    data_data: U32
    """File: the initial .data, where the read-only part ends."""
    bss_start: U32
    bss_end: U32
    got_start: U32
    got_end: U32
    rel_start: U32
    rel_end: U32
    weights_start: U32
    weights_end: U32
    create: U32
    init: U32
    init_v2: U32
    run: U32
    report: U32
    error: U32
    destroy: U32
    forward: U32
    observer_register: U32
    observer_unregister: U32
    observer_node_info: U32
    ctx: U32


HEADER_BYTES: Final = Header.SIZE

VECTORS: Final = (
    "create",
    "init",
    "init_v2",
    "run",
    "report",
    "error",
    "destroy",
    "forward",
    "observer_register",
    "observer_unregister",
    "observer_node_info",
)
"""Entry points, by the names of their fields."""


class Context(Packet, byte_order="<", error=ImageError, name="the context of an image"):
    """The words of an instance's context that every image has."""

    state: U32
    network: U32
    ram: U32
    rom: U32
    heap: U32
    c_name: U32
    activations_size: U32
    weights_size: U32


RUNS_IN_PLACE: Final = 2
"""A bit of a context's state."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of an image's parts, and of RAM that it takes installed."""

    ro: int
    data: int
    got: int
    bss: int
    rel: int
    weights: int
    xip: int
    copy: int
    file: int


@dataclass(frozen=True)
class Image:
    """A checked image: `Image.from_bytes` is the only way to one that may be installed."""

    data: memoryview
    header: Header
    variant: Variant

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Check an image from its first to its last byte; ImageError names the field and what is wrong."""
        view = memoryview(data).cast("B").toreadonly()
        if len(view) < HEADER_BYTES:
            raise ImageError(f"{len(view)} bytes are not an image: the header alone has {HEADER_BYTES}")
        if view[:4] != MAGIC_BYTES:
            raise ImageError(f"an image begins with NBIN, this with {bytes(view[:4]).hex(' ')}")
        header = Header.unpack_from(view)
        image = cls(view, header, Variant.from_word(header.flags))
        image._check_sections()
        image._check_entries()
        image._check_words()
        return image

    @cached_property
    def sizes(self) -> Sizes:
        """Sizes by the fields of the header."""
        header = self.header
        ro = align4(offset(header.data_data))
        rel, weights = header.rel_end - header.rel_start, header.weights_end - header.weights_start
        xip = align4(offset(header.bss_end))
        return Sizes(
            ro=ro,
            data=header.data_end - header.data_start,
            got=header.got_end - header.got_start,
            bss=header.bss_end - header.bss_start,
            rel=rel,
            weights=weights,
            xip=xip,
            copy=xip + ro,
            file=ro + offset(header.got_end) + rel + weights,
        )

    @property
    def read_only(self) -> memoryview:
        """Header, .text and .rodata, which COPY copies."""
        return self.data[: self.sizes.ro]

    @property
    def initial(self) -> memoryview:
        """Initial .data and .got, which are copied to the start of the RAM."""
        return self.data[self.sizes.ro : self.sizes.ro + offset(self.header.got_end)]

    @property
    def missing_weights(self) -> int:
        """Bytes of weights that are in a file of their own; 0 for none."""
        return 0 if self.sizes.weights else self.context.weights_size

    @property
    def weights(self) -> memoryview:
        """Weights; no bytes if they are in a file of their own."""
        return self.data[len(self.data) - self.sizes.weights :]

    @property
    def got(self) -> tuple[int, ...]:
        start, end = offset(self.header.got_start), offset(self.header.got_end)
        return _words(self.initial[start:end])

    @cached_property
    def relocations(self) -> tuple[int, ...]:
        """RAM offsets of the words of .data that hold addresses, as .rel lists them."""
        start = offset(self.header.rel_start)
        return tuple(map(offset, _words(self.data[start : start + self.sizes.rel])))

    @property
    def context(self) -> Context:
        """Context before the installation."""
        return Context.unpack_from(self.initial, offset(self.header.ctx))

    @property
    def name(self) -> str:
        """The model's C name; empty if it has none."""
        return self.text(self.context.c_name)

    def text(self, address: int) -> str:
        """Return the text at a file address, up to its zero; ImageError if it does not end or is not text."""
        if not address:
            return ""
        if address >> 28 != ROM or offset(address) >= self.sizes.ro:
            raise ImageError(f"a name at {address:#010x} is outside of the read-only part")
        start = offset(address)
        text = bytes(self.data[start : min(start + LONGEST_NAME, self.sizes.ro)])
        head, zero, _ = text.partition(b"\0")
        if not zero or not head.isascii() or not head.decode().isprintable():
            raise ImageError(f"the name at {address:#010x} is not text of at most {LONGEST_NAME} characters")
        return head.decode()

    def relocated(self, word: int, ram: int, rom: int) -> int:
        """Relocate a word with a class for the installation."""
        if word == 0:
            return 0
        base = ram if word >> 28 == RAM else rom
        return base + offset(word) & 0xFFFFFFFF

    def _check_sections(self) -> None:
        header, size = self.header, len(self.data)
        for name, kind in _CLASSES.items():
            _check_class(name, getattr(header, name), kind)
        is_split = header.weights_start == header.weights_end == 0
        if not is_split:
            _check_class("weights_start", header.weights_start, ROM)
            _check_class("weights_end", header.weights_end, ROM)
        for name in _ALIGNED:
            if getattr(header, name) % WORD:
                raise ImageError(f"{name} {getattr(header, name):#010x} is not a multiple of 4")
        _check_order(header, "data_start", "data_end", "got_start", "got_end", "bss_start", "bss_end")
        _check_order(header, "rel_start", "rel_end")
        if offset(header.data_start):
            raise ImageError(f"data_start {header.data_start:#010x}: .data lies at the start of the RAM")
        if offset(header.data_data) < HEADER_BYTES:
            raise ImageError(f"data_data {header.data_data:#010x} is inside of the header")
        behind = align4(offset(header.data_data)) + offset(header.got_end)
        if offset(header.rel_start) != behind:
            raise ImageError(
                f"rel_start {header.rel_start:#010x}: .data and .got end at {behind:#x}, and .rel follows"
            )
        if not is_split:
            _check_order(header, "weights_start", "weights_end")
            if header.weights_start != header.rel_end:
                raise ImageError(
                    f"weights_start {header.weights_start:#010x}: .rel ends at {header.rel_end:#010x}"
                )
        end = offset(header.rel_end if is_split else header.weights_end)
        if end != size:
            last = "rel_end" if is_split else "weights_end"
            raise ImageError(f"{last} says that the image has {end} bytes, it has {size}")

    def _check_entries(self) -> None:
        header, ro = self.header, self.sizes.ro
        for name in VECTORS:
            vector = getattr(header, name)
            _check_class(name, vector, ROM)
            if not vector & THUMB:
                raise ImageError(f"{name} {vector:#010x} is not Thumb code: bit 0 is not set")
            if not HEADER_BYTES <= offset(vector) - THUMB <= ro - 2:
                raise ImageError(f"{name} {vector:#010x} is outside of the code")
        _check_class("ctx", header.ctx, RAM)
        if header.ctx % WORD or offset(header.ctx) + Context.SIZE > offset(header.data_end):
            raise ImageError(f"ctx {header.ctx:#010x} is not wholly in .data, at a multiple of 4")

    def _check_words(self) -> None:
        start = offset(self.header.got_start)
        for index, word in enumerate(self.got):
            self._check_word(f".got, word {index} (RAM {start + WORD * index:#x})", word)
        end, seen = offset(self.header.data_end), set[int]()
        rel = self.data[offset(self.header.rel_start) :][: self.sizes.rel]
        initial = self.initial
        for index, target in enumerate(_words(rel)):
            where = f".rel, word {index}"
            if target >> 28 != RAM or target % WORD or offset(target) + WORD > end:
                raise ImageError(f"{where}: {target:#010x} is not a word of .data")
            if target in seen:
                raise ImageError(f"{where}: {target:#010x} is listed twice")
            seen.add(target)
            (word,) = _WORD.unpack_from(initial, offset(target))
            self._check_word(f"{where}: the word at {target:#010x}", word)
        c_name = RAM << 28 | offset(self.header.ctx) + 5 * WORD
        if self.context.c_name and c_name not in seen:
            raise ImageError(f"the context's c_name, at {c_name:#010x}, is not in .rel")
        _ = self.name

    def _check_word(self, where: str, word: int) -> None:
        if word == 0:
            return
        limits = {ROM: self.sizes.ro, RAM: self.sizes.xip}
        limit = limits.get(word >> 28)
        if limit is None:
            raise ImageError(f"{where}: {word:#010x} has class {word >> 28:#x}, neither file nor RAM")
        if offset(word) > limit:
            raise ImageError(f"{where}: {word:#010x} is outside of what is installed, {limit:#x} bytes")


_WORD: Final = struct.Struct("<I")

_CLASSES: Final = {
    "data_start": RAM,
    "data_end": RAM,
    "data_data": ROM,
    "bss_start": RAM,
    "bss_end": RAM,
    "got_start": RAM,
    "got_end": RAM,
    "rel_start": ROM,
    "rel_end": ROM,
}
_ALIGNED: Final = (
    "data_start",
    "data_end",
    "data_data",
    "bss_start",
    "got_start",
    "got_end",
    "rel_start",
    "rel_end",
)


def offset(address: int) -> int:
    """Return an address without its class."""
    return address & OFFSET_MASK


def align4(size: int) -> int:
    return size + 3 & ~3


def is_image(data: bytes | bytearray | memoryview) -> bool:
    """Check whether bytes begin as an image does."""
    return bytes(data[:4]) == MAGIC_BYTES


def _words(data: memoryview) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // WORD}I", data)


def _check_class(name: str, address: int, kind: int) -> None:
    if address >> 28 != kind:
        raise ImageError(f"{name} {address:#010x} has class {address >> 28:#x}, must have {kind:#x}")


def _check_order(header: Header, *names: str) -> None:
    for first, second in itertools.pairwise(names):
        low, high = getattr(header, first), getattr(header, second)
        if low > high:
            raise ImageError(f"{first} {low:#010x} is behind {second} {high:#010x}")
