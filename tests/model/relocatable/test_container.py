"""The container of images: two golden vectors, and every field checked."""

import struct
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.addons.kernels.images.report import extra, flash, header_and_rel, memory_layout
from aisrv.model.relocatable.container import (
    HEADER_BYTES,
    VECTORS,
    Core,
    FloatAbi,
    Header,
    Image,
    Variant,
    is_image,
)
from aisrv.model.relocatable.errors import ImageError
from tests.support.amounts import in_ci
from tests.support.models.relocatable import DIGITS, SEED, SPLIT, Layout, read

FIELDS = [(name, at) for name, at, _ in Header.layout()]

SMALL = Layout(flags=0x20085C24, data=64, got_start=68, got=8, bss=5, ro=140, rel=8, weights=16, ctx=32)


def test_the_source_s_report_for_a_cortex_m7() -> None:
    image = Image.from_bytes(SEED.image())
    assert asdict(image.sizes) == {
        "data": 6708, "got": 268, "bss": 300, "ro": 39532, "rel": 1980, "weights": 24368,
        "xip": 7280, "copy": 46812, "file": 72860,
    }  # fmt: skip
    assert len(image.data) == 72860
    assert (extra(image), header_and_rel(image), flash(image)) == (2348, 2080, 46512)
    assert image.variant == Variant(Core.CORTEX_M7, uses_fpu=True, float_abi=FloatAbi.HARD)


def test_the_report_of_an_image_for_a_cortex_m33_with_its_weights_apart() -> None:
    image = Image.from_bytes(SPLIT.image())
    header = image.header
    assert asdict(image.sizes) == {
        "data": 1960, "got": 148, "bss": 148, "ro": 11500, "rel": 512, "weights": 0,
        "xip": 2260, "copy": 13760, "file": 14124,
    }  # fmt: skip
    assert (header.data_end, header.got_start, header.got_end) == (0x800007A8, 0x800007AC, 0x80000840)
    assert (header.bss_end, header.rel_start, header.rel_end) == (0x800008D4, 0x2000352C, 0x2000372C)
    assert header.ctx == 0x8000076C
    assert image.variant == Variant(Core.CORTEX_M33, uses_fpu=True, float_abi=FloatAbi.HARD)


def test_the_same_image_with_its_weights() -> None:
    layout = Layout(
        flags=0x20085D21,
        data=0x7A8,
        got_start=0x7AC,
        got=148,
        bss=148,
        ro=11500,
        rel=512,
        weights=42120,
        ctx=0x76C,
    )
    header = Image.from_bytes(layout.image()).header
    assert (header.weights_start, header.weights_end, len(layout.image())) == (0x2000372C, 0x2000DBB4, 56244)


def test_the_report_as_text() -> None:
    lines = memory_layout(Image.from_bytes(SEED.image())).splitlines()
    assert lines[2:] == [
        "v2.0 'Embedded ARM GCC' cpuid=C27 fpu=True float-abi=2",
        "",
        "XIP size             = 7,280       data(6,708)+got(268)+bss(300) sections",
        "COPY size            = 46,812      +ro(39,532) sections",
        "extra sections       = 2,348       got:268(3.7%) header+rel:2,080(5.3%)",
        "params size          = 24,368      included in the binary file",
        "acts size            = 18,252",
        "binary file size     = 72,860",
        "params file size     = 0",
    ]


