"""What can go wrong in inference: one family, which becomes status bits and lines of the debug log."""

import enum


class LoadResult(enum.IntEnum):
    """Outcome of loading a model, numbered as in the firmware; it has no number for OTHER."""

    FINE = 0
    SCHEMA_VERSION = 1
    TENSORS_DO_NOT_FIT = 2
    TOO_MANY_INPUTS = 3
    TOO_MANY_OUTPUTS = 4
    OTHER = 5


class InferenceError(Exception):
    """Base of everything that an inference engine raises on purpose."""


class ModelError(InferenceError):
    """A model that cannot be loaded: ERROR_MODEL_ERR on the wire. `load_result` says why."""

    def __init__(self, message: str, load_result: LoadResult = LoadResult.OTHER) -> None:
        super().__init__(message)
        self.load_result = load_result


class InvokeError(InferenceError):
    """An inference that failed on a loaded model: ERROR_INFER_ERR on the wire."""
