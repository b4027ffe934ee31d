"""Chromium for tests of pages, and axe-core, which finds what some people cannot use."""

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.peers.jacdac_peers import PeerMissing, node_packages
from tests.support.programs import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page


def chromium() -> str:
    """The browser; a test without one is skipped, and fails in CI."""
    return shutil.which("chromium") or missing("chromium is not installed: apt-get install chromium")


@contextmanager
def running_chromium() -> "Iterator[Browser]":
    """Run the browser; without it, or playwright, the test is skipped."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing("playwright is not installed: pip install playwright")
    program = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """One browser for all tests of a module."""
    with running_chromium() as started:
        yield started


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    try:
        folder = node_packages()
    except PeerMissing as reason:
        missing(f"axe-core is not installed: {reason}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def violations(page: "Page", axe: str) -> list[object]:
    """What axe-core finds, with the elements."""
    found = page.evaluate(f"{axe};axe.run()")
    return [(each["id"], [node["target"] for node in each["nodes"]]) for each in found["violations"]]
