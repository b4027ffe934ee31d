"""The errors of inference, which become status bits and lines of the debug log."""

from typing import Self

from aisrv.model.errors import LoadResult, ModelFileError
from aisrv.values.printable import PrintableError


class InferenceError(PrintableError):
    """Base of the errors of an inference engine."""


class ModelError(InferenceError):
    """A model that cannot be loaded: ERROR_MODEL_ERR on the wire. `load_result` says why."""

    def __init__(self, message: str, load_result: LoadResult = LoadResult.OTHER) -> None:
        super().__init__(message)
        self.load_result = load_result

    @classmethod
    def of(cls, error: ModelFileError) -> Self:
        """Wrap the error of a model file."""
        return cls(str(error), error.load_result)


class InvokeError(InferenceError):
    """An inference that failed on a loaded model: ERROR_INFER_ERR on the wire."""
