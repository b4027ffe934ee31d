"""What tests of the page share: a browser for each file, pages whose console says nothing, and axe-core.

The everyday suite leaves these tests out, see tests/conftest.py; `make test-web` runs them.
"""

from typing import TYPE_CHECKING

import pytest

from tests.browser.watched_page import PageOpener
from tests.support.peers.chromium import axe, browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

__all__ = ["axe", "browser"]


@pytest.fixture
def opened(request: pytest.FixtureRequest, browser: "Browser") -> "Iterator[PageOpener]":
    """Opens pages; what any of them writes to its console, and is not expected, fails the test."""
    if "shown" in request.fixturenames:
        request.getfixturevalue("shown")  # pages are closed before their devices are
    opener = PageOpener(browser)
    yield opener
    opener.close()
    assert opener.unforgiven() == []
