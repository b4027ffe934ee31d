"""Biases with a scale for each channel and the dimension of their weights, as older converters wrote them.

TensorFlow Lite Micro takes them, TensorFlow Lite refuses the whole file. A vector has one dimension only, so
the number can mean no other.
"""

from collections.abc import Iterator

from aisrv.model.errors import ModelFileError
from aisrv.model.flatbuffer import I32, File, Table


def with_sound_dimensions(data: bytes) -> bytes:
    """Return a model file with dimension 0 if a vector's scales name another; a broken file as it is."""
    try:
        stale = list(_stale_positions(File(data).root))
    except ModelFileError:
        return data
    if not stale:
        return data
    changed = bytearray(data)
    for position in stale:
        I32.pack_into(changed, position, 0)
    return bytes(changed)


def is_vector_of_channels(shape: tuple[int, ...], scales: int) -> bool:
    """Check whether a tensor is a vector with a scale for each element."""
    return shape == (scales,)


def _stale_positions(root: Table) -> Iterator[int]:
    """Yield the positions of meaningless dimensions in the file."""
    for subgraph in root.tables("subgraphs", "subgraph"):
        for tensor in subgraph.tables("tensors", "tensor"):
            quantization = tensor.table("quantization")
            if quantization is None or not quantization.integer("quantized_dimension"):
                continue
            scales = len(quantization.view("scale"))
            if scales > 1 and is_vector_of_channels(tensor.numbers("shape"), scales):
                yield quantization.field_position("quantized_dimension")
