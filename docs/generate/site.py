"""Hooks of mkdocs for the site: the version in its name, and copy buttons that copy commands alone.

mkdocs reads this file by its path, so it imports the standard library only.
"""

import html
import re
from pathlib import Path
from typing import Final, Protocol

PACKAGE: Final = Path(__file__).parents[2] / "aisrv/values/version.py"
_VERSION: Final = re.compile(r'^__version__\s*(?::[^=]*)?=\s*"([^"]+)"', re.MULTILINE)
_BLOCK: Final = re.compile(
    r'<div class="language-(?P<language>console|pycon) highlight">(?P<inside>.*?)</div>', re.DOTALL
)
_CODE: Final = re.compile(r"<code>(.*?)</code>", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_PROMPTS: Final = {"console": ("$ ", "> "), "pycon": (">>> ", "... ")}
"""What is before the first line that is typed, and before each further one."""


class SiteConfig(Protocol):
    """What is used of mkdocs's configuration."""

    site_name: str


def version() -> str:
    """Return the version of the package."""
    found = _VERSION.search(PACKAGE.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{PACKAGE} has no __version__")
    return found[1]


def on_config(config: SiteConfig) -> SiteConfig:
    """Show the version beside the name, at the top of each page and in its title."""
    config.site_name = f"{config.site_name} {version()}"
    return config


def on_page_content(content: str, /, **_others: object) -> str:
    """Give each block of a session what its copy button copies: the commands."""
    return _BLOCK.sub(_with_commands, content)


def _with_commands(block: re.Match[str]) -> str:
    code = _CODE.search(block["inside"])
    commands = typed(html.unescape(_TAG.sub("", code[1])), block["language"]) if code else ""
    if not commands:
        return block[0]
    copied = html.escape(commands, quote=True).replace("\n", "&#10;")
    return block[0].replace("<div ", f'<div data-copy="{copied}" ', 1)


def typed(session: str, language: str = "console") -> str:
    """Return the lines of a session that are typed, without prompts."""
    first, further = _PROMPTS[language]
    lines = []
    goes_on = False
    for line in session.splitlines():
        if line.startswith(first):
            goes_on = True
            lines.append(line.removeprefix(first))
        elif goes_on and line.startswith(further):
            lines.append(line.removeprefix(further))
        else:
            goes_on = False
    return "\n".join(lines)
