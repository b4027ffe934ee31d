"""The journal of a data partition: records and claims that are damaged, cut short, or lie."""

import pytest

from flash_server.errors import LayoutError
from flash_server.image.journal import (
    CLAIM_BYTES,
    RECORD_BYTES,
    Claim,
    JournalRecord,
    PartitionChange,
    ReservedSectors,
)

SECTOR = 4096
PLACES = ReservedSectors(24 * SECTOR, SECTOR)
END = 19 * SECTOR
CHANGE = PartitionChange(((0, b""), (2 * SECTOR, b""), (4 * SECTOR, b"")), range(3 * SECTOR, 4 * SECTOR))
RECORD = JournalRecord.of(CHANGE, END, 0x12345678)
CLAIM = Claim(0x12345678, (range(5 * SECTOR, 7 * SECTOR), range(8 * SECTOR, END)))


def test_places_are_the_last_five_sectors() -> None:
    assert (PLACES.image_end, PLACES.claim, PLACES.copies, PLACES.settings) == (
        END,
        END,
        (20 * SECTOR, 21 * SECTOR, 22 * SECTOR),
        23 * SECTOR,
    )
    assert ReservedSectors(5 * SECTOR, SECTOR).image_end == 0
    assert ReservedSectors(0, SECTOR).image_end == 0


def test_a_record_and_a_claim_are_read_as_they_were_written() -> None:
    found = JournalRecord.find(bytes(RECORD).ljust(SECTOR, b"\xff"), PLACES)
    assert found == RECORD
    assert RECORD.targets == (0, 2 * SECTOR, 4 * SECTOR)
    assert len(bytes(RECORD)) == RECORD_BYTES
    assert Claim.find(bytes(CLAIM).ljust(CLAIM_BYTES, b"\xff"), PLACES) == CLAIM


@pytest.mark.parametrize("kind", [JournalRecord, Claim])
def test_each_flipped_bit_and_each_cut_make_it_void(kind: type[JournalRecord] | type[Claim]) -> None:
    whole = bytes(RECORD if kind is JournalRecord else CLAIM)
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        assert kind.find(bytes(flipped).ljust(SECTOR, b"\xff"), PLACES) is None
    for size in range(len(whole)):
        assert kind.find(whole[:size].ljust(SECTOR, b"\xff"), PLACES) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"end": END + SECTOR},
        {"end": END - 1},
        {"end": 0xFFFFFFFF},
        {"erase_start": 4 * SECTOR, "erase_end": 3 * SECTOR},
        {"erase_end": END + SECTOR},
        {"erase_start": 100},
        {"first": SECTOR},
        {"second": END + SECTOR},
        {"third": 5},
    ],
    ids=str,
)
def test_a_record_that_lies_is_none(wrong: dict[str, int]) -> None:
    fields = {"end": END, "crc": 1, "erase_start": 0, "erase_end": 0, **wrong}
    assert JournalRecord.find(bytes(JournalRecord(**fields)), PLACES) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("claimed", [range(END + SECTOR), range(100, SECTOR), range(SECTOR, 5000)], ids=str)
def test_a_claim_of_sectors_that_are_not_an_images_is_none(claimed: range) -> None:
    assert Claim.find(bytes(Claim(1, (claimed,))), PLACES) is None


def test_a_claim_has_room_for_thirty_parts() -> None:
    many = tuple(range(number * SECTOR, (number + 1) * SECTOR) for number in range(30))
    assert len(bytes(Claim(1, many[:29]))) <= CLAIM_BYTES
    with pytest.raises(LayoutError, match="31 parts are to be written at once: too many"):
        bytes(Claim(1, (*many, many[0])))
