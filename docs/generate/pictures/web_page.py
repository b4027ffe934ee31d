"""Pictures of the page of `aisrv run --web`, taken in Chromium from a running device which a host reads."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from host_tools.client import AiServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDTH: Final = 1280
READS: Final = 150
"""How often a host reads the scores before the picture, so that rates and traffic have something to show."""
PAUSE: Final = 50
"""Milliseconds between two."""


def page_picture(
    folder: Path, environment: Mapping[str, str], *, scheme: str, fault: str | None = None
) -> bytes:
    """Take a picture of the page of a camera's board with the digits network; return a PNG file.

    `folder` has `digits.tflite`; `scheme` is light or dark. With a `fault`, that is to come and a trace is
    running.
    """
    from playwright.sync_api import expect, sync_playwright

    with _device(folder, environment) as (place, url), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
        )
        page.goto(url)
        expect(page.locator("#link")).to_have_text("live")
        if fault is not None:
            page.get_by_label("Fault", exact=True).fill(fault)
            page.get_by_role("button", name="Inject").click()
            expect(page.get_by_text(f"to come: {fault}")).to_be_visible()
            page.get_by_role("button", name="Start trace").click()
            expect(page.get_by_role("button", name="Stop and download")).to_be_visible()
        page.evaluate("document.activeElement.blur()")
        page.evaluate("scrollTo(0, 0)")
        page.mouse.move(0, 0)
        with AiServer.open(place) as server:
            _read(server, page)
            data = page.screenshot(full_page=True)
        browser.close()
    return data


def _read(server: AiServer, page: "Page") -> None:
    """Read the scores with pauses, in which the page goes on."""
    server.enable_gpio(True)
    for output in range(4):
        server.set_gpio_threshold(output, 0)
    for _ in range(READS):
        server.read_output()
        page.wait_for_timeout(PAUSE)


@contextmanager
def _device(folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Run the device: its address over USB/IP, and that of its page."""
    board = ("--board", "camera", "--engine", "kernels", "--model", "digits.tflite")
    command = ("aisrv", "run", *board, "--port", "0", "--web", "0")
    with subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None  # noqa: S101 - they are pipes
            assert running.stderr is not None  # noqa: S101
            place = re.search(r"usbip:[\d.]+:\d+", running.stdout.readline())
            url = next(found[1] for line in running.stderr if (found := re.search(r"open (\S+)", line)))
            assert place is not None  # noqa: S101 - the ready line has it
            yield place[0], url
        finally:
            running.terminate()