@pytest.mark.parametrize("word", [0x20085C27, 0x20085D21, 0x20080C24, 0x20F83C23])
def test_flags_survive(word: int) -> None:
    assert int(Variant.from_word(word)) == word


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        (0x10085C27, "version 1.0"),
        (0x21085C27, "version 2.1"),
        (0x20075C27, "made by tool 7"),
        (0x2008DC27, "reserved bit 15"),
        (0x20087C27, "unknown float ABI 3"),
        (0x20081C27, "uses the FPU, but the float ABI is soft"),
        (0x20085C28, "part number 0xc28"),
    ],
)
def test_flags_that_make_no_sense(word: int, reason: str) -> None:
    with pytest.raises(ImageError, match=reason):
        Image.from_bytes(SMALL.changed(flags=word))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"data_start": 0x80000004}, "data_start"),
        ({"data_start": 0x20000000}, "data_start 0x20000000 has class 0x2, must have 0x8"),
        ({"data_end": 0x80000048}, "data_end 0x80000048 is behind got_start"),
        ({"data_end": 0x8000003F}, "data_end 0x8000003f is not a multiple of 4"),
        ({"data_data": 0x20000060}, "inside of the header"),
        ({"data_data": 0x20000090}, "rel_start"),
        ({"bss_start": 0x80000048}, "got_end 0x8000004c is behind bss_start"),
        ({"bss_end": 0x80000048}, "bss_start 0x8000004c is behind bss_end"),
        ({"got_start": 0x80000050}, "got_start 0x80000050 is behind got_end"),
        ({"got_end": 0x80000048}, "rel_start"),
        ({"rel_start": 0x200000DC}, "rel_start"),
        ({"rel_end": 0x200000D4}, "rel_start 0x200000d8 is behind rel_end"),
        ({"rel_end": 0x200000E4}, "weights_start"),
        ({"weights_start": 0}, "weights_start 0x00000000 has class 0x0"),
        ({"weights_end": 0}, "weights_end 0x00000000 has class 0x0"),
        ({"weights_end": 0x200000F4}, "weights_end says that the image has 244 bytes, it has 240"),
        ({"weights_start": 0, "weights_end": 0}, "rel_end says that the image has 224 bytes, it has 240"),
        ({"ctx": 0x80000022}, "ctx"),
        ({"ctx": 0x80000024}, "ctx 0x80000024 is not wholly in .data"),
        ({"ctx": 0x20000020}, "ctx 0x20000020 has class 0x2"),
        *(({name: 0x20000064}, f"{name} 0x20000064 is not Thumb code") for name in VECTORS),
        *(({name: 0x20000061}, f"{name} 0x20000061 is outside of the code") for name in VECTORS),
        *(({name: 0x2000008D}, f"{name} 0x2000008d is outside of the code") for name in VECTORS),
        *(({name: 0x80000065}, f"{name} 0x80000065 has class 0x8") for name in VECTORS),
        *(({name: 0}, f"{name} 0x00000000 has class 0x0") for name in VECTORS),
    ],
)
def test_a_field_that_makes_no_sense(fields: dict[str, int], reason: str) -> None:
    with pytest.raises(ImageError, match=reason):
        Image.from_bytes(SMALL.changed(**fields))


def test_the_small_image_is_right() -> None:
    image = Image.from_bytes(SMALL.image())
    assert (image.name, image.sizes.xip, image.relocations) == ("network", 84, (52, 0))


@pytest.mark.parametrize("size", [0, 1, 3, 4, 99])
def test_less_than_a_header(size: int) -> None:
    with pytest.raises(ImageError, match=f"{size} bytes are not an image: the header alone has 100"):
        Image.from_bytes(SMALL.image()[:size])


@pytest.mark.parametrize("size", [100, 139, 140, 203, 208, 215, 216, 223, 224, 239])
def test_truncated(size: int) -> None:
    with pytest.raises(ImageError, match=f"weights_end says that the image has 240 bytes, it has {size}"):
        Image.from_bytes(SMALL.image()[:size])


def test_a_byte_too_many() -> None:
    with pytest.raises(ImageError, match="it has 241"):
        Image.from_bytes(SMALL.image() + b"\0")


@pytest.mark.parametrize("word", [0x2000008D, 0x80000055, 0x10000000, 0x30000000, 0x90000000, 1])
def test_a_word_of_got_out_of_range(word: int) -> None:
    image = bytearray(SMALL.image())
    struct.pack_into("<I", image, 140 + 68, word)
    with pytest.raises(ImageError, match=rf"\.got, word 0 .*{word:#010x}"):
        Image.from_bytes(image)


