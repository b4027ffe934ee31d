"""The errors of model files, and the bounds that hold for every file."""

import enum
from typing import ClassVar, Final

from aisrv.values.printable import PrintableError

MAX_TABLES: Final = 65_536
"""Flatbuffer tables that are read from one file: bounds the time that a file with shared tables can take."""
MAX_TENSORS: Final = 4_096
"""Tensors of one subgraph; their bookkeeping alone would take 48 KiB of a device's 512."""
MAX_TENSOR_BYTES: Final = 2**31 - 1
"""Largest tensor: a 32-bit device addresses no more."""


class LoadResult(enum.IntEnum):
    """Outcome of loading a model, numbered as in the firmware; it has no numbers from OTHER on."""

    FINE = 0
    SCHEMA_VERSION = 1
    TENSORS_DO_NOT_FIT = 2
    TOO_MANY_INPUTS = 3
    TOO_MANY_OUTPUTS = 4
    OTHER = 5
    UNSUPPORTED = 6
    """Something in the model that the interpreter has no code for; another one may."""


class ModelFileError(PrintableError, ValueError):
    """Bytes that are not a model; the message says what is wrong and where."""

    load_result: ClassVar[LoadResult] = LoadResult.OTHER


class SchemaVersionError(ModelFileError):
    """A TensorFlow Lite file of another schema version than 3."""

    load_result = LoadResult.SCHEMA_VERSION
