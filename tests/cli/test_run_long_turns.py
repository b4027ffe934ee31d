"""`aisrv run -v` tells which task held the event loop, and for how long."""

import re
import textwrap
from pathlib import Path

import pytest

from tests.support.programs import running

TASK = """
    import time, trio

    async def task():
        await trio.sleep(0.1)
        time.sleep(0.3)
        await trio.sleep_forever()
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(textwrap.dedent(TASK))
    path = tmp_path / "board.toml"
    path.write_text('[[tasks]]\nname = "slow"\ntask = "slow:task"\n')
    return path


def test_a_task_that_does_not_wait_is_told(board: Path) -> None:
    with running("-v", "--board", str(board)) as (process, _):
        assert process.stderr is not None
        line = next(line for line in process.stderr if "aisrv.loop" in line and "(slow)" in line)
    match = re.search(r"held for (\d+) ms, for (\d+) ms of it by tile \d core \d \(slow\)", line)
    assert match is not None
    assert 300 <= int(match[2]) <= int(match[1]) < 20_000


def test_without_verbose_nothing_watches(board: Path) -> None:
    with running("--board", str(board), "--until-eof") as (process, _):
        _, errors = process.communicate(timeout=30)
    assert "aisrv.loop" not in errors
