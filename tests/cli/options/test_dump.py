"""The option that writes tensors: a folder for each engine, and engines that have none to write."""

from pathlib import Path

import click
import pytest

from aisrv.board import Board, EngineSpec
from aisrv.cli.options.dump import dump_tensors
from aisrv.protocol.engine_kind import EngineKind


def test_dumping_boards_name_a_folder_for_each_engine(tmp_path: Path) -> None:
    one = Board(engines=(EngineSpec(kind=EngineKind("kernels", "reference")),))
    assert [str(board.engines[0].kind) for board in dump_tensors([one], tmp_path)] == [
        f"kernels:reference:{tmp_path}"
    ]
    two = dump_tensors([one, Board(engines=(EngineSpec(kind=EngineKind("kernels")),))], tmp_path)
    assert [str(board.engines[0].kind) for board in two] == [
        f"kernels:reference:{tmp_path}/0.0",
        f"kernels::{tmp_path}/1.0",
    ]


def test_only_kernels_dump(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="engine 0 is of kind 'tflm': only kernels can write tensors"):
        dump_tensors([Board(engines=(EngineSpec(kind=EngineKind("tflm")),))], tmp_path)
