"""Sizes: the one way in which options and files write them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.values.settings.size import Size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1", 1),
        ("458752", 458752),
        ("0x1000", 4096),
        ("0X1b", 27),
        ("448K", 458752),
        ("448k", 458752),
        ("512 KiB", 524288),
        ("4m", 4194304),
        ("16M", 16777216),
        ("8MB", 8388608),
        ("1 GiB", 1073741824),
        ("9" * 20, 99999999999999999999),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert Size.parse(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "K",
        "-1",
        "4.5M",
        "1e6",
        "4T",
        "1KK",
        "4  K",
        "0x",
        "0xK",
        "٣",
        "1K\n",
        " 1",
        "9" * 21,
        "1i",
        "1_0",
    ],
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size; write bytes as 4096 or 0x1000, or 4K, 4M or 512"):
        Size.parse(text)


def test_a_long_text_is_cut_in_the_message() -> None:
    with pytest.raises(ValueError, match=r"^'9{20}\.\.\.' is not a size"):
        Size.parse("9" * 1000)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0"),
        (1, "1"),
        (1023, "1023"),
        (1024, "1K"),
        (458752, "448K"),
        (1 << 20, "1M"),
        (1536 << 10, "1536K"),
        (1 << 30, "1024M"),
    ],
)
def test_a_size_in_short(size: int, text: str) -> None:
    assert Size(size).short() == text


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 1 << 40) | st.integers(0, 1 << 20).map(lambda kib: kib << 10))
def test_a_size_in_short_is_read_again(size: int) -> None:
    assert Size.parse(Size(size).short()) == size
