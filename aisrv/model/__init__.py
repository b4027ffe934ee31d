"""A TensorFlow Lite model file as a value: its tensors and operators, checked before an interpreter gets it.

`reader.read_model` reads the flatbuffer of TensorFlow Lite's schema version 3 (`schema.fbs`, identifier TFL3)
and touches no weights, so that a file of any size is read in a few milliseconds. Whatever the bytes
are, the answer is a Model or a ModelFileError: offsets, lengths and indices are checked, and MAX_TABLES,
MAX_TENSORS and the size of the file bound the work. What the check cannot know is whether an interpreter
has kernels for the operators.
"""

from aisrv.model.errors import MAX_TABLES, MAX_TENSORS, LoadResult, ModelFileError, SchemaVersionError
from aisrv.model.values import (
    Activation,
    Metadata,
    Model,
    Operator,
    Options,
    Padding,
    Quantization,
    Subgraph,
    Tensor,
    TensorType,
)

__all__ = [
    "MAX_TABLES",
    "MAX_TENSORS",
    "Activation",
    "LoadResult",
    "Metadata",
    "Model",
    "ModelFileError",
    "Operator",
    "Options",
    "Padding",
    "Quantization",
    "SchemaVersionError",
    "Subgraph",
    "Tensor",
    "TensorType",
]
