"""Which image it is: all generations and orders, no image at all, damaged images, and anything else."""

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flash_server.errors import LayoutError, NoImageError
from flash_server.image import (
    PREFIX_BYTES,
    DataPartition,
    EngineImage,
    Generation,
    Header,
    ImageFormat,
    Part,
    detect,
    parse,
)
from flash_server.image.nibbles import swap

DESIGN, V12, FAST = Generation.DESIGN, Generation.VERSION_1_2, Generation.FAST
ORDERS = list(product(Generation, (False, True)))

MODEL = bytes(range(200)) * 20
ENGINES = (
    EngineImage(MODEL, b"\x55" * 99, b"\x66" * 7, b"\x77"),
    EngineImage(MODEL[7:]),
    EngineImage(xip=MODEL),
)


@pytest.mark.parametrize(("generation", "swapped"), ORDERS)
@pytest.mark.parametrize("alignment", [1, 4, 64, 256, 4096, 65536])
def test_every_kind_is_detected(generation: Generation, swapped: bool, alignment: int) -> None:
    image = DataPartition(ENGINES, generation, swapped, alignment).build()
    found = detect(image[:PREFIX_BYTES], len(image), lambda offset, size: image[offset : offset + size])
    assert found == ImageFormat(generation, swapped)


@pytest.mark.parametrize(("generation", "swapped"), ORDERS)
def test_first_bytes_are_enough(generation: Generation, swapped: bool) -> None:
    image = DataPartition(ENGINES, generation, swapped).build()
    assert detect(image[:PREFIX_BYTES]) == ImageFormat(generation, swapped)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("count", range(1, 40))
def test_design_order_is_found_for_any_number_of_engines(count: int, swapped: bool) -> None:
    image = DataPartition((EngineImage(b"\x12\x34\x56\x78"),) * count, DESIGN, swapped).build()
    assert detect(image, len(image)) == ImageFormat(DESIGN, swapped)
    assert len(parse(image).engines) == count


def test_order_can_be_said() -> None:
    # 0x100 in normal order is 0x1000 swapped: parameters alone tell nothing.
    image = bytes(Header(parameters=0x100)) + b"\xff" * 0x2000
    assert detect(image) == ImageFormat(DESIGN, False)
    assert detect(image, swapped=True) == ImageFormat(DESIGN, True)


def test_model_length_settles_the_order() -> None:
    image = bytearray(bytes(Header(model=0x100)) + b"\xff" * 0x2000)
    image[0x1000:0x1004] = swap((100).to_bytes(4, "little"))
    read = bytes(image)
    assert detect(read[:64], len(read), lambda offset, size: read[offset : offset + size]) == ImageFormat(
        DESIGN, True
    )
    image[0x100:0x104] = (200).to_bytes(4, "little")
    image[0x1000:0x1004] = b"\xff" * 4
    assert detect(bytes(image)) == ImageFormat(DESIGN, False)


def test_model_that_was_read_counts_more_than_one_that_was_not() -> None:
    # In normal order, the model would be at 0x1000, behind the prefix.
    image = DataPartition((EngineImage(b"model"),), DESIGN, True, alignment=256).build()
    assert image[:4] == b"\0\x10\0\0"
    assert detect(image) == ImageFormat(DESIGN, True)
    assert detect(image[:256]) == ImageFormat(DESIGN, False)


def test_part_right_behind_the_headers_counts() -> None:
    engines = (EngineImage(parameters=b"\xff" * 100), *(EngineImage(),) * 15)
    image = DataPartition(engines, DESIGN, True).build()
    assert image[4:8] == b"\0\x10\0\0"
    assert detect(image) == ImageFormat(DESIGN, True)


@pytest.mark.parametrize("size", [1, 16, 52, 1000, PREFIX_BYTES])
@pytest.mark.parametrize(
    ("byte", "what"), [(b"\xff", "erased, all bytes are FF"), (b"\0", "all zeros")], ids=["FF", "00"]
)
def test_bytes_all_alike_are_no_image(byte: bytes, what: str, size: int) -> None:
    with pytest.raises(NoImageError, match=f"no image: the flash is {what}"):
        detect(byte * size, size)
    with pytest.raises(NoImageError, match=f"no image: the first {size} bytes are {byte.hex().upper()}$"):
        detect(byte * size, size + 1)


def test_erased_start_is_no_image_and_not_told_as_more() -> None:
    with pytest.raises(NoImageError, match=r"no image: the first 52 bytes are FF$"):
        detect(b"\xff" * 52 + MODEL, 52 + len(MODEL))


