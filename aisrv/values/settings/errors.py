"""Errors of files of settings."""

from typing import Final

from aisrv.values.printable import PrintableError

KeyPath = tuple[str | int, ...]
"""Keys and, for elements of arrays, numbers, from the top: `("engines", 1, "arena")`."""


class SettingsError(PrintableError, ValueError):
    """A file of settings that cannot be used; the message names the file, the line and the key."""

    def __init__(self, message: str, *path: str | int) -> None:
        """Keep the path of the key; it is empty for the file as a whole."""
        super().__init__(message)
        self.path: Final[KeyPath] = path
