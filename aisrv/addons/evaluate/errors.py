"""What ends an evaluation before it has a result."""

from aisrv.values.printable import PrintableError


class EvaluateError(PrintableError):
    """Base of the errors of this package; the message says what was wrong, where, and what to do."""


class DataError(EvaluateError):
    """A data set that cannot be read, or does not fit the model."""


class InputError(EvaluateError):
    """An example that cannot become the model's input, or settings of inputs that are wrong."""


class ExtraError(EvaluateError):
    """A missing package; the message has the command that installs it."""
