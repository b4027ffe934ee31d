"""The layout of the data partition: bytes written by hand from the wire document, and every value back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flash_server.errors import LayoutError
from flash_server.image import (
    PREFIX_BYTES,
    DataPartition,
    EngineImage,
    Generation,
    Header,
    ImageFormat,
    Part,
    Segment,
    Segments,
    header_size,
    map_image,
    model_segment,
    parse,
    parse_headers,
    segment_limits,
)
from flash_server.image.nibbles import CHUNK, SWAP, chunks, swap, swap_all
from tests.support.paths import ROOT

DESIGN, V12, FAST = Generation.DESIGN, Generation.VERSION_1_2, Generation.FAST

TWO_ENGINES = (
    EngineImage(model=b"\xa1\xa2\xa3", parameters=b"\xb1\xb2"),
    EngineImage(xip=b"\xc1"),
)

PARTS = "03000000 a1a2a3 b1b2 c1"
SWAPPED_PARTS = "30000000 1a2a3a 1b2b 1c"

GOLDEN = {
    (DESIGN, False): f"20000000 27000000 00000000 00000000 00000000 00000000 00000000 29000000 {PARTS}",
    (
        DESIGN,
        True,
    ): f"02000000 72000000 00000000 00000000 00000000 00000000 00000000 92000000 {SWAPPED_PARTS}",
    (V12, False): f"0102fefd 24000000 2b000000 00000000 00000000 00000000 00000000 00000000 2d000000 {PARTS}",
    (V12, True): (
        f"1020efdf 42000000 b2000000 00000000 00000000 00000000 00000000 00000000 d2000000 {SWAPPED_PARTS}"
    ),
    (FAST, False): (
        "ff000f0f0f0f0f0f ff00ff00ff00ff00 31f7ce0831f7ce08 9c639c639c639c63 0102fefd"
        f"44000000 4b000000 00000000 00000000 00000000 00000000 00000000 4d000000 {PARTS}"
    ),
    (FAST, True): (
        "ff00f0f0f0f0f0f0 ff00ff00ff00ff00 137fec80137fec80 c936c936c936c936 1020efdf"
        f"44000000 b4000000 00000000 00000000 00000000 00000000 00000000 d4000000 {SWAPPED_PARTS}"
    ),
}


@pytest.mark.parametrize(("generation", "swapped"), list(GOLDEN))
def test_golden_image(generation: Generation, swapped: bool) -> None:
    partition = DataPartition(TWO_ENGINES, generation, swapped)
    assert partition.build() == bytes.fromhex(GOLDEN[generation, swapped])
    assert partition.image_size == len(partition.build())
    assert parse(partition.build()) == partition


def test_example_in_the_documentation() -> None:
    page = (ROOT / "docs/reference/flash.md").read_text()
    text = page.split("#### An example\n")[1].split("\n### ", maxsplit=1)[0]
    rows = [line.split("|")[2] for line in text.splitlines() if line.startswith("| 0x")]
    assert bytes.fromhex("".join(rows).replace("`", "")) == bytes.fromhex(GOLDEN[DESIGN, False])


@pytest.mark.parametrize(("generation", "swapped"), [(DESIGN, False), (V12, False), (FAST, True)])
def test_usual_order_of_nibbles(generation: Generation, swapped: bool) -> None:
    assert DataPartition(TWO_ENGINES, generation).build() == bytes.fromhex(GOLDEN[generation, swapped])


def test_alignment_moves_parts_and_pads_with_ff() -> None:
    engine = EngineImage(model=b"\xa1\xa2\xa3\xa4\xa5", parameters=b"\xb1", xip=b"\xd1\xd2")
    assert DataPartition((engine,), DESIGN, alignment=16).build() == bytes.fromhex(
        "10000000 20000000 00000000 30000000 05000000 a1a2a3a4a5 ffffffffffffff"
        "b1 ffffffffffffffffffffffffffffff d1d2"
    )


def test_empty_part_has_an_offset_and_absent_part_has_none() -> None:
    engine = EngineImage(model=b"", parameters=b"", operators=None, xip=b"\x77")
    image = DataPartition((engine,), DESIGN).build()
    assert image == bytes.fromhex("10000000 14000000 00000000 14000000 00000000 77")
    assert parse(image).engines == (EngineImage(b"", b"", None, b"\x77"),)


def test_parts_in_another_order_are_read_alike() -> None:
    """The design document: models and all else lie in any order behind the headers."""
    image = bytes.fromhex("15000000 13000000 11000000 10000000 dd cccc bbbb 02000000 aaaa")
    assert parse(image).engines == (EngineImage(b"\xaa\xaa", b"\xbb\xbb", b"\xcc\xcc", b"\xdd"),)


def test_fill_pads_with_ff_up_to_the_size() -> None:
    partition = DataPartition(TWO_ENGINES, DESIGN)
    image = partition.build(100, fill=True)
    assert image == partition.build() + b"\xff" * (100 - 42)
    assert partition.build(42) == partition.build(42, fill=True) == partition.build()


def test_image_larger_than_the_partition_names_the_part() -> None:
    with pytest.raises(LayoutError, match=r"^engine 1: xip at 0x29: it would end at 0x2a, .* ends at 0x29$"):
        DataPartition(TWO_ENGINES, DESIGN).build(41)
    with pytest.raises(LayoutError, match=r"^engine 0: model at 0x20: it would end at 0x27"):
        DataPartition(TWO_ENGINES, DESIGN).build(38)


def test_nothing_is_built_before_it_is_known_to_fit() -> None:
    with pytest.raises(LayoutError, match="engine 1: xip"):
        DataPartition(TWO_ENGINES, DESIGN).chunks(41)


def test_fill_needs_a_size() -> None:
    with pytest.raises(LayoutError, match="its size must be known"):
        DataPartition(TWO_ENGINES).build(fill=True)


@pytest.mark.parametrize("count", [0, 257])
def test_number_of_engines_is_limited(count: int) -> None:
    with pytest.raises(LayoutError, match=f"1 to 256 engines, not {count}"):
        DataPartition((EngineImage(b""),) * count)


def test_256_engines() -> None:
    partition = DataPartition((EngineImage(xip=b"\x01"),) * 256)
    image = partition.build()
    assert len(image) == PREFIX_BYTES + 256
    assert parse(image) == DataPartition(partition.engines, FAST, True)


@pytest.mark.parametrize("alignment", [0, -1, 3, 24, 1 << 25])
def test_alignment_is_a_power_of_two(alignment: int) -> None:
    with pytest.raises(LayoutError, match=f"power of two up to 16777216 bytes, not {alignment}"):
        DataPartition(TWO_ENGINES, alignment=alignment)


def test_engines_without_any_part_are_no_image() -> None:
    with pytest.raises(LayoutError, match="none of 3 engines has any part"):
        DataPartition((EngineImage(),) * 3)


def test_offsets_stay_within_a_u32() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 3 << 30

    with pytest.raises(
        LayoutError, match="engine 0: parameters at 0xc0000014: 3221225472 bytes end past 4 GiB"
    ):
        DataPartition((EngineImage(model=Huge(), parameters=Huge()),), DESIGN).headers()


# Headers by themselves, as a server reads them.


@pytest.mark.parametrize(("generation", "start"), [(DESIGN, 0), (V12, 4), (FAST, 36)])
def test_headers_start_behind_the_preamble(generation: Generation, start: int) -> None:
    assert header_size(generation, 0) == start
    assert header_size(generation, 3) == start + 48


def test_header_is_four_little_endian_words() -> None:
    header = Header(0x01020304, 0, 0x0A, 0xFFFFFFFF)
    assert bytes(header) == bytes.fromhex("04030201 00000000 0a000000 ffffffff")
    assert Header.from_bytes(bytes(header)) == header


@pytest.mark.parametrize("size", [0, 15, 17])
def test_header_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(LayoutError, match=f"a header has 16 bytes, not {size}"):
        Header.from_bytes(bytes(size))


@pytest.mark.parametrize("offset", [-1, 1 << 32])
def test_header_offset_is_a_u32(offset: int) -> None:
    with pytest.raises(LayoutError, match=r"operators at .*: an offset is a u32"):
        Header(operators=offset)


def test_smallest_offset_tells_the_number_of_engines() -> None:
    prefix = bytes(Header(model=0x40)) + bytes(16) + bytes(Header(xip=0x30)) + bytes(100)
    assert parse_headers(prefix, ImageFormat(DESIGN, False)) == (
        Header(model=0x40),
        Header(),
        Header(xip=0x30),
    )


def test_caller_may_say_the_number_of_engines() -> None:
    prefix = bytes(Header(model=0x40)) + bytes(48)
    assert parse_headers(prefix, ImageFormat(DESIGN, False), engines=2) == (Header(model=0x40), Header())
    assert len(parse_headers(prefix, ImageFormat(DESIGN, False))) == 4


def test_padding_is_not_taken_for_headers() -> None:
    partition = DataPartition((EngineImage(b"\1"), EngineImage(b"\2")), V12, True, alignment=4096)
    assert len(parse(partition.build()).engines) == 2


def test_headers_must_be_whole() -> None:
    image = DataPartition((EngineImage(b"\1"),) * 3, V12).build()
    for size in range(header_size(V12, 3)):
        with pytest.raises(LayoutError):
            parse_headers(image[:size], ImageFormat(V12, False))
        with pytest.raises(LayoutError):
            parse_headers(image[:size], ImageFormat(V12, False), engines=3)
    assert len(parse_headers(image[: header_size(V12, 3)], ImageFormat(V12, False))) == 3


def test_part_ends_at_the_next_offset_of_any_engine() -> None:
    headers = (Header(0x80, 0x60), Header(0x20, 0, 0x70))
    assert segment_limits(headers, 0, DESIGN, 0x100) == Segments(Segment(0x80, 0x100), Segment(0x60, 0x70))
    assert segment_limits(headers, 1, DESIGN, 0x100) == Segments(
        Segment(0x20, 0x60), None, Segment(0x70, 0x80)
    )


def test_empty_part_does_not_reach_into_the_next_engine() -> None:
    """What the fast generation's packer writes: missing parts have the offset of what follows."""
    headers = (Header(0x20, 0x30, 0x30, 0x30), Header(0x30, 0x40, 0x40, 0x40))
    assert segment_limits(headers, 0, DESIGN, 0x48) == Segments(
        Segment(0x20, 0x30), Segment(0x30, 0x30), Segment(0x30, 0x30), Segment(0x30, 0x30)
    )
    assert segment_limits(headers, 1, DESIGN, 0x48).model == Segment(0x30, 0x40)
    assert segment_limits(headers, 1, DESIGN, 0x48).operators == Segment(0x40, 0x40)


