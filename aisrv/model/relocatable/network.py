"""Description of an image's network as values: the counterpart of `c/network.h`, field by field."""

import struct
from dataclasses import dataclass
from typing import Annotated, Final, Self

from aisrv.model import Quantization, Tensor, TensorType
from aisrv.model.relocatable.container import RAM, ROM, Image, offset
from aisrv.model.relocatable.errors import ImageError
from aisrv.model.schema import OPERATORS
from aisrv.values.packet import I32, U32, Packet, Wire
from aisrv.values.printable import printable

INFO_MAGIC: Final = 0x4E495641
"""First word of the network's description, bytes "AVIN"."""
PLACE_WEIGHTS: Final = 1 << 31
"""Marks a place in the weights; other places are in the activations."""
MOST_DIMENSIONS: Final = 6
NAME_BYTES: Final = 32

OBSERVE_BEFORE: Final = 1
OBSERVE_AFTER: Final = 2

_MOST_TENSORS: Final = 64
_MOST_NODES: Final = 4096


def _name(data: bytes) -> str:
    return printable(data.split(b"\0")[0].decode("ascii", "replace"))


def _name_bytes(name: str) -> bytes:
    return name.encode("ascii", "replace")[: NAME_BYTES - 1]


Name = Annotated[str, Wire(f"{NAME_BYTES}s", _name, _name_bytes)]
"""A name of at most 31 ASCII characters."""

Float = Annotated[float, Wire("f")]


class NetworkContext(Packet, byte_order="<", error=ImageError, name="the context of a network"):
    """The context of our images: the words that all have, then the observer's and ours."""

    state: U32
    network: U32
    ram: U32
    rom: U32
    heap: U32
    c_name: U32
    activations_size: U32
    weights_size: U32
    observer: U32
    cookie: U32
    observer_flags: U32
    info: U32
    error: U32
    weights: U32
    activations: U32


class NetworkInfo(Packet, byte_order="<", error=ImageError, name="the description of a network"):
    """Number of tensors and nodes that are described behind it."""

    magic: U32
    input_count: U32
    output_count: U32
    node_count: U32


class TensorInfo(Packet, byte_order="<", error=ImageError, name="the description of a tensor"):
    """An input or output."""

    type: U32
    rank: U32
    shape0: U32
    shape1: U32
    shape2: U32
    shape3: U32
    shape4: U32
    shape5: U32
    scale: Float
    """0 for a tensor that is not quantized."""
    zero_point: I32
    place: U32
    bytes: U32
    name: Name

    @classmethod
    def of(cls, tensor: Tensor, place: int) -> Self:
        """Describe a tensor of at most six dimensions and one scale."""
        a, b, c, d, e, f = (*tensor.shape, *(0,) * MOST_DIMENSIONS)[:MOST_DIMENSIONS]
        quantization = tensor.quantization
        scale, zero = (quantization.scale, quantization.zero_point) if quantization else (0.0, 0)
        rank, name = len(tensor.shape), tensor.name
        return cls(tensor.type, rank, a, b, c, d, e, f, scale, zero, place, tensor.nbytes, name)

    def tensor(self, index: int) -> Tensor:
        """Return the tensor as a model has it; ImageError if shape, type and bytes disagree."""
        shape = (self.shape0, self.shape1, self.shape2, self.shape3, self.shape4, self.shape5)
        if self.rank > MOST_DIMENSIONS or self.type not in TensorType.__members__.values():
            raise ImageError(f"tensor {index}: type {self.type} and {self.rank} dimensions make no sense")
        quantization = Quantization.per_tensor(self.scale, self.zero_point) if self.scale else None
        tensor = Tensor(self.name, shape[: self.rank], TensorType(self.type), quantization, index=index)
        if tensor.nbytes != self.bytes:
            raise ImageError(
                f"tensor {index}: its shape has {tensor.nbytes} bytes, the image says {self.bytes}"
            )
        return tensor


class NodeInfo(Packet, byte_order="<", error=ImageError, name="the description of a node"):
    """One operator of the network."""

    operator_code: U32
    kernel: U32
    multiplications: U32
    """Multiply-accumulates of a run."""
    instructions: U32
    """Instructions of a run, counted when the image was built; 0 if they were not."""
    bytes_moved: U32
    name: Name


class Report(Packet, byte_order="<", error=ImageError, name="the report of a network"):
    """Addresses in a network's report, and the number of its runs."""

    name: U32
    info: U32
    runs: U32
    activations_size: U32
    weights_size: U32


class NodeReport(Packet, byte_order="<", error=ImageError, name="the report of a node"):
    """Report to an observer."""

    index: U32
    moment: U32
    info: U32


BUFFER: Final = struct.Struct("<2I")
"""Address (0: the bytes lie in the activations) and size of a tensor, for a run."""

OBSERVER: Final = struct.Struct("<3I")
"""Callback, cookie and flags of an observer."""


@dataclass(frozen=True, slots=True)
class Network:
    """Tensors and nodes that an image describes."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    nodes: tuple[NodeInfo, ...]
    nodes_at: int
    """Offset of the nodes' descriptions in the image file."""

    @classmethod
    def of(cls, image: Image) -> Self:
        """Read the description; ImageError for an image of somebody else, or an invalid one."""
        header = image.header
        where = offset(header.ctx)
        if where + NetworkContext.SIZE > offset(header.data_end):
            raise ImageError("the image has no description of its tensors: it is not one of ours")
        context = NetworkContext.unpack_from(image.initial, where)
        at = offset(context.info)
        info_word = RAM << 28 | where + 11 * 4
        if context.info >> 28 != ROM or info_word & ~(RAM << 28) not in image.relocations:
            raise ImageError("the image has no description of its tensors: it is not one of ours")
        info = NetworkInfo.unpack_from(image.read_only, at)
        if info.magic != INFO_MAGIC:
            raise ImageError(f"no description of a network lies at {context.info:#010x}")
        tensors = info.input_count + info.output_count
        if not (info.input_count <= _MOST_TENSORS and info.output_count <= _MOST_TENSORS):
            raise ImageError(f"{info.input_count} inputs and {info.output_count} outputs are too many")
        if info.node_count > _MOST_NODES:
            raise ImageError(f"{info.node_count} nodes are too many")
        at += NetworkInfo.SIZE
        described = [
            TensorInfo.unpack_from(image.read_only, at + TensorInfo.SIZE * i) for i in range(tensors)
        ]
        nodes_at = at = at + TensorInfo.SIZE * tensors
        nodes = tuple(
            NodeInfo.unpack_from(image.read_only, at + NodeInfo.SIZE * i) for i in range(info.node_count)
        )
        for each in nodes:
            if each.operator_code >= len(OPERATORS):
                raise ImageError(f"unknown operator {each.operator_code}")
        for number, each_tensor in enumerate(described):
            _ = each_tensor.tensor(number)
            if each_tensor.place + each_tensor.bytes > context.activations_size:
                raise ImageError(f"tensor {number} lies outside of the activations")
        inputs = info.input_count
        return cls(tuple(described[:inputs]), tuple(described[inputs:]), nodes, nodes_at)

    @property
    def multiplications(self) -> int:
        return sum(node.multiplications for node in self.nodes)
