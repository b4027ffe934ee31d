"""What a device says of its reference clock and of the bands of its times."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.commands import ProtocolError
from aisrv.protocol.timing_bands import TickBand, TimingBands

WORDS = st.integers(0, 0xFFFFFFFF)
BANDS = st.builds(TickBand, WORDS, WORDS)


def test_layout() -> None:
    bands = TimingBands(175_000_000, TickBand(90, 120), (TickBand(40, 50), TickBand(50, 70)))
    assert bytes(bands) == struct.pack("<7I", 175_000_000, 90, 120, 40, 50, 50, 70)


@given(st.builds(TimingBands, WORDS, BANDS, st.lists(BANDS, max_size=5).map(tuple)))
def test_every_value_comes_back(bands: TimingBands) -> None:
    assert TimingBands.from_bytes(bytes(bands)) == bands


@pytest.mark.parametrize("length", [0, 4, 8, 11, 13, 16, 24])
def test_no_whole_number_of_bands(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"not {length}"):
        TimingBands.from_bytes(bytes(length))


def test_what_is_too_large_is_the_largest() -> None:
    assert TimingBands.from_bytes(bytes(TimingBands(1, TickBand(5, 1 << 40)))).total == (5, 0xFFFFFFFF)
