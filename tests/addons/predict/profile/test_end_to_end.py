"""Commands of a host: the worked example of "Device time and traces", section 3, and its recurrence."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.predict.profile.end_to_end import (
    LIKELY,
    CommandTime,
    Link,
    Scale,
    Workload,
    inferred_frames,
    predict,
    spi,
    usb,
)
from aisrv.addons.predict.profile.errors import ProfileError
from aisrv.addons.predict.profile.model_profile import profile_model
from aisrv.protocol.commands import Command
from tests.support.models import networks

VWW = Workload((27_648,), (2,), 31, Fraction(3_054_088))
"""MLPerf Tiny's vww at 600 MHz; the ticks of its inference stand in."""


def times_of(link: Link, work: Workload = VWW, scale: Scale = LIKELY) -> dict[Command, CommandTime]:
    return {time.command: time for time in link(work, scale)}


@pytest.mark.parametrize(
    ("command", "link", "clocks", "ticks"),
    [
        (Command.SET_INPUT_TENSOR, 98_651, 138_903, Fraction(243_603, 2)),
        (Command.START_INFER, 1_883, 663, Fraction(6_112_163, 2)),
        (Command.GET_OUTPUT_TENSOR, 1_886, 872, Fraction(6_094, 3)),
    ],
)
def test_a_command_over_usb(command: Command, link: int, clocks: int, ticks: Fraction) -> None:
    time = times_of(usb)[command]
    assert (time.link, time.device, time.ticks) == (Fraction(link), Fraction(clocks, 6), ticks)


def cycle(link: Link, work: Workload = VWW, scale: Scale = LIKELY) -> int:
    _upload, *times = link(work, scale)
    return math.ceil(sum(time.ticks for time in times))


def test_a_cycle_over_usb() -> None:
    assert cycle(usb) == 3_179_915


def test_the_bus_alone() -> None:
    times = list(usb(VWW, Scale(turn=0)))[1:]
    assert sum(time.link + time.inference for time in times) == 3_106_708


@pytest.mark.parametrize(
    ("clock", "parts"),
    [
        (10_000_000, (2_284_440, 3_055_320, 600)),
        (25_000_000, (931_992, 3_054_816, 264)),
    ],
)
def test_the_commands_over_spi(clock: int, parts: tuple[int, int, int]) -> None:
    _upload, *times = spi(clock)(VWW, LIKELY)
    assert tuple(map(int, (time.ticks for time in times))) == parts
    assert all(time.ticks.denominator == 1 for time in times)


@pytest.mark.parametrize(("clock", "ticks"), [(10_000_000, 5_340_360), (25_000_000, 3_987_072)])
def test_a_cycle_over_spi(clock: int, ticks: int) -> None:
    assert cycle(spi(clock)) == ticks


@pytest.mark.parametrize(
    ("nbytes", "packets"),
    # T(n) = ceil((n + 65) 5/3) and a turn of 830 for each packet; a short one ends the transfer
    [
        (0, [0]),
        (1, [1]),
        (511, [511]),
        (512, [512, 0]),
        (513, [512, 1]),
        (1024, [512, 512, 0]),
    ],
)
def test_packets_of_a_transfer(nbytes: int, packets: list[int]) -> None:
    time = times_of(usb, Workload((nbytes,), (1,), 1, Fraction(0)))[Command.SET_INPUT_TENSOR]
    expected = sum(math.ceil((each + 65) * 5 / 3) + 830 for each in [3, *packets])
    assert time.link == expected


@pytest.mark.parametrize(
    ("nbytes", "blocks"), [(0, [0]), (511, [511]), (512, [512, 0]), (1025, [512, 512, 1])]
)
def test_blocks_of_a_write_over_spi(nbytes: int, blocks: list[int]) -> None:
    byte, poll = 800, 7 * 800 + 40  # at 1 MHz BUSY is over before a poll has sampled it
    time = times_of(spi(1_000_000), Workload((nbytes,), (1,), 1, Fraction(0)))[Command.SET_INPUT_TENSOR]
    assert time.link == poll + sum((1 + each) * byte + 40 + poll for each in blocks)


def test_a_faster_core_copies_faster() -> None:
    fast = Workload((27_648,), (2,), 31, Fraction(0), core_mhz=Fraction(800))
    assert times_of(usb, fast)[Command.SET_INPUT_TENSOR].device == Fraction(138_903, 8)


def test_frames_of_a_camera() -> None:
    *_, last = inferred_frames(100, Fraction(5_000_000), Fraction(0), Fraction(2_000_000))
    assert last == 248


@given(
    period=st.integers(1_000, 10_000_000),
    fetch=st.integers(0, 100_000),
    inference=st.integers(1, 20_000_000),
)
def test_slow_engines_drop_by_the_closed_formula(period: int, fetch: int, inference: int) -> None:
    """Where an inference takes a period or more: ceil(((i - 1) C + x) / P), at least one more than before."""
    inference = max(inference, period)
    cycle, number = fetch + inference, 0
    for index, found in enumerate(
        inferred_frames(50, Fraction(cycle), Fraction(fetch), Fraction(period)), start=1
    ):
        number = max(number + 1, -(-((index - 1) * cycle + fetch) // period))
        assert found == number


@given(period=st.integers(1_000, 10_000_000), share=st.fractions(0, 1))
def test_fast_engines_drop_nothing(period: int, share: Fraction) -> None:
    cycle = share * (period - 1)
    assert list(inferred_frames(50, cycle, Fraction(0), Fraction(period))) == list(range(1, 51))


def test_bands_hold_the_time() -> None:
    profile = profile_model(networks.adding_network())
    times = predict(profile, usb, "usb")
    for row in (times.upload, *times.rows):
        assert row.low < row.ticks < row.high
    assert times.low < times.ticks < times.high


def test_what_the_host_polls_anyway_has_no_band() -> None:
    times = predict(profile_model(networks.adding_network()), spi(1_000_000), "spi:1000000")
    assert [(row.low, row.high) for row in times.rows] == [(row.ticks, row.ticks) for row in times.rows]


def test_the_host_s_own_time_is_hidden_in_flight() -> None:
    profile = profile_model(networks.adding_network())
    alone, times = (predict(profile, usb, "usb", host_us=each) for each in (0, 125))
    commands = len(times.rows)
    assert times.ticks == math.ceil(sum(row.time.ticks for row in alone.rows) + 12_500 * commands)
    assert times.pipelined_rate == alone.pipelined_rate


def test_a_profile_without_its_model() -> None:
    profile = replace(profile_model(networks.adding_network()), model=None)
    with pytest.raises(ProfileError, match="has no inputs or no outputs"):
        predict(profile, usb, "usb")
