"""Names of classes in model files."""

import io
import struct
import tracemalloc
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv import digits
from aisrv.model.labels import LARGEST_LABELS, labels_of


def packed(*files: tuple[str, bytes]) -> bytes:
    content = io.BytesIO(digits.model_bytes())
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files:
            archive.writestr(name, text)
    return content.getvalue()


@pytest.mark.parametrize("text", [b"cat\ndog\n", b"cat\r\ndog", b"cat\ndog"])
def test_lines_are_the_names(text: bytes) -> None:
    assert labels_of(packed(("labels.txt", text))) == ("cat", "dog")


def test_names_of_other_alphabets() -> None:
    assert labels_of(packed(("labels.txt", "猫\nchien é".encode()))) == ("猫", "chien é")


def test_file_that_is_called_labels_goes_first() -> None:
    assert labels_of(packed(("vocab.txt", b"x"), ("my_LabelMap.txt", b"cat"))) == ("cat",)
    assert labels_of(packed(("vocab.txt", b"x"), ("image.png", b"label"))) == ("x",)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        digits.model_bytes(),
        packed(),
        packed(("readme.md", b"text")),
        packed(("labels.txt", b"\xff\xfe")),
        packed(("labels.txt", b"a" * (LARGEST_LABELS + 1))),
        packed(("labels.txt", b"cat\ndog\n" * 50))[:-40],
    ],
    ids=["empty", "no archive", "empty archive", "no text", "no UTF-8", "too long", "cut off"],
)
def test_files_without_names(data: bytes) -> None:
    assert labels_of(data) == ()


@given(st.binary(max_size=64), st.integers(0, 200))
def test_damaged_archives_have_no_names_or_some(noise: bytes, place: int) -> None:
    data = bytearray(packed(("labels.txt", b"cat\ndog\n" * 8)))
    at = max(0, len(data) - place - len(noise))
    data[at : at + len(noise)] = noise
    assert isinstance(labels_of(bytes(data)), tuple)


def test_names_end_at_the_largest_size() -> None:
    text = b"a" * LARGEST_LABELS
    assert labels_of(packed(("labels.txt", text))) == (text.decode(),)


def test_neither_the_file_nor_a_long_list_of_files_is_copied() -> None:
    listed = 8 << 20
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, listed, 1 << 20, 0)
    data = memoryview(bytes((1 << 20) + listed) + end)
    tracemalloc.start()
    try:
        assert labels_of(data) == ()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