def test_model_owns_an_address_whatever_the_order() -> None:
    headers = (Header(model=0x20), Header(parameters=0x20))
    assert segment_limits(headers, 0, DESIGN, 0x48).model == Segment(0x20, 0x48)
    assert segment_limits(headers, 1, DESIGN, 0x48).parameters == Segment(0x20, 0x20)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (Header(parameters=0x1F), "parameters at 0x1f: an offset inside the headers, which end at 0x20"),
        (Header(operators=0x101), "operators at 0x101: the data partition ends at 0x100"),
        (Header(xip=0xFFFFFFFF), "xip at 0xffffffff: the data partition ends at 0x100"),
        (Header(model=0x100), "model at 0x100: the data partition ends at 0x100"),
        (Header(model=0xFD), "model at 0xfd: no room for its length, the next part or the end is at 0x100"),
        (Header(model=0x40, xip=0x43), "model at 0x40: no room for its length, .* is at 0x43"),
        (Header(model=0x20), "model at 0x20: engine 0 has its model there"),
    ],
)
def test_broken_offset_is_named_and_spares_the_other_engine(header: Header, message: str) -> None:
    headers = (Header(model=0x20), header)
    with pytest.raises(LayoutError, match=f"^engine 1: {message}$"):
        segment_limits(headers, 1, DESIGN, 0x100)
    model = segment_limits(headers, 0, DESIGN, 0x100).model
    assert model is not None
    assert model.start == 0x20


