"""GPIO outputs: both modes, every threshold boundary, when observers hear of a change."""

import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.engine.gpio import Gpio
from aisrv.protocol.commands import GpioMode


def int8(*values: int) -> memoryview:
    return memoryview(struct.pack(f"{len(values)}b", *values))


def levels(bits: str) -> tuple[bool, ...]:
    return tuple(bit == "1" for bit in bits)


def driven(mode: GpioMode, thresholds: list[int], *values: int) -> tuple[bool, ...]:
    gpio = Gpio(enabled=True, mode=mode, thresholds=thresholds)
    gpio.update(int8(*values))
    return gpio.levels


def test_outputs_start_low_disabled_and_with_the_lowest_thresholds() -> None:
    gpio = Gpio()
    assert (gpio.enabled, gpio.mode, gpio.levels) == (False, GpioMode.NONE, levels("0000"))
    assert gpio.thresholds == [-128, -128, -128, -128]


def test_two_engines_share_no_thresholds() -> None:
    one, other = Gpio(), Gpio()
    one.thresholds[0] = 5
    assert other.thresholds[0] == -128


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((-128, -128, -128, -128), "0000"),  # above, not at, the threshold
        ((-127, -128, 127, -128), "1010"),
        ((0, 0, 0, 0), "1111"),
        ((1,), "1000"),  # a short tensor drives the first outputs only
        ((1, 1, 1), "1110"),
        ((), "0000"),
        ((-128, -128, -128, -128, 127), "0000"),  # bytes past the last output drive nothing
    ],
)
def test_mode_none_compares_each_byte_with_its_threshold(values: tuple[int, ...], expected: str) -> None:
    assert driven(GpioMode.NONE, [-128] * 4, *values) == levels(expected)


@pytest.mark.parametrize(
    ("threshold", "value", "high"),
    [
        (-128, -128, False),
        (-128, -127, True),
        (-1, -1, False),
        (-1, 0, True),
        (0, 0, False),
        (126, 127, True),
        (127, 127, False),
    ],
)
@pytest.mark.parametrize("index", range(4))
def test_threshold_of_each_output(index: int, threshold: int, value: int, high: bool) -> None:
    thresholds, values = [127] * 4, [-128] * 4
    thresholds[index], values[index] = threshold, value
    expected = tuple(high and i == index for i in range(4))
    assert driven(GpioMode.NONE, thresholds, *values) == expected
    assert driven(GpioMode.MAX, thresholds, *values) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, 5, 3, 2), "0100"),
        ((-5, -4, -3, -2), "0001"),
        ((1, 2, 3, 4, 127), "0000"),  # an index past the last output raises nothing
        ((9, 2, 3, 4, -1, 8), "1000"),
        ((7, 7, 7, 7), "1000"),  # of equals the first
        ((-128, -128, -128, -128), "0000"),
        ((5,), "1000"),
        ((), "0000"),
    ],
)
def test_mode_max_raises_the_index_of_the_largest_byte(values: tuple[int, ...], expected: str) -> None:
    assert driven(GpioMode.MAX, [-128] * 4, *values) == levels(expected)


def test_mode_max_does_not_fall_back_to_the_second_largest() -> None:
    assert driven(GpioMode.MAX, [-128, 100, -128, -128], 50, 100, 60, 70) == levels("0000")


@given(
    values=st.lists(st.integers(-128, 127), max_size=12),
    thresholds=st.lists(st.integers(-128, 127), min_size=4, max_size=4),
)
def test_mode_max_raises_at_most_what_mode_none_raises(values: list[int], thresholds: list[int]) -> None:
    each = driven(GpioMode.NONE, thresholds, *values)
    largest = driven(GpioMode.MAX, thresholds, *values)
    assert sum(largest) <= 1
    assert all(wide or not narrow for wide, narrow in zip(each, largest, strict=True))
    assert each == tuple(
        value > limit for value, limit in zip((values + [-128] * 4)[:4], thresholds, strict=True)
    )


@pytest.mark.parametrize(
    "tensor", [memoryview(b"\x7f\x80\x00\xff"), memoryview(array("b", [127, -128, 0, -1]))]
)
def test_bytes_of_any_format_count_as_int8(tensor: memoryview) -> None:
    gpio = Gpio(enabled=True, thresholds=[-2] * 4)
    gpio.update(tensor)
    assert gpio.levels == levels("1011")


def test_disabled_outputs_keep_their_levels() -> None:
    gpio = Gpio(enabled=True)
    gpio.update(int8(1, -128, 1, -128))
    gpio.enabled = False
    gpio.update(int8(-128, 1, -128, 1))
    assert gpio.levels == levels("1010")


def test_observers_hear_of_changes_only() -> None:
    heard: list[tuple[str, tuple[bool, ...]]] = []
    gpio = Gpio(enabled=True)
    gpio.observe(lambda now: heard.append(("first", now)))
    gpio.observe(lambda now: heard.append(("second", now)))
    gpio.update(int8(-128, -128, -128, -128))  # low, as before
    gpio.update(int8(1, -128, -128, -128))
    gpio.update(int8(100, -128, -128, -128))  # still high
    gpio.update(int8(-128, -128, -128, -128))
    assert heard == [
        ("first", levels("1000")),
        ("second", levels("1000")),
        ("first", levels("0000")),
        ("second", levels("0000")),
    ]
