"""Errors of programs in C."""


class FirmwareError(Exception):
    """Base of the errors of programs in C: they do not compile, do not start, or are lost."""
