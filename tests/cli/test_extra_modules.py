"""Modules of extras: what cannot be imported, in its own words."""

from pathlib import Path

import pytest

from aisrv.cli.extra_modules import EXTRAS, import_failures

MODULES = {
    "old.py": "print('told to nobody'); raise ImportError('it requires NumPy 2.0 or newer,\\nfound 1.26.4')",
    "wild.py": "raise AttributeError('no array')",
    "deadly.py": "import os; os._exit(7)",
    "sound.py": "import sys; print('a word'); print('another', file=sys.stderr)",
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("old", "old: it requires NumPy 2.0 or newer, found 1.26.4"),
        ("wild", "wild: no array"),
        ("absent", "absent: No module named 'absent'"),
        ("deadly", "deadly: importing it ends Python, exit code 7"),
    ],
)
def test_a_module_says_why_it_does_not_work(module: str, words: str) -> None:
    assert import_failures(["json", module, "sound"]) == {module: words}


def test_sound_modules_are_not_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert import_failures(["json", "sound", "json"]) == {}
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("module", ["PIL", "pyarrow.parquet", "dask"])
def test_there_is_a_row_with(module: str) -> None:
    assert any(module in extra.modules for extra in EXTRAS.values())
