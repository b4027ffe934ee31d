"""`aisrv wireshark`: where the dissector belongs, as tshark says."""

import shutil
from pathlib import Path

import pytest

from aisrv.addons.captures import wireshark_command as module
from aisrv.addons.captures.wireshark import DISSECTOR
from aisrv.addons.captures.wireshark_command import plugin_folder, wireshark
from tests.support.command_calls import CommandCalls
from tests.support.programs import missing

CALLS = CommandCalls(wireshark)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WIRESHARK_CONFIG_DIR", raising=False)
    return tmp_path


def test_the_folder_is_what_tshark_says(home: Path) -> None:
    if shutil.which("tshark") is None:
        missing("tshark is not installed")
    folder = plugin_folder()
    assert folder is not None
    assert folder.is_relative_to(home)
    assert f"belongs in: {folder}\n" in CALLS.done()


def test_the_dissector_is_copied(home: Path) -> None:
    if shutil.which("tshark") is None:
        missing("tshark is not installed")
    assert CALLS.done("--install").startswith(f"copied to {home}")
    (copy,) = home.rglob("aisrv.lua")
    assert copy.read_bytes() == DISSECTOR.read_bytes()


def test_without_tshark_it_says_where_wireshark_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "plugin_folder", lambda: None)
    assert "belongs in: the folder that Wireshark names in Help, About, Folders" in CALLS.done()
    assert "tshark is not installed" in CALLS.failed(1, "--install")
