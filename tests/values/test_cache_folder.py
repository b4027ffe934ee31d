"""The folder of caches, by the environment."""

from pathlib import Path

import pytest

from aisrv.values.cache_folder import cache_folder


@pytest.mark.parametrize(
    ("caches", "expected"),
    [("/kept", "/kept/aisrv"), ("", "/home/u/.cache/aisrv"), (None, "/home/u/.cache/aisrv")],
)
def test_xdg_cache_home_comes_before_the_home(
    monkeypatch: pytest.MonkeyPatch, caches: str | None, expected: str
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if caches is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", caches)
    assert cache_folder() == Path(expected)
