"""Where the page is, and the token that opens it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from aisrv.values.regular_file import read_regular

PORT: Final = 8090
"""Port of the page where none is named."""
LONGEST_TOKEN: Final = 256
TOKEN_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class PageAddress:
    """Address of the page, and what opens it."""

    url: str
    token: str

    @property
    def hint(self) -> str:
        """What to do with it, for a line on standard error."""
        return f"open {self.url}#{self.token}"


def page_token(path: Path | None) -> str:
    """Return the token of a file, or a new one. Raises click.UsageError for a file that has none."""
    if path is None:
        import secrets  # most devices have no page

        return secrets.token_urlsafe(TOKEN_BYTES)
    text = read_regular(path, LONGEST_TOKEN).decode("ascii", "replace").strip()
    if not text or not all(33 <= ord(each) < 127 for each in text):
        raise click.UsageError(f"{path} holds no token: letters, digits and signs in one line")
    return text
