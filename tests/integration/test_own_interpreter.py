"""An interpreter of a user's own: the one in docs/guides/engines.md does what the page says."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from aisrv.inference.process.inline import InlineInterpreter
from aisrv.inference.process.isolation import IsolatedInterpreter
from aisrv.inference.process.worker_pool import open_worker_pool
from aisrv.protocol.engine_kind import EngineKind
from tests.support.paths import ROOT

PAGE = ROOT / "docs/guides/engines.md"
ARENA = 1 << 16


def code() -> str:
    """The code block with the class."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if "class Doubler" in block)
    return str(block)


async def test_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("own_engine")
    exec(code(), module.__dict__)
    monkeypatch.setitem(sys.modules, "own_engine", module)
    runner = InlineInterpreter(EngineKind("own_engine:Doubler"))
    await runner.load(b"3", ARENA)
    runner.input(0)[:] = bytes([1, 2, 200])
    await runner.invoke()
    assert bytes(runner.output(0)) == bytes([2, 4, 144])
    assert bytes(runner.input(0)) == bytes([1, 2, 200])


async def test_isolated_and_by_a_spare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_engine.py").write_text(code())
    monkeypatch.syspath_prepend(tmp_path)
    kind = EngineKind("own_engine:Doubler")
    with open_worker_pool(kind) as workers:
        runners = (
            IsolatedInterpreter(lambda _text: None, kind),
            workers.isolated(lambda _text: None, kind=kind),
        )
        for runner in runners:
            await runner.load(b"2", ARENA)
            runner.input(0)[:] = b"\x10\x20"
            await runner.invoke()
            assert bytes(runner.output(0)) == b"\x20\x40"
            await runner.close()
