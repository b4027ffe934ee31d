"""Pages in a browser, each with a context of its own, whose consoles are watched."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, CDPSession, Locator, Page

HEIGHT = 900
WIDTHS = 360, 1600
"""Widths of windows in pixels that the page is made for: a phone's, and a screen's."""
SCHEMES = "light", "dark"
MOST_STEPS = 80
"""Presses of Tab after which the page has gone round."""


class PageOpener:
    """Opens pages and keeps what they write to their consoles."""

    def __init__(self, browser: "Browser") -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._forgiven: list[str] = []
        self.problems: list[str] = []

    def __call__(self, url: str, width: int = 1600, scheme: str = "light", status: str = "live") -> "Page":
        """Open a page and wait until its connection has the status."""
        from playwright.sync_api import expect

        context = self._browser.new_context(
            viewport={"width": width, "height": HEIGHT}, color_scheme="dark" if scheme == "dark" else "light"
        )
        self._contexts.append(context)
        page = context.new_page()
        # Chromium asks playwright for files from now on: it might not yet when a key is pressed.
        page.on("filechooser", lambda _chooser: None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self.problems.append(message.text))
        page.goto(url)
        expect(page.locator("#link")).to_have_text(status)
        return page

    def forgive(self, text: str) -> None:
        """Expect problems with a text: what Chromium itself says of an answer that a test wants."""
        self._forgiven.append(text)

    def unforgiven(self) -> list[str]:
        """The problems that were not expected, and the expected ones that did not come."""
        kept = [each for each in self.problems if not any(text in each for text in self._forgiven)]
        said = "\n".join(self.problems)
        return kept + [f"no problem has the text {text!r}" for text in self._forgiven if text not in said]

    def close(self) -> None:
        """Close all pages, before their server is gone: they would say so on their consoles."""
        while self._contexts:
            self._contexts.pop().close()


def focusable(page: "Page") -> "list[tuple[str, str]]":
    """Return role and name of everything that can have the focus, as Chromium tells assistive programs.

    Disabled controls are among them; the document and its main part are not.
    """
    session: CDPSession = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    found = []
    for node in nodes:
        properties = {each["name"]: each["value"].get("value") for each in node.get("properties", ())}
        role = node.get("role", {}).get("value", "")
        works = properties.get("focusable") or properties.get("disabled")
        if works and not node["ignored"] and role not in ("RootWebArea", "main"):
            found.append((role, node.get("name", {}).get("value", "").strip()))
    return found


def tab_to(page: "Page", target: "Locator") -> None:
    """Press Tab until an element has the focus, from where the focus is."""
    for _ in range(MOST_STEPS):
        page.keyboard.press("Tab")
        if target.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"Tab does not reach {target}")
