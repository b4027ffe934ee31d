"""What the input and output tensors of a model are: the answer of GET_TENSORS. The layout is ours.

u16 inputs, u16 outputs, then for each tensor
u8 type, u8 dimensions, u16 0, f32 scale, i32 zero point, and a u32 for each dimension
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Self

from aisrv.protocol.commands import AisrvPacket, ProtocolError
from aisrv.values.packet import I32, U8, U16, U32, Wire

_F32 = Annotated[float, Wire("f")]


class _Counts(AisrvPacket, name="the description of a model's tensors"):
    inputs: U16
    outputs: U16


class _Head(AisrvPacket, name="the description of a tensor"):
    type: U8
    dimensions: U8
    reserved: U16
    scale: _F32
    zero_point: I32


class _Dimension(AisrvPacket, name="a dimension"):
    size: U32


@dataclass(frozen=True, slots=True)
class TensorDescription:
    """One tensor; `scale` is 0 where it is not quantized, or not as a whole."""

    type: int
    """As the schema numbers them: `aisrv.model.values.TensorType`."""
    shape: tuple[int, ...]
    scale: float = 0.0
    zero_point: int = 0

    @property
    def elements(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    def __bytes__(self) -> bytes:
        head = _Head(self.type, len(self.shape), 0, self.scale, self.zero_point)
        return bytes(head) + b"".join(bytes(_Dimension(size)) for size in self.shape)


@dataclass(frozen=True, slots=True)
class TensorDescriptions:
    """The tensors of a model by number; none without a model."""

    inputs: tuple[TensorDescription, ...] = ()
    outputs: tuple[TensorDescription, ...] = ()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the answer of GET_TENSORS; ProtocolError where it is malformed."""
        counts = _Counts.unpack_from(data)
        at = _Counts.SIZE
        tensors = []
        for _ in range(counts.inputs + counts.outputs):
            head = _Head.unpack_from(data, at)
            at += _Head.SIZE
            shape = []
            for _ in range(head.dimensions):
                shape.append(_Dimension.unpack_from(data, at).size)
                at += _Dimension.SIZE
            tensors.append(TensorDescription(head.type, tuple(shape), head.scale, head.zero_point))
        if at != len(data):
            raise ProtocolError(f"{_Counts._name} has {at} bytes, not {len(data)}")
        return cls(tuple(tensors[: counts.inputs]), tuple(tensors[counts.inputs :]))

    def __bytes__(self) -> bytes:
        return bytes(_Counts(len(self.inputs), len(self.outputs))) + _joined((*self.inputs, *self.outputs))


def _joined(tensors: Iterable[TensorDescription]) -> bytes:
    return b"".join(map(bytes, tensors))
