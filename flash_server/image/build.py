"""The data partition as a value, and the bytes that the packer of the firmware makes of it.

Behind the headers come the parts of each engine in turn: the model's length and bytes, parameters, operators,
execute-in-place data; nothing lies between them unless they are to be aligned ("XCORE AI server: numbers and
wire behavior", section Flash). Padding is FF, as erased flash is.

A part that is None is absent: its offset is 0. A part of no bytes is there and empty: it has the offset at
which it would begin. The packer in XMOS's `xmos_ai_tools` knows only the latter.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flash_server.errors import LayoutError
from flash_server.image.generations import Generation, ImageFormat
from flash_server.image.headers import (
    LENGTH_BYTES,
    ByPart,
    Header,
    Part,
    check_engines,
    header_size,
    where,
)
from flash_server.image.nibbles import CHUNK, chunks

Bytes = bytes | memoryview
"""Bytes of a part; a view spares a copy of a large file."""

LARGEST_IMAGE: Final = 1 << 32
"""End of what u32 offsets reach."""

LARGEST_ALIGNMENT: Final = 1 << 24

_FILL: Final = b"\xff" * CHUNK


class EngineImage(ByPart[Bytes]):
    """Flash contents of one engine, in normal order."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class DataPartition:
    """The whole data partition; `swapped` None is what is usual in the generation.

    Every part begins at a multiple of `alignment` bytes, a power of two; a model with its length, so that its
    bytes begin 4 later. LayoutError for an impossible layout.
    """

    engines: tuple[EngineImage, ...]
    generation: Generation = Generation.FAST
    swapped: bool | None = None
    alignment: int = 1

    def __post_init__(self) -> None:
        check_engines(len(self.engines))
        if not any(engine[part] is not None for engine in self.engines for part in Part):
            raise LayoutError(f"nothing to store: none of {len(self.engines)} engines has any part")
        if not 1 <= self.alignment <= LARGEST_ALIGNMENT or self.alignment & (self.alignment - 1):
            raise LayoutError(
                f"an alignment is a power of two up to {LARGEST_ALIGNMENT} bytes, not {self.alignment}"
            )

    @property
    def stored(self) -> ImageFormat:
        """Generation and order of the stored bytes."""
        swapped = self.generation.usually_swapped if self.swapped is None else self.swapped
        return ImageFormat(self.generation, swapped)

    def headers(self) -> tuple[Header, ...]:
        """Offsets of all parts; LayoutError if one is not within reach of a u32."""
        return self._place()[0]

    @property
    def image_size(self) -> int:
        """Bytes of the image without filling."""
        return self._place()[1]

    def chunks(self, size: int | None = None, *, fill: bool = False) -> Iterator[bytes]:
        """Yield the stored bytes, piece by piece: a large image need not be in memory twice.

        `size` is that of the data partition: LayoutError, before the first piece, names the part that does
        not fit in. With `fill` the image is padded with FF up to it.
        """
        headers, end = self._place()
        if fill and size is None:
            raise LayoutError("to fill the partition, its size must be known")
        if size is not None and end > size:
            self._refuse(headers, size)
        return self._chunks(headers, end, size if fill and size else end)

    def build(self, size: int | None = None, *, fill: bool = False) -> bytes:
        """Return the stored bytes, as `chunks` gives them; `fill` pads to `size` bytes with FF."""
        return b"".join(self.chunks(size, fill=fill))

    def _place(self) -> tuple[tuple[Header, ...], int]:
        address = header_size(self.generation, len(self.engines))
        headers = []
        for engine, image in enumerate(self.engines):
            offsets = []
            for part in Part:
                data = image[part]
                if data is None:
                    offsets.append(0)
                    continue
                address = -(-address // self.alignment) * self.alignment
                offsets.append(address)
                if address + part_bytes(part, data) > LARGEST_IMAGE:
                    raise LayoutError(f"{where(engine, part, address)}: {len(data)} bytes end past 4 GiB")
                address += part_bytes(part, data)
            headers.append(Header(*offsets))
        return tuple(headers), address

    def _refuse(self, headers: tuple[Header, ...], size: int) -> None:
        for engine, header in enumerate(headers):
            for part in Part:
                data = self.engines[engine][part]
                end = 0 if data is None else header[part] + part_bytes(part, data)
                if end > size:
                    raise LayoutError(
                        f"{where(engine, part, header[part])}: it would end at {end:#x}, "
                        f"the data partition ends at {size:#x}"
                    )
        raise LayoutError(f"the headers do not fit into a data partition of {size} bytes")

    def _chunks(self, headers: tuple[Header, ...], end: int, size: int) -> Iterator[bytes]:
        start = self.generation.preamble + b"".join(map(bytes, headers))
        yield self.stored.normal(start)
        address = len(start)
        for image, header in zip(self.engines, headers, strict=True):
            for part in Part:
                data = image[part]
                if data is None:
                    continue
                yield from padding(header[part] - address)
                if part is Part.MODEL:
                    yield self.stored.normal(len(data).to_bytes(LENGTH_BYTES, "little"))
                yield from chunks(data, swapped=self.stored.swapped)
                address = header[part] + part_bytes(part, data)
        yield from padding(size - end)


def part_bytes(part: Part, data: Bytes) -> int:
    """Return the stored bytes of a part: a model has its length in front."""
    return len(data) + (LENGTH_BYTES if part is Part.MODEL else 0)


def padding(size: int) -> Iterator[bytes]:
    """Yield `size` bytes of erased flash; their nibbles are the same in both orders."""
    for start in range(0, size, CHUNK):
        yield _FILL[: size - start]
