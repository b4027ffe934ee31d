"""A TensorFlow Lite model file as a value: its tensors and operators, checked before an interpreter gets it.

`Model.from_bytes` reads the flatbuffer of the TensorFlow Lite schema version 3 (`schema.fbs`, file identifier
TFL3) and touches no weights, so that a file of any size is read in a few milliseconds. Whatever the bytes
are, the answer is a Model or a ModelFileError: offsets, lengths and indices are checked, and MAX_TABLES,
MAX_TENSORS and the size of the file bound the work. What the check cannot know is whether an interpreter
has kernels for the operators.
"""

from aisrv.model.errors import MAX_TABLES, MAX_TENSORS, ModelFileError, SchemaVersionError
from aisrv.model.operator_names import BUILTIN_OPERATORS
from aisrv.model.values import (
    Activation,
    Metadata,
    Model,
    Operator,
    Options,
    Padding,
    Quantization,
    Tensor,
    TensorType,
)

__all__ = [
    "BUILTIN_OPERATORS",
    "MAX_TABLES",
    "MAX_TENSORS",
    "Activation",
    "Metadata",
    "Model",
    "ModelFileError",
    "Operator",
    "Options",
    "Padding",
    "Quantization",
    "SchemaVersionError",
    "Tensor",
    "TensorType",
]