def test_nothing_is_no_image() -> None:
    with pytest.raises(NoImageError, match="the data partition is empty"):
        detect(b"")


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("place", "message"),
    [
        (0x12, r"calibration bytes of generation fast, .*: byte 0x12 is wrong"),
        (33, "the version word at 0x20 is 01 33 fe fd, not 01 02 fe fd"),
    ],
)
def test_damaged_preamble_is_named(place: int, message: str, swapped: bool) -> None:
    image = bytearray(DataPartition(ENGINES, FAST, swapped).build())
    image[place] = 0x33  # reads the same in both orders
    with pytest.raises(LayoutError, match=message):
        parse(bytes(image))


@pytest.mark.parametrize("swapped", [False, True])
def test_unknown_version_is_named(swapped: bool) -> None:
    image = b"\x01\x03\xfe\xfc" + bytes(Header(model=0x14)) + bytes(20)
    with pytest.raises(LayoutError, match=r"version word 1\.3 at 0x0: version 1\.2 is known"):
        parse(swap(image) if swapped else image)


def test_one_bad_engine_does_not_hide_a_design_image() -> None:
    headers = (Header(model=0x20), Header(parameters=0xFFFFFF00))
    image = b"".join(map(bytes, headers)) + b"\x04\0\0\0abcd"
    assert detect(image, len(image)) == ImageFormat(DESIGN, False)
    with pytest.raises(
        LayoutError, match="engine 1: parameters at 0xffffff00: the data partition ends at 0x28"
    ):
        parse(image)


def test_text_is_no_image() -> None:
    with pytest.raises(
        LayoutError, match=r"no version word, .* \(normal: engine 0: .*; swapped: engine 0: .*\)"
    ):
        detect(b"This is a text and not an image of a flash. " * 100)


# Damage: LayoutError, or the right answer; never another exception.


def sound(image: bytes, engines: int | None = None) -> DataPartition | None:
    """What `parse` makes of it, checked: everything lies within the image. None = refused."""
    try:
        found = parse(image, engines)
    except LayoutError:
        return None
    total = sum(len(engine[part] or b"") for engine in found.engines for part in Part)
    assert total <= len(image)
    assert 1 <= len(found.engines) <= 256
    return found


@pytest.mark.parametrize(("generation", "swapped"), ORDERS)
def test_image_cut_anywhere_is_refused_or_shorter(generation: Generation, swapped: bool) -> None:
    partition = DataPartition(
        (EngineImage(b"\1" * 9, b"\2" * 9), EngineImage(b"\3" * 9)), generation, swapped
    )
    image = partition.build()
    assert sound(image) == partition
    for size in range(len(image)):
        assert sound(image[:size]) is None, size


@pytest.mark.parametrize(("generation", "swapped"), ORDERS)
def test_every_bit_of_the_headers_may_be_wrong(generation: Generation, swapped: bool) -> None:
    image = DataPartition(
        (EngineImage(b"\1" * 40, b"\2" * 40), EngineImage(b"\3" * 40)), generation, swapped
    ).build()
    for bit in range(8 * (len(generation.preamble) + 36)):
        damaged = bytearray(image)
        damaged[bit // 8] ^= 1 << bit % 8
        sound(bytes(damaged))
        sound(bytes(damaged), 2)


@given(
    st.sampled_from(list(Generation)),
    st.booleans(),
    st.lists(
        st.builds(
            Header, *[st.sampled_from([0, 1, 36, 68, 100, 150]) | st.integers(0, 300) for _ in range(4)]
        ),
        min_size=1,
        max_size=4,
    ),
    st.binary(max_size=200),
    st.none() | st.integers(-1, 300),
)
def test_hostile_headers(
    generation: Generation, swapped: bool, headers: list[Header], body: bytes, engines: int | None
) -> None:
    image = generation.preamble + b"".join(map(bytes, headers)) + body
    sound(swap(image) if swapped else image, engines)


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    sound(data)


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_refused_in_time_linear_in_its_headers(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A header's offsets are looked at a few times, however many others there are."""
    looks = 0

    def look(header: Header, part: Part) -> int:
        nonlocal looks
        looks += 1
        return (header.model, header.parameters, header.operators, header.xip)[part]

    monkeypatch.setattr(Header, "__getitem__", look)
    noise = Random(seed).randbytes(PREFIX_BYTES)
    with pytest.raises(LayoutError, match="no version word, and no headers of the design generation"):
        detect(noise, 7 << 20)
    assert looks <= 2 * 256 * 4 * 8


def test_worst_headers_take_no_time() -> None:
    """256 engines, every offset another: bounded by a thousand offsets, however large the partition."""
    headers = b"".join(bytes(Header(*range(5000 + 4 * i, 5004 + 4 * i))) for i in range(256))
    reads = []

    def read(offset: int, size: int) -> bytes:
        reads.append(size)
        return (DataPartition(ENGINES, V12).build()[:4] + headers)[offset : offset + size].ljust(size, b"\0")

    from flash_server.image import map_image

    with pytest.raises(LayoutError, match="engine 0: model at 0x1388: no room for its length"):
        map_image(read, 1 << 28)
    assert sum(reads) <= PREFIX_BYTES + 256 * 4
