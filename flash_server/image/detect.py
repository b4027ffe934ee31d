"""Detection of a stored image's generation and nibble order.

The two later generations carry a version word, and the fast one its calibration bytes, so they are recognized
by these, in either order. The design generation carries nothing. It is taken for one where its headers make
sense in one of the orders, with the number of engines inferred as `headers` says:

1. Every offset is 0, or lies behind the headers and inside the partition; no two models share an address; a
   model whose length can be read ends before the next part begins. An engine that keeps this is good, one
   that breaks it is bad; one without parts counts as neither. There are good engines, and no fewer than bad
   ones.
2. Where both orders pass, the one with fewer bad engines is taken; then the one in which more models' lengths
   were read and fit; then the one whose first part begins right behind the headers; then normal nibbles.

Offsets need not ascend, and need not be aligned: the design lets parts lie in any order, and the packers
align nothing.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from flash_server.errors import LayoutError, NoImageError
from flash_server.image.generations import CALIBRATION, VERSION, Generation, ImageFormat
from flash_server.image.headers import (
    ENGINES_A_STEP,
    LENGTH_BYTES,
    Header,
    Part,
    header_size,
    judge_segments_in_steps,
    model_segment,
    parse_headers_in_steps,
)
from flash_server.image.nibbles import order_name
from flash_server.image.steps import Steps, finish

ERASED: Final = "no image: the flash is erased, all bytes are FF"
ZEROED: Final = "no image: the flash is all zeros"

LARGEST: Final = 1 << 28
"""Bytes of a data partition whose size is not known: QSPI NOR parts end at 256 MiB."""

_BOTH: Final = (False, True)
_SHORTEST: Final = header_size(Generation.FAST, 1)

Read = Callable[[int, int], bytes]
"""Returns `size` stored bytes at an offset of the data partition: `read(offset, size)`."""


def detect(
    prefix: bytes, size: int = LARGEST, read: Read | None = None, swapped: bool | None = None
) -> ImageFormat:
    """Run `detect_in_steps` in one go."""
    return finish(detect_in_steps(prefix, size, read, swapped))


def detect_in_steps(
    prefix: bytes, size: int = LARGEST, read: Read | None = None, swapped: bool | None = None
) -> Steps[ImageFormat]:
    """Recognize the image in a data partition of `size` bytes by its first stored bytes.

    `prefix` need not be more than `PREFIX_BYTES`. `read` looks up models' lengths behind it, which can settle
    the order of a design image; `swapped` gives it. Raises NoImageError where it begins as
    erased or zeroed flash does, LayoutError if nothing fits.
    """
    if not prefix:
        raise NoImageError("no image: the data partition is empty")
    if not prefix[:_SHORTEST].strip(b"\xff"):
        count = len(prefix) - len(prefix.lstrip(b"\xff"))
        raise NoImageError(ERASED if count == size else f"no image: the first {count} bytes are FF")
    if not prefix.strip(b"\0"):
        count = len(prefix)
        raise NoImageError(ZEROED if count == size else f"no image: the first {count} bytes are 00")
    orders = _BOTH if swapped is None else (swapped,)
    for order in orders:
        detected = ImageFormat(Generation.FAST, order)
        start = detected.normal(prefix[: len(CALIBRATION) + len(VERSION)])
        calibration, version = start[: len(CALIBRATION)], start[len(CALIBRATION) :]
        if version == VERSION and calibration == CALIBRATION:
            return detected
        if version == VERSION:
            wrong = next(index for index, byte in enumerate(CALIBRATION) if calibration[index] != byte)
            raise LayoutError(f"calibration bytes of generation {detected}: byte {wrong:#x} is wrong")
        if calibration == CALIBRATION:
            raise LayoutError(
                f"calibration bytes of generation {detected}, but the version word at "
                f"{len(CALIBRATION):#x} is {version.hex(' ') or 'cut off'}, not {VERSION.hex(' ')}"
            )
        if start.startswith(VERSION):
            return ImageFormat(Generation.VERSION_1_2, order)
    return (yield from _detect_design(prefix, size, read or _reader(prefix), orders))


def _detect_design(prefix: bytes, size: int, read: Read, orders: tuple[bool, ...]) -> Steps[ImageFormat]:
    passed: list[tuple[_Rank, ImageFormat]] = []
    refused = []
    for swapped in orders:
        detected = ImageFormat(Generation.DESIGN, swapped)
        try:
            headers = yield from parse_headers_in_steps(prefix, detected)
            rank = yield from _judge(headers, detected, size, read)
        except LayoutError as error:
            refused.append(f"{order_name(swapped=swapped)}: {error}")
        else:
            passed.append((rank, detected))
    if passed:
        return max(passed, key=lambda one: one[0])[1]
    version = _unknown_version(prefix)
    if version:
        raise LayoutError(f"version word {version} at 0x0: version 1.2 is known")
    raise LayoutError(f"no version word, and no headers of the design generation ({'; '.join(refused)})")


class _Rank(NamedTuple):
    """How plausible headers are; the larger is taken."""

    minus_bad: int
    confirmed: int
    is_tight: bool
    is_normal: bool


def _judge(headers: Sequence[Header], detected: ImageFormat, size: int, read: Read) -> Steps[_Rank]:
    """Judge the plausibility of headers. Raises LayoutError with their first fault."""
    good = confirmed = 0
    first = 1 << 32
    errors = []
    segments = yield from judge_segments_in_steps(headers, detected.generation, size)
    for engine, judged in enumerate(segments):
        if engine and not engine % ENGINES_A_STEP:
            yield
        offsets = [offset for part in Part if (offset := headers[engine][part])]
        first = min([first, *offsets])
        if isinstance(judged, LayoutError):
            errors.append(judged)
            continue
        if judged.model:
            word = detected.normal(read(judged.model.start, LENGTH_BYTES))
            if len(word) == LENGTH_BYTES:
                try:
                    model_segment(engine, judged.model, int.from_bytes(word, "little"))
                except LayoutError as error:
                    errors.append(error)
                    continue
                confirmed += 1
        good += bool(offsets)
    if errors and len(errors) > good:
        raise errors[0]
    tight = first == header_size(detected.generation, len(headers))
    return _Rank(-len(errors), confirmed, tight, not detected.swapped)


def _reader(prefix: bytes) -> Read:
    return lambda offset, size: prefix[offset : offset + size]


def _unknown_version(prefix: bytes) -> str:
    """Return a version that is not one of ours, as "1.3"; empty if the first word is not a version word."""
    words = [ImageFormat(Generation.DESIGN, swapped).normal(prefix[: len(VERSION)]) for swapped in _BOTH]
    # In the wrong order small numbers are large ones.
    word = min(words)
    marked = len(word) == len(VERSION) and all(word[i] ^ word[i + 2] == 0xFF for i in range(2))
    return f"{word[0]}.{word[1]}" if marked and any(word[:2]) else ""
