"""The installation of Jacdac's clients, with programs that stand in for Node and npm."""

from pathlib import Path

import pytest

from tests.support.peers import jacdac_peers
from tests.support.peers.jacdac_peers import PeerMissing, node_packages


@pytest.fixture
def npm_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that is empty, and a npm that reaches nothing; returns the file with a line for each call."""
    calls = tmp_path / "calls"
    for name, text in {
        "node": "echo v24.0.0",
        "npm": f"echo $1 >>{calls}; echo no network >&2; exit 1",
    }.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(jacdac_peers, "CACHE", tmp_path / "cache")
    return calls


def test_a_failed_installation_is_tried_once_in_a_run_of_tests(
    npm_calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        with pytest.raises(PeerMissing, match=r"npm ci .*: no network$"):
            node_packages()
    assert npm_calls.read_text() == "ci\n"
    monkeypatch.setattr(jacdac_peers, "TEST_RUN", "the next")
    with pytest.raises(PeerMissing, match=r"no network$"):
        node_packages()
    assert npm_calls.read_text() == "ci\nci\n"
