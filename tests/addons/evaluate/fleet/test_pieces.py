"""Pieces of a shard: read together, and removed when the whole is there."""

from pathlib import Path

import numpy as np

from aisrv.addons.evaluate.fleet.pieces import Pieces
from aisrv.addons.evaluate.folder.part_format import PartFormat, PartRows
from aisrv.addons.evaluate.folder.parts import Parts
from aisrv.addons.evaluate.running.answers import Answers
from host_tools.tensors.tensor_spec import TensorSpec

OUTPUTS = (TensorSpec((1, 2), "int8"),)


def rows(first: int, values: list[int]) -> PartRows:
    answers = Answers(len(values), 2, 10)
    answers.put(0, np.array([[each, each] for each in values], np.uint8), ())
    zeros = np.zeros(len(values), np.int32)
    return PartRows(first, answers, zeros)


def parts_of(folder: Path) -> Parts:
    parts = Parts(folder, PartFormat(OUTPUTS, "classes", has_files=False))
    parts.make_folders()
    return parts


def test_pieces_are_read_at_their_places(tmp_path: Path) -> None:
    parts = parts_of(tmp_path)
    pieces = Pieces(tmp_path, parts)
    pieces.write(1, rows(10, [1, 2]))
    pieces.write(1, rows(13, [4]))
    pieces.write(2, rows(20, [9]))
    answers = Answers(4, 2, 10)
    pieces.read(1, 10, answers)
    assert answers.outputs[:, 0].tolist() == [1, 2, 0, 4]
    assert answers.done.tolist() == [True, True, False, True]
    pieces.remove(1)
    names = sorted(each.name for each in (tmp_path / "pieces").iterdir())
    assert names == ["000002-20-21.parquet", "000002-20-21.sha256"]
    pieces.remove_all()
    assert not (tmp_path / "pieces").exists()


def test_a_damaged_piece_is_run_again(tmp_path: Path) -> None:
    pieces = Pieces(tmp_path, parts_of(tmp_path))
    pieces.write(1, rows(10, [1, 2]))
    pieces.write(1, rows(12, [3]))
    path = pieces.path(1, 10, 12)
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    assert not pieces.is_done(1, 10, 12)
    answers = Answers(3, 2, 10)
    pieces.read(1, 10, answers)
    assert answers.done.tolist() == [False, False, True]
    assert not path.exists()


def test_a_piece_that_is_late_is_left_out(tmp_path: Path) -> None:
    parts = parts_of(tmp_path)
    parts.write(0, rows(0, [1] * 10), "worker")
    Pieces(tmp_path, parts).write(0, rows(3, [1]))
    assert list((tmp_path / "pieces").iterdir()) == []
