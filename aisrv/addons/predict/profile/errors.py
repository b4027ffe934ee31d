"""The error of this layer."""

from aisrv.values.printable import PrintableError


class ProfileError(PrintableError):
    """A model, a file of configurations or a run that gives no profile; the message says what and where."""
