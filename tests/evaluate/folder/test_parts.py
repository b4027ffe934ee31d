"""Parts: the same bytes whoever writes them, read again, and what is wrong with a folder."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from aisrv.evaluate.folder.parts import (
    PartError,
    PartFile,
    PartRows,
    Parts,
    list_parts,
    part_answers,
    verify_parts,
)
from aisrv.evaluate.running.answers import Answers
from host_tools.tensors.tensor_spec import TensorSpec

OUTPUTS = (TensorSpec((1, 3), "int8", 1 / 256, -128), TensorSpec((1, 2), "float32"))
LABELS = np.arange(10, dtype=np.int32) % 3


def answers() -> Answers:
    found = Answers(10, 11, 4, files=True)
    random = np.random.default_rng(1)
    found.put(0, random.integers(0, 100, (10, 11), np.uint8), (5, 6))
    found.content[:] = random.integers(0, 256, (10, 8), np.uint8)
    found.fail(6, "no picture")
    return found


def write(folder: Path, found: Answers) -> Parts:
    parts = Parts(folder, OUTPUTS, files=True)
    for shard in range(found.shards):
        first, end = found.bounds(shard)
        rows = PartRows(first, found.part(shard), LABELS[first:end], np.zeros(end - first, np.int32))
        parts.write(shard, rows, "worker")
    return parts


def test_parts_of_equal_answers_are_equal_to_the_byte(tmp_path: Path) -> None:
    first = answers()
    second = answers()
    second.times[0].add((99,), 3)  # which is in no part
    for name, found in (("one", first), ("two", second)):
        write(tmp_path / name, found)
    assert list_parts(tmp_path / "one") == list_parts(tmp_path / "two")
    assert [each.rows for each in list_parts(tmp_path / "one")] == [4, 4, 2]


def test_answers_come_back_from_their_parts(tmp_path: Path) -> None:
    found = answers()
    parts = write(tmp_path, found)
    again = Answers(10, 11, 4, files=True)
    parts.read(again)
    assert np.array_equal(again.outputs, found.outputs)
    assert np.array_equal(again.content, found.content)
    assert again.failed == {6: "no picture"}
    assert again.missing() == []
    assert again.host_times().values() == found.host_times().values()


def test_times_say_who_how_long_and_how_often(tmp_path: Path) -> None:
    found = answers()
    found.begin_again(5)
    parts = Parts(tmp_path, OUTPUTS, files=True)
    parts.write(1, PartRows(4, found.part(1), LABELS[4:8], np.zeros(4, np.int32)), "worker", 1.23456)
    times = json.loads((tmp_path / "times" / "000001.json").read_text())
    assert (times["worker"], times["seconds"], times["attempts"]) == ("worker", 1.235, 2)


def test_what_killed_writers_left_is_removed_at_the_end(tmp_path: Path) -> None:
    parts = write(tmp_path, answers())
    left = [tmp_path / folder / ".000001.parquet.0123abcd.part" for folder in ("parts", "times")]
    for each in left:
        each.write_bytes(b"")
    write(tmp_path, answers())
    assert all(each.exists() for each in left)
    parts.remove_left()
    assert not any(each.exists() for each in left)
    assert len(list((tmp_path / "parts").iterdir())) == 3


def test_columns_have_the_outputs_own_types(tmp_path: Path) -> None:
    write(tmp_path, answers())
    table = pq.read_table(tmp_path / "parts" / "000001.parquet")
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert types == {
        "index": "int64",
        "label": "int32",
        "predicted": "int32",
        "failed": "string",
        "content": "fixed_size_binary[8]",
        "output0": "fixed_size_list<element: int8>[3]",
        "output1": "fixed_size_list<element: float>[2]",
    }
    assert table["index"].to_pylist() == [4, 5, 6, 7]
    assert part_answers(tmp_path)["label"].to_pylist() == LABELS.tolist()


def test_what_is_wrong_with_parts_is_said(tmp_path: Path) -> None:
    write(tmp_path, answers())
    listed = list_parts(tmp_path)
    assert verify_parts(tmp_path, 10, listed) == []
    assert verify_parts(tmp_path, 12, listed) == ["example 10 is missing, and 1 more"]
    parts = tmp_path / "parts"
    content = (parts / "000001.parquet").read_bytes()
    (parts / "000001.parquet").unlink()
    assert verify_parts(tmp_path, 10, listed) == [
        "000001.parquet is missing",
        "example 4 is missing, and 3 more",
    ]
    (parts / "000001.parquet").write_bytes((parts / "000000.parquet").read_bytes())
    problems = verify_parts(tmp_path, 10, listed)
    assert problems[0].startswith("000001.parquet is not as it was: sha256 ")
    assert problems[1:] == [
        "example 4 is missing, and 3 more",
        "example 0 is there more than once, and 3 more",
    ]
    (parts / "000001.parquet").write_bytes(content)
    other = [PartFile(**asdict(each)) for each in listed[:2]]
    assert verify_parts(tmp_path, 10, other) == ["000002.parquet is not listed"]


def test_a_damaged_part_is_refused_with_what_to_do(tmp_path: Path) -> None:
    parts = write(tmp_path, answers())
    (tmp_path / "parts" / "000000.parquet").write_bytes(b"PAR1")
    with pytest.raises(PartError, match="remove it, and it is made again"):
        parts.read(Answers(10, 11, 4, files=True))