@pytest.mark.parametrize("word", [0, 0x2000008C, 0x80000054])
def test_a_word_of_got_within_what_is_installed(word: int) -> None:
    image = bytearray(SMALL.image())
    struct.pack_into("<I", image, 140 + 68, word)
    assert Image.from_bytes(image).got == (word, 0)


@pytest.mark.parametrize("target", [0x80000002, 0x80000040, 0x80000044, 0x20000000, 0])
def test_a_word_of_rel_that_is_no_word_of_data(target: int) -> None:
    image = bytearray(SMALL.image())
    struct.pack_into("<I", image, 220, target)
    with pytest.raises(ImageError, match=rf"\.rel, word 1: {target:#010x} is not a word of \.data"):
        Image.from_bytes(image)


def test_a_word_of_rel_twice() -> None:
    image = bytearray(SMALL.image())
    struct.pack_into("<2I", image, 216, 0x80000034, 0x80000034)
    with pytest.raises(ImageError, match="listed twice"):
        Image.from_bytes(image)


def test_what_rel_points_to_is_out_of_range() -> None:
    image = bytearray(SMALL.image())
    struct.pack_into("<I", image, 140, 0x80000058)
    with pytest.raises(ImageError, match=r"\.rel, word 1: the word at 0x80000000: 0x80000058 is outside"):
        Image.from_bytes(image)


def test_a_name_that_is_not_relocated() -> None:
    image = bytearray(SMALL.image())
    struct.pack_into("<2I", image, 216, 0x80000000, 0x80000004)
    with pytest.raises(ImageError, match="c_name"):
        Image.from_bytes(image)


def test_a_name_that_does_not_end() -> None:
    image = bytearray(SMALL.image())
    image[108:140] = b"x" * 32
    with pytest.raises(ImageError, match="is not text"):
        Image.from_bytes(image)


def test_recognized_by_its_magic() -> None:
    assert is_image(b"NBIN")
    assert is_image(SMALL.image())
    assert not is_image(b"NBI")
    assert not is_image(b"\x1c\0\0\0TFL3")


def test_fields_lie_where_the_source_has_them() -> None:
    places = dict(FIELDS)
    assert (places["flags"], places["data_data"], places["got_start"], places["weights_end"]) == (
        4,
        16,
        28,
        48,
    )
    assert (places["create"], places["observer_node_info"], places["ctx"], HEADER_BYTES) == (52, 92, 96, 100)


@settings(max_examples=in_ci(500, every_day=100), deadline=None)
@given(place=st.integers(0, 2**32), value=st.integers(0, 2**32 - 1))
def test_one_wrong_word_is_refused_or_harmless(place: int, value: int) -> None:
    data = bytearray(read(DIGITS))
    struct.pack_into("<I", data, place % (len(data) // 4) * 4, value)
    try:
        image = Image.from_bytes(data)
    except ImageError:
        return
    assert image.sizes.file == len(data)


FLIPS_THAT_STAY = {"flags", "got_start", "bss_end", "ctx", *VECTORS}
"""Fields of which a single bit may be flipped and the image still makes sense: the format has no checksum."""


@pytest.mark.parametrize(("name", "at"), FIELDS)
def test_each_bit_of_each_field_flipped(name: str, at: int) -> None:
    data = read(DIGITS)
    refused = 0
    for bit in range(32):
        flipped = bytearray(data)
        (word,) = struct.unpack_from("<I", flipped, at)
        struct.pack_into("<I", flipped, at, word ^ 1 << bit)
        try:
            Image.from_bytes(flipped)
        except ImageError:
            refused += 1
    if name in FLIPS_THAT_STAY:
        assert refused >= 4
    else:
        assert refused == 32
