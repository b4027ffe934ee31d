"""Files as data: folders of classes and tables."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aisrv.addons.evaluate.data.data_set import class_indices, class_names
from aisrv.addons.evaluate.data.files import read_csv, read_folder
from aisrv.addons.evaluate.data.parquet import read_parquet
from aisrv.addons.evaluate.errors import DataError


def folder_of(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return root


def test_a_folder_is_sorted_by_bytes_and_leaves_out_hidden_files(tmp_path: Path) -> None:
    folder_of(
        tmp_path, "b/1.png", "a/Z.png", "a/a.jpg", "a/deep/c.png", ".git/x.png", "b/.y.png", "a/notes.txt"
    )
    data = read_folder(tmp_path)
    assert list(data.names) == ["a/Z.png", "a/a.jpg", "a/deep/c.png", "b/1.png"]
    assert list(data.labels) == ["a", "a", "a", "b"]
    assert data.hidden == 2
    assert class_names(data, (), ()) == ("a", "b")
    assert class_indices(data, ("b", "a"), 2).tolist() == [1, 1, 1, 0]


def test_a_class_that_the_model_does_not_have(tmp_path: Path) -> None:
    data = read_folder(folder_of(tmp_path, "cat/1.png"))
    with pytest.raises(DataError, match=r"cat: not a class of the model; did you mean cats\?$"):
        class_indices(data, ("dogs", "cats"), 2)
    with pytest.raises(DataError, match="the label 5, the model has 2 classes"):
        class_indices(read_folder(folder_of(tmp_path / "other", "5/1.png")), (), 2)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["a.png"], "a.png is in no class folder"),
        (["a/b.txt"], "no class folder has a picture or sound in it"),
    ],
)
def test_folders_that_are_no_data(names: list[str], reason: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=reason):
        read_folder(folder_of(tmp_path, *names))


def test_a_moved_or_longer_file_is_another_listing(tmp_path: Path) -> None:
    listings = set()
    for number, name in enumerate(("a/1.png", "b/1.png", "a/2.png")):
        listings.add(read_folder(folder_of(tmp_path / str(number), name, "a/3.png")).listing_sha256)
    folder_of(tmp_path / "0", "a/3.png")
    (tmp_path / "0" / "a" / "3.png").write_bytes(b"longer than it was")
    listings.add(read_folder(tmp_path / "0").listing_sha256)
    assert len(listings) == 4


def test_a_table_in_csv(tmp_path: Path) -> None:
    folder_of(tmp_path, "p/1.png", "p/2.png")
    table = tmp_path / "table.csv"
    table.write_text("file,class\np/2.png,dog\np/1.png,cat\n")
    with pytest.raises(
        DataError, match=r"no column 'path', there are file, class; name them as in --columns"
    ):
        read_csv(table, {})
    data = read_csv(table, {"path": "file", "label": "class"})
    assert list(data.files) == [tmp_path / "p/2.png", tmp_path / "p/1.png"]
    assert list(data.labels) == ["dog", "cat"]
    table.write_text("path,label\nmissing.png,dog\n")
    with pytest.raises(DataError, match=r"missing.png: No such file"):
        read_csv(table, {})


def test_a_table_in_parquet_of_paths_or_pictures(tmp_path: Path) -> None:
    folder_of(tmp_path, "1.png")
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"path": ["1.png"], "label": [3]}), path)
    data = read_parquet(path, {})
    assert (list(data.files), list(data.labels)) == ([tmp_path / "1.png"], ["3"])
    pq.write_table(pa.table({"image": [b"one", b"two"], "label": ["a", "b"]}), path)
    data = read_parquet(path, {})
    assert (list(data.files), list(data.labels)) == ([b"one", b"two"], ["a", "b"])
    path.write_bytes(b"PAR1 no table")
    with pytest.raises(DataError, match=str(path)):
        read_parquet(path, {})


def test_the_first_of_data_are_another_listing(tmp_path: Path) -> None:
    data = read_folder(folder_of(tmp_path, "a/1.png", "b/2.png"))
    assert data.first(5) is data
    assert list(data.first(1).labels) == ["a"]
    assert data.first(1).listing_sha256 != data.listing_sha256
    assert np.array_equal(class_indices(data.first(1), ("a", "b"), 2), [0])
