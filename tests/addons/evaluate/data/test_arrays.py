"""Arrays as data: archives of NumPy, IDX files and the shipped digits."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.addons.evaluate.data.arrays import digits_data, parse_idx, read_idx, read_npz
from aisrv.addons.evaluate.data.data_set import check_recordings
from aisrv.addons.evaluate.errors import DataError
from tests.support.programs import need_package


@pytest.mark.long("the digits stay as they are, and scikit-learn takes a second to import")
def test_all_digits_are_those_of_scikit_learn() -> None:
    datasets = need_package("sklearn.datasets", "scikit-learn")
    data = digits_data("digits:all")
    images = np.asarray(data.arrays[0]).reshape(-1, 64)
    pixels = (images.astype(int) + 128) // 15
    shipped = sorted(zip(pixels.tolist(), np.asarray(data.labels).tolist(), strict=True))
    bunch = datasets.load_digits()
    assert shipped == sorted(zip(bunch.data.astype(int).tolist(), bunch.target.tolist(), strict=True))


def test_it_is_said_that_the_network_was_trained_on_most_digits() -> None:
    data = digits_data("digits:all")
    assert len(data) == 1797
    assert data.note == "1,400 of the 1,797 digits are those that the network was trained on"
    assert digits_data("digits").note == ""
    assert len(digits_data("digits")) == 397


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_are_read_whether_compressed_or_not(save: object, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    x, y = np.arange(24, dtype=np.int8).reshape(4, 2, 3), np.array([3, 1, 0, 2])
    save(path, x=x, y=y)  # type: ignore[operator]
    data = read_npz(path)
    assert np.array_equal(data.arrays[0], x)
    assert np.asarray(data.labels).tolist() == [3, 1, 0, 2]
    assert not data.arrays[0].flags.writeable


def test_windows_name_their_recordings(tmp_path: Path) -> None:
    x, y = np.zeros((5, 3), np.int8), np.array([0, 0, 1, 0, 1])
    np.savez(tmp_path / "data.npz", x=x, y=y, recording=np.array([7, 7, 30, 7, 30]))
    data = read_npz(tmp_path / "data.npz")
    assert data.recordings is not None
    assert (data.recordings.tolist(), len(data.arrays)) == ([0, 0, 1, 0, 1], 1)
    check_recordings(data, y.astype(np.int32))
    y[3] = 1
    with pytest.raises(DataError, match="example 3 has the label 1, its recording began with 0"):
        check_recordings(data, y.astype(np.int32))
    few = data.first(3)
    assert few.recordings is not None
    assert few.recordings.tolist() == [0, 0, 1]


def test_another_label_is_another_listing(tmp_path: Path) -> None:
    listings = set()
    for label in range(3):
        path = tmp_path / f"{label}.npz"
        np.savez(path, x=np.zeros((2, 3), np.int8), y=np.array([0, label]))
        listings.add(read_npz(path).listing_sha256)
    assert len(listings) == 3


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"x": np.zeros((2, 3))}, "has x; it must have examples x and labels y"),
        ({"x": np.zeros((2, 3)), "y": np.zeros(3)}, "x has 2 examples, y has 3 labels"),
        ({"x": np.zeros((0, 3)), "y": np.zeros(0)}, "no examples"),
        (
            {"x": np.zeros((2, 3)), "y": np.zeros(2), "recording": np.zeros((2, 1))},
            "recording has one number for each example",
        ),
        ({"x": np.zeros((2, 3)), "y": np.zeros((2, 2))}, "labels have the shape"),
        ({"x": np.zeros((2, 3)), "y": np.array([{}, {}])}, "holds Python objects"),
        (
            {"x": np.asfortranarray(np.zeros((2, 3, 4))), "y": np.zeros(2)},
            "in Fortran order: save it in C order",
        ),
    ],
)
def test_archives_that_are_no_data(arrays: dict[str, np.ndarray], reason: str, tmp_path: Path) -> None:  # type: ignore[type-arg]
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=reason):
        read_npz(path)


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x=np.zeros((20, 30)), y=np.zeros(20))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="not an archive of arrays"):
        read_npz(path)


def idx(values: np.ndarray) -> bytes:  # type: ignore[type-arg]
    return (
        struct.pack(">HBB", 0, 8, values.ndim)
        + struct.pack(f">{values.ndim}I", *values.shape)
        + values.tobytes()
    )


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_idx_files_find_their_labels(ending: str, tmp_path: Path) -> None:
    images = np.arange(2 * 5 * 4, dtype=np.uint8).reshape(2, 5, 4)
    pack = gzip.compress if ending else bytes
    path = tmp_path / f"t10k-images-idx3-ubyte{ending}"
    path.write_bytes(pack(idx(images)))
    with pytest.raises(DataError, match="its labels are in another file: name it with --labels"):
        read_idx(path, None)
    (tmp_path / f"t10k-labels-idx1-ubyte{ending}").write_bytes(pack(idx(np.array([7, 9], np.uint8))))
    data = read_idx(path, None)
    assert np.array_equal(data.arrays[0], images)
    assert np.asarray(data.labels).tolist() == [7, 9]


def test_the_shipped_files_are_idx_files() -> None:
    folder = Path(digits.__file__).parent
    data = read_idx(folder / digits.TRAINING_IMAGES_FILE, None)
    assert data.arrays[0].shape == (1400, 8, 8)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\x08", b"\0\0\x08\x03\0\0", b"\0\0\x07\x01\0\0\0\0", b"\0\0\x08\x01\0\0\0\2a"]
)
def test_what_is_no_idx_file(data: bytes) -> None:
    with pytest.raises(DataError, match=r"^name: "):
        parse_idx(data, "name")