def test_model_length_may_fill_its_segment_and_not_more() -> None:
    assert model_segment(0, Segment(0x20, 0x30), 12) == Segment(0x24, 0x30)
    assert model_segment(0, Segment(0x20, 0x30), 0) == Segment(0x24, 0x24)
    with pytest.raises(
        LayoutError, match=r"^engine 7: model at 0x20: its length says 13 bytes, .* 0x31, .* is at 0x30$"
    ):
        model_segment(7, Segment(0x20, 0x30), 13)


def test_only_headers_and_lengths_are_read() -> None:
    image = DataPartition((EngineImage(bytes(100_000)), EngineImage(b"\1" * 50_000))).build()
    read = []

    def reader(offset: int, size: int) -> bytes:
        read.append((offset, size))
        return image[offset : offset + size]

    found = map_image(reader, len(image))
    assert read == [(0, PREFIX_BYTES), (0x44, 4), (0x44 + 100_004, 4)]
    assert found.parts[1].model == Segment(0x44 + 100_008, len(image))


# Any image there and back.

part_bytes = st.none() | st.binary(max_size=40)
engine_images = st.builds(EngineImage, part_bytes, part_bytes, part_bytes, part_bytes)
engine_lists = st.lists(engine_images, min_size=1, max_size=5).filter(
    lambda engines: any(engine[part] is not None for engine in engines for part in Part)
)


