"""Errors of programs in C."""

from aisrv.values.printable import PrintableError


class FirmwareError(PrintableError):
    """Base of the errors of programs in C: they do not compile, do not start, or are lost."""
