"""What a file is refused with, and the bounds that hold for every file."""

from typing import Final

MAX_TABLES: Final = 65_536
"""Flatbuffer tables that are read from one file: bounds the time that a file with shared tables can take."""
MAX_TENSORS: Final = 4_096
"""Tensors of one subgraph; their bookkeeping alone would take 48 KiB of a device's 512."""
MAX_TENSOR_BYTES: Final = 2**31 - 1
"""Largest tensor: a 32-bit device addresses no more."""


class ModelFileError(ValueError):
    """Bytes that are no model; the message says what is wrong and where."""


class SchemaVersionError(ModelFileError):
    """A TensorFlow Lite file of another schema version than 3."""