@given(
    engine_lists,
    st.sampled_from(list(Generation)),
    st.booleans(),
    st.sampled_from([1, 2, 4, 16, 256, 4096]),
    st.integers(0, 300),
)
def test_round_trip(
    engines: list[EngineImage], generation: Generation, swapped: bool, alignment: int, spare: int
) -> None:
    partition = DataPartition(tuple(engines), generation, swapped, alignment)
    image = partition.build(partition.image_size + spare, fill=True)
    assert len(image) == partition.image_size + spare
    found = parse(image, len(engines), ImageFormat(generation, swapped))
    for wanted, got in zip(engines, found.engines, strict=True):
        for part in Part:
            stored, data = got[part], wanted[part]
            if data is None or part is Part.MODEL:
                assert stored == data
            else:
                assert stored is not None
                assert bytes(stored[: len(data)]) == data
                assert not bytes(stored[len(data) :]).strip(b"\xff")


@given(engine_lists, st.sampled_from([V12, FAST]), st.booleans())
def test_round_trip_with_nothing_said(
    engines: list[EngineImage], generation: Generation, swapped: bool
) -> None:
    partition = DataPartition(tuple(engines), generation, swapped)
    if any(engine[part] == b"" for engine in engines for part in Part if part is not Part.MODEL):
        assert parse(partition.build(), len(engines)).engines == tuple(engines)
    else:
        assert parse(partition.build()) == partition


# Nibbles.


def test_nibbles_are_swapped() -> None:
    assert swap(b"\x00\x12\xf0\xab\xff") == b"\x00\x21\x0f\xba\xff"
    assert [SWAP[SWAP[byte]] for byte in range(256)] == list(range(256))


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_large_data_are_swapped_in_pieces(size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    pieces = list(chunks(data[:size], swapped=True))
    assert b"".join(pieces) == swap(data[:size]) == bytes(swap_all(data[:size]))
    assert max(map(len, pieces), default=0) <= CHUNK
    assert b"".join(chunks(data[:size])) == data[:size]
