"""The list of add-ons: those that are installed, and what they bring."""

import pytest

from aisrv.values import addons


def test_add_ons_that_a_distribution_leaves_out_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addons, "NAMES", (*addons.NAMES, "left_out"))
    addons.ours.cache_clear()
    try:
        assert len(addons.ours()) == len(addons.NAMES) - 1
    finally:
        addons.ours.cache_clear()


def test_what_nobody_brings_is_none() -> None:
    assert addons.offer("tables", "nothing") is None
