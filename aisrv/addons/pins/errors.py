"""Errors of what is on pins."""

from aisrv.values.printable import PrintableError


class PinTaskError(PrintableError):
    """A task on pins that failed."""
