"""The bar while bytes move."""

import os
import pty
import sys

import pytest

from aisrv.terminal.progress import SMALLEST, progress_bar


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress_bar("packing", 64 << 20) as progress:
            progress(64 << 20, 64 << 20)
        terminal.flush()
        shown = b""
        while b"packing" not in shown:  # it comes in pieces
            shown += os.read(leader, 65536)
    os.close(leader)


def test_none_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar("packing", 64 << 20) as progress:
        progress(64 << 20, 64 << 20)
    assert capfd.readouterr().err == ""


def test_none_for_a_short_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress_bar("packing", SMALLEST - 1) as progress:
            progress(SMALLEST - 1, SMALLEST - 1)
        terminal.write("end")
        terminal.flush()
        assert os.read(leader, 65536) == b"end"
    os.close(leader)
