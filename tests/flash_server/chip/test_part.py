"""Flash parts as values, and the table in which a part describes itself."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flash_server.chip.part import (
    MX25R3235F,
    MX25R6435F,
    PARTS,
    Erase,
    FlashPart,
    part_identified,
    part_named,
)
from flash_server.chip.sfdp import basic_table, part_described, sfdp_of
from flash_server.errors import PartError

MX25R64_TABLE = bytes.fromhex(
    "e520f1ffffffff0344eb086b083b04bbeeffffffffff00ffffff00ff0c200f52"
    "10d800ff2372f50082ed04cc4483684430b030b0f7c4d55c00be29fff0d0ffff"
)
"""As read from a real part: property sfdp-bfp of the MX25R64 in Zephyr's device trees of nRF52840 boards."""


def test_parts_are_found_by_name_and_id() -> None:
    assert part_named("mx25r6435f") is MX25R6435F
    assert part_identified(b"\xc2\x28\x16") is MX25R3235F
    assert part_identified(b"\xc2\x28\x18") is None
    with pytest.raises(PartError, match="no part is named 'W25'; known are MX25R6435F, MX25R3235F"):
        part_named("W25")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0}, "0 bytes are not whole blocks of 65536"),
        ({"size": 65537}, "65537 bytes are not whole blocks"),
        ({"size": 1 << 25}, "addresses of 24 bits reach 16777216"),
        ({"jedec_id": 0}, "JEDEC id 0x0 does not fit"),
        ({"jedec_id": 1 << 24}, "JEDEC id 0x1000000 does not fit"),
        ({"page_size": 0}, "0 bytes for a page"),
        ({"page_size": 100}, "100 bytes for a page"),
        ({"page_size": 8192}, "pages of 8192, sectors of 4096"),
        ({"erases": ()}, "no erase command"),
        ({"erases": (Erase(0x20, 3000, 0),)}, "3000 bytes for a page, sector or block"),
        ({"erases": (Erase(0xD8, 65536, 0), Erase(0x20, 4096, 0))}, "from the smallest"),
        ({"erases": (Erase(0x20, 4096, 0), Erase(0x20, 8192, 0))}, "the same opcode"),
        ({"erases": (Erase(0x20, 131072, 0),)}, "sectors of 131072 bytes, 65536 is the most"),
        ({"largest_clock_hz": 0}, "a clock of 0 Hz"),
        ({"page_program_seconds": -1}, "takes a negative time"),
    ],
)
def test_values_that_contradict_each_other(changes: dict[str, object], message: str) -> None:
    with pytest.raises(PartError, match=message):
        replace(MX25R6435F, **changes)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(("address", "size"), [(-1, 1), (0, 0x800001), (0x800000, 1), (5, -1)])
def test_ranges_that_do_not_exist(address: int, size: int) -> None:
    with pytest.raises(PartError, match="MX25R6435F ends at 0x800000"):
        MX25R6435F.check_range(address, size)


def test_ranges_up_to_the_end() -> None:
    MX25R6435F.check_range(0, 0x800000)
    MX25R6435F.check_range(0x800000, 0)


def test_the_table_is_that_of_the_real_part() -> None:
    assert basic_table(MX25R6435F) == MX25R64_TABLE


@pytest.mark.parametrize("part", PARTS.values())
def test_a_part_is_read_back_from_its_table(part: FlashPart) -> None:
    found = part_described(part.identification, sfdp_of(part))
    # The table has times in units of its own: half of 52 s is not a whole number of them.
    assert replace(found, name=part.name, chip_erase_seconds=part.chip_erase_seconds) == part


@given(
    blocks=st.integers(1, 256),
    page=st.integers(5, 12),
    milliseconds=st.integers(1, 30_000),
)
def test_user_defined_parts_are_read_back(blocks: int, page: int, milliseconds: int) -> None:
    part = FlashPart(
        "ours",
        blocks * 65536,
        0x123456,
        page_size=1 << page,
        erases=(Erase(0x20, 4096, 0.016), Erase(0xD8, 65536, milliseconds / 1000)),
    )
    found = part_described(part.identification, sfdp_of(part))
    assert (found.size, found.page_size, found.jedec_id) == (part.size, part.page_size, part.jedec_id)
    assert found.erases[0] == part.erases[0]
    assert 0 <= found.erases[1].seconds - part.erases[1].seconds <= max(0.016, part.erases[1].seconds)


@pytest.mark.parametrize("table", [b"", b"SFDP", bytes(112), b"\xff" * 112, sfdp_of(MX25R6435F)[:111]])
def test_a_part_that_does_not_describe_itself(table: bytes) -> None:
    with pytest.raises(PartError, match="JEDEC id 0x010203"):
        part_described(b"\1\2\3", table)


@given(st.binary(min_size=64, max_size=64))
def test_tables_of_nonsense_make_a_part_or_an_error(table: bytes) -> None:
    with suppress(PartError):
        part_described(b"\1\2\3", sfdp_of(MX25R6435F)[:0x30] + table)
