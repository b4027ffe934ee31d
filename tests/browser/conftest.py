"""What tests of the page share: a browser for each file, pages whose console says nothing, and axe-core.

The everyday suite leaves these tests out, see tests/conftest.py; `make test-web` runs them.
"""

from typing import TYPE_CHECKING

import pytest

from tests.browser.watched_page import PageOpener
from tests.support.jacdac_peers import PeerMissing, node_packages
from tests.support.programs import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Debian's Chromium; without it, or playwright, the tests are skipped."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing("playwright is not installed: pip install playwright")
    from tests.integration.test_browser import chromium

    program = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(request: pytest.FixtureRequest, browser: "Browser") -> "Iterator[PageOpener]":
    """Opens pages; what any of them writes to its console, and is not expected, fails the test."""
    if "shown" in request.fixturenames:
        request.getfixturevalue("shown")  # pages are closed before their devices are
    opener = PageOpener(browser)
    yield opener
    opener.close()
    assert opener.unforgiven() == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    try:
        folder = node_packages()
    except PeerMissing as reason:
        missing(f"axe-core is not installed: {reason}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
