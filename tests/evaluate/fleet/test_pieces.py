"""Pieces of a shard: read together, and removed when the whole is there."""

from pathlib import Path

import numpy as np

from aisrv.evaluate.fleet.pieces import Pieces
from aisrv.evaluate.folder.parts import PartRows, Parts
from aisrv.evaluate.running.answers import Answers
from host_tools.tensors.tensor_spec import TensorSpec

OUTPUTS = (TensorSpec((1, 2), "int8"),)


def rows(first: int, values: list[int]) -> PartRows:
    answers = Answers(len(values), 2, 10)
    answers.put(0, np.array([[each, each] for each in values], np.uint8), ())
    zeros = np.zeros(len(values), np.int32)
    return PartRows(first, answers, zeros, zeros)


def test_pieces_are_read_at_their_places(tmp_path: Path) -> None:
    parts = Parts(tmp_path, OUTPUTS, files=False)
    pieces = Pieces(tmp_path, parts)
    pieces.write(1, rows(10, [1, 2]))
    pieces.write(1, rows(13, [4]))
    pieces.write(2, rows(20, [9]))
    answers = Answers(4, 2, 10)
    pieces.read(1, 10, answers)
    assert answers.outputs[:, 0].tolist() == [1, 2, 0, 4]
    assert answers.done.tolist() == [True, True, False, True]
    pieces.remove(1)
    assert [each.name for each in (tmp_path / "pieces").iterdir()] == ["000002-20-21.parquet"]
    pieces.remove_all()
    assert not (tmp_path / "pieces").exists()


def test_a_piece_that_is_late_is_left_out(tmp_path: Path) -> None:
    parts = Parts(tmp_path, OUTPUTS, files=False)
    parts.write(0, rows(0, [1] * 10), "worker")
    Pieces(tmp_path, parts).write(0, rows(3, [1]))
    assert list((tmp_path / "pieces").iterdir()) == []
